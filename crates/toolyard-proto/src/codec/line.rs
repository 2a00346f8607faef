//! One message per line. Feed bytes as they come, take lines as they become whole.

use bytes::{Buf, Bytes, BytesMut};
use memchr::{memchr, memchr2};

use super::TooLarge;
use crate::Raw;

/// Lines of this length get memory of their own.
const LONG: usize = 64 * 1024;

#[derive(Debug)]
pub struct LineDecoder {
    buffer: BytesMut,
    /// How much of `buffer` is known to hold no line end.
    seen: usize,
    limit: usize,
}

impl LineDecoder {
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), seen: 0, limit }
    }

    /// Changes the limit.
    pub fn limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The buffer that a reader fills.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next whole line without its line end, empty lines left out; `None` when more bytes are needed.
    pub fn next_line(&mut self) -> Result<Option<Bytes>, TooLarge> {
        loop {
            let Some(step) = memchr(b'\n', &self.buffer[self.seen..]) else {
                self.seen = self.buffer.len();
                return if self.seen > self.limit { Err(TooLarge { limit: self.limit }) } else { Ok(None) };
            };
            let mut line = self.split_line(self.seen + step + 1);
            self.seen = 0;
            if line.len() > self.limit {
                return Err(TooLarge { limit: self.limit });
            }
            let end = line.iter().rposition(|byte| !byte.is_ascii_whitespace()).map_or(0, |at| at + 1);
            line.truncate(end);
            if !line.is_empty() {
                return Ok(Some(line));
            }
        }
    }

    /// Takes the first bytes out of the buffer. A long line keeps no memory alive but its own: the shorter of
    /// the line and what follows it is copied, and the spare room behind the line is released.
    fn split_line(&mut self, length: usize) -> Bytes {
        let following = self.buffer.len() - length;
        if length < LONG {
            self.buffer.split_to(length).freeze()
        } else if following < length {
            let following = BytesMut::from(&self.buffer[length..]);
            let mut line = Vec::from(std::mem::replace(&mut self.buffer, following));
            line.truncate(length);
            line.shrink_to_fit();
            line.into()
        } else {
            let line = Bytes::copy_from_slice(&self.buffer[..length]);
            self.buffer.advance(length);
            line
        }
    }

    /// The rest at the end of the input, if it lacks only its line end. A message that was cut off lacks
    /// more: half an object is not valid JSON.
    pub fn last_line(&mut self) -> Option<Bytes> {
        self.seen = 0;
        let line = self.buffer.split().freeze();
        let line = line.slice_ref(line.trim_ascii());
        let is_whole = matches!(line.first(), Some(b'{' | b'[')) && line.len() <= self.limit;
        (is_whole && Raw::parse(line.clone()).is_ok()).then_some(line)
    }
}

/// JSON on one line. A line end in valid JSON is white space between tokens, so a space replaces it; where
/// there is none, nothing is copied.
pub fn one_line(json: Bytes) -> Bytes {
    let Some(first) = memchr2(b'\n', b'\r', &json) else { return json };
    let mut out = BytesMut::from(&json[..]);
    for byte in &mut out[first..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]], limit: usize) -> Result<Vec<Bytes>, TooLarge> {
        let mut decoder = LineDecoder::new(limit);
        let mut out = Vec::new();
        for chunk in chunks {
            decoder.buffer().extend_from_slice(chunk);
            while let Some(line) = decoder.next_line()? {
                out.push(line);
            }
        }
        Ok(out)
    }

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        assert_eq!(lines(&[b"ab", b"c\r\n\n  \nd", b"\n"], 10).unwrap(), ["abc", "d"]);
        assert_eq!(
            lines(&["é\n".as_bytes().split_at(1).0, "é\n".as_bytes().split_at(1).1], 10).unwrap(),
            ["é"]
        );
    }

    #[test]
    fn long_lines_share_no_memory_with_others() {
        let (long, longer) = ("x".repeat(LONG), "y".repeat(3 * LONG));
        let text = format!("{long}\n{longer}\n{long}\nshort\n");
        let taken = lines(&[text.as_bytes()], 4 * LONG).unwrap();
        assert_eq!(taken, [&*long, &*longer, &*long, "short"]);
        assert!(taken.into_iter().all(|line| line.try_into_mut().is_ok()));
    }

    #[test]
    fn json_over_several_lines_becomes_one_line() {
        assert_eq!(one_line(Bytes::from_static(b"{\r\n\"a\":\n1}")), "{  \"a\": 1}");
        assert_eq!(one_line(Bytes::from_static(br#"{"a":"\n"}"#)), r#"{"a":"\n"}"#);
    }

    #[test]
    fn a_last_line_may_lack_its_end_and_nothing_else() {
        for (rest, expected) in [
            (r#"{"a":1}"#, Some(r#"{"a":1}"#)),
            (" [1] \r", Some("[1]")),
            (r#"{"a":1"#, None),
            (r#"{"a":1}}"#, None),
            ("17", None),
            ("", None),
            (r#"{"a":"12345678901234567890"}"#, None),
        ] {
            let mut decoder = LineDecoder::new(20);
            decoder.buffer().extend_from_slice(b"first\n");
            decoder.buffer().extend_from_slice(rest.as_bytes());
            assert_eq!(decoder.next_line().unwrap().unwrap(), "first");
            assert_eq!(decoder.last_line().as_deref(), expected.map(str::as_bytes), "{rest}");
            assert_eq!(decoder.next_line().unwrap(), None);
        }
    }

    #[test]
    fn a_line_past_the_limit_is_refused() {
        assert!(lines(&[b"0123456789", b"0"], 10).is_err());
        assert!(lines(&[b"01234567890\n"], 10).is_err());
    }
}
