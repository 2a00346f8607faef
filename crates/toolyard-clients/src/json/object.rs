//! An object in a JSON text: where it and its members stand.

use std::ops::Range;

use toolyard_proto::splice::members;

pub(super) struct Object {
    pub open: usize,
    pub close: usize,
    pub members: Vec<Member>,
}

pub(super) struct Member {
    pub name: String,
    pub key: Range<usize>,
    pub value: Range<usize>,
}

impl Object {
    /// The object that a range of a text without comments starts with, if it is one.
    pub(super) fn at(plain: &str, range: Range<usize>) -> Option<Self> {
        let open = range.start;
        let text = plain.get(range)?.as_bytes();
        let shifted = |range: Range<usize>| open + range.start..open + range.end;
        text.first().filter(|first| **first == b'{')?;
        let read = |member: toolyard_proto::splice::Member| Member {
            name: serde_json::from_slice(&text[member.key.at.clone()]).unwrap_or_default(),
            key: shifted(member.key.at),
            value: shifted(member.value),
        };
        let members: Vec<Member> = members(text).map(read).collect();
        let end = members.last().map_or(open + 1, |last| last.value.end);
        let close = end + plain[end..].find('}')?;
        Some(Self { open, close, members })
    }

    pub(super) fn member(&self, name: &str) -> Option<(usize, &Member)> {
        self.members.iter().enumerate().find(|(_, member)| member.name == name)
    }
}
