//! Lists as bytes, made ready once per revision and served without being touched again.

use std::sync::OnceLock;

use toolyard_proto::{Raw, Revision, legacy};

use super::ListKind;

const PAGE_ENTRIES: usize = 5_000;
const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// How long clients may rely on a list; changes are announced anyway.
const TTL_MS: u64 = 60_000;

#[derive(Debug, Default)]
pub(super) struct Lists {
    entries: [Vec<Raw>; 4],
    ready: [[OnceLock<Vec<Raw>>; Revision::ALL.len()]; 4],
    settled: bool,
}

impl Lists {
    pub(super) fn new(settled: bool) -> Self {
        Self { settled, ..Self::default() }
    }

    pub(super) fn push(&mut self, kind: ListKind, raw: Raw) {
        self.entries[kind.index()].push(raw);
    }

    /// The page that `cursor` names; `None` if it names none. `stamp` gives the `_meta` of the result, where
    /// the revision has one.
    pub(super) fn page(
        &self,
        kind: ListKind,
        revision: Revision,
        cursor: Option<&str>,
        stamp: impl FnOnce() -> Raw,
    ) -> Option<Raw> {
        let pages =
            self.ready[kind.index()][revision as usize].get_or_init(|| self.render(kind, revision, &stamp()));
        let at = match cursor {
            None => 0,
            Some(cursor) => self.page_number(cursor)?,
        };
        pages.get(at).cloned()
    }

    fn render(&self, kind: ListKind, revision: Revision, meta: &Raw) -> Vec<Raw> {
        let entries: Vec<Raw> =
            self.entries[kind.index()].iter().map(|raw| fitting(kind, revision, raw)).collect();
        let mut groups: Vec<&[Raw]> = Vec::new();
        let (mut start, mut size) = (0, 0);
        for (at, entry) in entries.iter().enumerate() {
            if at > start && (at - start == PAGE_ENTRIES || size + entry.len() > PAGE_BYTES) {
                groups.push(&entries[start..at]);
                (start, size) = (at, 0);
            }
            size += entry.len() + 1;
        }
        groups.push(&entries[start..]);
        let last = groups.len() - 1;
        let page = |(number, group): (usize, &&[Raw])| {
            let next = (number < last).then(|| self.cursor(number + 1));
            self.render_page(kind, revision, group, next, meta)
        };
        groups.iter().enumerate().map(page).collect()
    }

    fn render_page(
        &self,
        kind: ListKind,
        revision: Revision,
        group: &[Raw],
        next: Option<String>,
        meta: &Raw,
    ) -> Raw {
        let list = Raw::array(group);
        let mut page = Raw::empty_object().with(kind.key(), &list);
        if let Some(next) = next {
            page = page.with("nextCursor", &Raw::from_serialize(&next));
        }
        if revision.has_result_stamps() {
            let ttl = if self.settled { TTL_MS } else { 0 };
            page = page.with("resultType", &Raw::from_serialize(&"complete"));
            page = page.with("ttlMs", &Raw::from_serialize(&ttl));
            page = page.with("cacheScope", &Raw::from_serialize(&"public"));
            page = page.with("_meta", meta);
        }
        page
    }

    /// A cursor says how much the lists held, so that one from another time is told apart.
    fn cursor(&self, page: usize) -> String {
        format!("{page}-{}", self.entries.iter().map(Vec::len).sum::<usize>())
    }

    fn page_number(&self, cursor: &str) -> Option<usize> {
        let page = cursor.split('-').next()?.parse().ok()?;
        (self.cursor(page) == cursor).then_some(page)
    }
}

fn fitting(kind: ListKind, revision: Revision, raw: &Raw) -> Raw {
    if kind == ListKind::Tools { legacy::tool_for(revision, raw) } else { legacy::entry_for(revision, raw) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_joined_are_the_whole_list() {
        let mut lists = Lists::new(true);
        for n in 0..12_000 {
            lists.push(ListKind::Tools, Raw::parse(format!(r#"{{"name":"t{n}"}}"#)).unwrap());
        }
        let (mut cursor, mut names) = (None::<String>, Vec::new());
        loop {
            let page = lists
                .page(ListKind::Tools, Revision::V2025_11_25, cursor.as_deref(), Raw::empty_object)
                .unwrap()
                .read::<serde_json::Value>()
                .unwrap();
            names.extend(
                page["tools"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|tool| tool["name"].as_str().unwrap().to_owned()),
            );
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(names, (0..12_000).map(|n| format!("t{n}")).collect::<Vec<_>>());
        for bad in ["", "x", "9-12000", "1-3", "-1-12000"] {
            assert!(
                lists.page(ListKind::Tools, Revision::V2025_11_25, Some(bad), Raw::empty_object).is_none(),
                "{bad}"
            );
        }
    }
}
