//! Whether an answer that is only relayed is an error, and which. It is read piece by piece,
//! and nothing of it is kept.

use toolyard_model::answer::RelayKind;

use super::Status;

/// No key and no code that matters is longer.
const LONGEST_WORD: usize = 16;

/// A key that matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Key {
    Result,
    Error,
    IsError,
    Code,
    #[default]
    Other,
}

impl Key {
    fn of(word: &[u8]) -> Self {
        match word {
            b"result" => Self::Result,
            b"error" => Self::Error,
            b"isError" => Self::IsError,
            b"code" => Self::Code,
            _ => Self::Other,
        }
    }
}

/// The reader's position in a line of an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinePosition {
    /// This number of characters of `data:` has been read.
    Start(usize),
    Data,
    Other,
}

#[derive(Debug)]
pub(crate) struct Verdict {
    /// `None` if the whole body is one message.
    line: Option<LinePosition>,
    depth: u32,
    /// The keys that lead here, of the first two levels.
    keys: [Key; 2],
    word: Vec<u8>,
    in_text: bool,
    escaped: bool,
    was_text: bool,
    /// The status of the current message, by the part that was read.
    current: Option<Status>,
    /// The status of the answer.
    answer: Option<Status>,
}

impl Verdict {
    pub(crate) fn new(kind: RelayKind) -> Self {
        Self {
            line: (kind == RelayKind::Sse).then_some(LinePosition::Start(0)),
            depth: 0,
            keys: [Key::Other; 2],
            word: Vec::with_capacity(LONGEST_WORD),
            in_text: false,
            escaped: false,
            was_text: false,
            current: None,
            answer: None,
        }
    }

    /// The status of the answer, if the answer has passed.
    pub(crate) fn answer(&self) -> Option<Status> {
        self.answer
    }

    pub(crate) fn read(&mut self, piece: &[u8]) {
        let mut at = 0;
        while let Some(&byte) = piece.get(at) {
            if self.in_text && !self.escaped && !matches!(byte, b'"' | b'\\') {
                // Long texts are most of a long answer.
                let end = memchr::memchr2(b'"', b'\\', &piece[at..]).map_or(piece.len(), |off| at + off);
                self.keep(&piece[at..end]);
                at = end;
                continue;
            }
            at += 1;
            match self.line {
                Some(line) => self.in_line(line, byte),
                None => self.step(byte),
            }
        }
    }

    /// A message may span several lines; lines without data are skipped.
    fn in_line(&mut self, line: LinePosition, byte: u8) {
        const DATA: &[u8] = b"data:";
        self.line = Some(match (line, byte) {
            (_, b'\n' | b'\r') => LinePosition::Start(0),
            (LinePosition::Start(seen), byte) if DATA[seen] == byte && seen + 1 == DATA.len() => {
                LinePosition::Data
            }
            (LinePosition::Start(seen), byte) if DATA[seen] == byte => LinePosition::Start(seen + 1),
            (LinePosition::Data, byte) => {
                self.step(byte);
                LinePosition::Data
            }
            _ => LinePosition::Other,
        });
    }

    fn step(&mut self, byte: u8) {
        if self.in_text {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                _ => (self.in_text, self.was_text) = (false, true),
            }
            return;
        }
        match byte {
            b'"' => {
                self.word.clear();
                self.in_text = true;
            }
            b':' => self.key(),
            b'{' | b'[' => self.open(),
            b'}' | b']' => self.close(),
            b',' => self.value(),
            b' ' | b'\t' | b'\n' | b'\r' => {}
            byte => self.keep(&[byte]),
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = (LONGEST_WORD + 1).saturating_sub(self.word.len());
        self.word.extend(bytes.iter().take(room));
    }

    fn key(&mut self) {
        let key = Key::of(&self.word);
        if let Some(place) = self.keys.get_mut((self.depth as usize).wrapping_sub(1)) {
            *place = key;
        }
        if self.depth == 1 {
            self.current = match key {
                Key::Result => Some(Status::Ok),
                Key::Error => Some(Status::ProtocolError(0)),
                _ => self.current,
            };
        }
        self.word.clear();
        self.was_text = false;
    }

    fn open(&mut self) {
        self.depth += 1;
        if let Some(place) = self.keys.get_mut(self.depth as usize - 1) {
            *place = Key::Other;
        }
        self.word.clear();
    }

    fn close(&mut self) {
        self.value();
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0 {
            self.answer = self.current.take().or(self.answer);
        }
    }

    fn value(&mut self) {
        let (word, is_text) = (std::mem::take(&mut self.word), std::mem::take(&mut self.was_text));
        if self.depth == 2 && !is_text {
            match self.keys {
                [Key::Result, Key::IsError] if word == b"true" => self.current = Some(Status::ToolError),
                [Key::Error, Key::Code] => {
                    let code = std::str::from_utf8(&word).ok().and_then(|text| text.parse().ok());
                    self.current = Some(Status::ProtocolError(code.unwrap_or_default()));
                }
                _ => {}
            }
        }
        self.word = word;
        self.word.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn verdict(kind: RelayKind, pieces: &[&[u8]]) -> Option<Status> {
        let mut verdict = Verdict::new(kind);
        for piece in pieces {
            verdict.read(piece);
        }
        verdict.answer()
    }

    const ANSWERS: [(&str, Status); 8] = [
        (r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hi"}]}}"#, Status::Ok),
        (r#"{"result":{"content":[],"isError":true},"id":1}"#, Status::ToolError),
        (r#"{"result":{"isError" : true , "content":[]},"id":1}"#, Status::ToolError),
        (r#"{"result":{"isError":false,"content":[]},"id":1}"#, Status::Ok),
        (r#"{"result":{"structuredContent":{"isError":true,"error":{"code":7}}},"id":1}"#, Status::Ok),
        (r#"{"result":{"content":[{"text":"{\"isError\":true}\\"}]},"id":1}"#, Status::Ok),
        (r#"{"id":1,"error":{"code":-32602,"message":"no {such} \"tool\""}}"#, Status::ProtocolError(-32602)),
        (
            r#"{"error":{"message":"x","data":{"code":9},"code":-32000},"id":1}"#,
            Status::ProtocolError(-32000),
        ),
    ];

    #[test]
    fn an_answer_is_judged_by_its_own_members_alone() {
        for (text, expected) in ANSWERS {
            assert_eq!(verdict(RelayKind::Json, &[text.as_bytes()]), Some(expected), "{text}");
            let events = format!(
                ": hello\nevent: message\ndata: {{\"method\":\"notifications/progress\",\"params\":{{}}}}\n\ndata: {text}\n\n"
            );
            assert_eq!(verdict(RelayKind::Sse, &[events.as_bytes()]), Some(expected), "{events}");
        }
        assert_eq!(verdict(RelayKind::Json, &[br#"{"result":{"isError":true"#]), None, "it broke off");
        assert_eq!(verdict(RelayKind::Sse, &[b"data: {\"method\":\"x\"}\n\n"]), None);
    }

    proptest! {
        #[test]
        fn the_verdict_does_not_depend_on_where_it_is_cut(which in 0..ANSWERS.len(), cuts in prop::collection::vec(0usize..100, 0..6)) {
            let (text, expected) = ANSWERS[which];
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % text.len()).collect();
            cuts.sort_unstable();
            let ends = cuts.iter().copied().chain([text.len()]);
            let starts = [0].into_iter().chain(cuts.iter().copied());
            let pieces: Vec<&[u8]> = starts.zip(ends).map(|(from, to)| &text.as_bytes()[from..to]).collect();
            prop_assert_eq!(verdict(RelayKind::Json, &pieces), Some(expected));
        }

        #[test]
        fn nothing_makes_it_stumble(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (verdict(RelayKind::Json, &[&bytes]), verdict(RelayKind::Sse, &[&bytes]));
        }
    }
}
