//! Server-sent events, both ways.

use bytes::{BufMut, Bytes, BytesMut};
use memchr::memchr2;

use super::TooLarge;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The `event` field; empty means `message`.
    pub name: String,
    pub data: Bytes,
    pub id: Option<String>,
    pub retry: Option<u64>,
}

#[derive(Debug)]
pub struct EventDecoder {
    buffer: BytesMut,
    seen: usize,
    limit: usize,
    event: Event,
    data: Vec<u8>,
    has_data: bool,
    after_cr: bool,
}

impl EventDecoder {
    pub fn new(limit: usize) -> Self {
        let buffer = BytesMut::new();
        let event = Event::default();
        let data = Vec::new();
        Self { buffer, seen: 0, limit, event, data, has_data: false, after_cr: false }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole event. An event with an id or a retry hint but no data is returned too, with empty data:
    /// resuming a stream needs it.
    pub fn next_event(&mut self) -> Result<Option<Event>, TooLarge> {
        while let Some(line) = self.next_line()? {
            if !line.is_empty() {
                self.field(&line);
                continue;
            }
            let mut event = std::mem::take(&mut self.event);
            let data = std::mem::take(&mut self.data);
            let had_data = std::mem::take(&mut self.has_data);
            if had_data || event.id.is_some() || event.retry.is_some() {
                event.data = Bytes::from(data);
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn next_line(&mut self) -> Result<Option<Bytes>, TooLarge> {
        if let Some(first) = self.buffer.first() {
            // The second half of a line end, and only if it comes next.
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                let _ = self.buffer.split_to(1);
                self.seen = self.seen.saturating_sub(1);
            }
        }
        let Some(step) = memchr2(b'\n', b'\r', &self.buffer[self.seen..]) else {
            self.seen = self.buffer.len();
            return self.bounded(self.seen).map(|()| None);
        };
        let end = self.seen + step;
        self.bounded(end)?;
        let mut line = self.buffer.split_to(end + 1);
        self.after_cr = line[end] == b'\r';
        self.seen = 0;
        line.truncate(end);
        Ok(Some(line.freeze()))
    }

    fn bounded(&self, more: usize) -> Result<(), TooLarge> {
        if self.data.len() + more > self.limit { Err(TooLarge { limit: self.limit }) } else { Ok(()) }
    }

    fn field(&mut self, line: &[u8]) {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.has_data = true;
            }
            b"event" => self.event.name = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => self.event.id = Some(String::from_utf8_lossy(value).into_owned()),
            b"retry" => self.event.retry = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()),
            _ => {}
        }
    }
}

/// One event with a message in it. JSON on one line needs one `data` field; a line end inside (white space
/// between tokens, never part of a string) becomes a field of its own, so the payload arrives as it was.
pub fn encode(message: &[u8], id: Option<&str>) -> Bytes {
    let mut out = BytesMut::with_capacity(message.len() + 32 + id.map_or(0, str::len));
    if let Some(id) = id {
        out.put_slice(b"id: ");
        out.put_slice(id.as_bytes());
        out.put_u8(b'\n');
    }
    out.put_slice(b"event: message\n");
    for line in message.split(|byte| *byte == b'\n') {
        out.put_slice(b"data: ");
        out.put_slice(line.strip_suffix(b"\r").unwrap_or(line));
        out.put_u8(b'\n');
    }
    out.put_u8(b'\n');
    out.freeze()
}

/// How far the search for the end of an event has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// The start of the line whose end has not been found.
    line: usize,
    /// Where to continue when more has arrived. What comes before is not read again, or a long line that arrives in
    /// many pieces would cost the square of its length.
    next: usize,
}

/// The end of the first event in `bytes`, its blank line included. Otherwise, how far the search has come. A carriage
/// return at the very end may be half of a line end.
pub fn event_end(bytes: &[u8], from: Searched) -> Result<usize, Searched> {
    let Searched { mut line, mut next } = from;
    loop {
        let Some(step) = memchr2(b'\n', b'\r', &bytes[next..]) else {
            return Err(Searched { line, next: bytes.len() });
        };
        let end = next + step;
        next = match (bytes[end], bytes.get(end + 1)) {
            (b'\r', None) => return Err(Searched { line, next: end }),
            (b'\r', Some(b'\n')) => end + 2,
            _ => end + 1,
        };
        if end == line {
            return Ok(next);
        }
        line = next;
    }
}

/// The data of one whole event; `None` if it has no such field. Data on one line is not copied.
pub fn data_of(event: &Bytes) -> Option<Bytes> {
    let mut found: Option<Bytes> = None;
    for line in event.split(|byte| matches!(byte, b'\n' | b'\r')) {
        let Some(value) = line.strip_prefix(b"data") else { continue };
        let value = match value {
            [] => value,
            [b':', b' ', value @ ..] | [b':', value @ ..] => value,
            _ => continue,
        };
        found = Some(match found {
            None => event.slice_ref(value),
            Some(before) => Bytes::from([&before, &b"\n"[..], value].concat()),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&str]) -> Vec<Event> {
        let mut decoder = EventDecoder::new(1000);
        let mut out = Vec::new();
        for chunk in chunks {
            decoder.feed(chunk.as_bytes());
            while let Some(event) = decoder.next_event().unwrap() {
                out.push(event);
            }
        }
        out
    }

    #[test]
    fn a_line_end_is_one_however_it_is_cut() {
        for chunks in [&["data: x\r\n", "\n"][..], &["data: x\r", "\n", "\n"], &["data: x\r", "\n\r", "\n"]] {
            assert_eq!(events(chunks).len(), 1, "{chunks:?}");
        }
    }

    #[test]
    fn events_come_whole_however_they_are_cut() {
        let text = ": note\r\nid: 7\r\nretry: 50\r\ndata:\r\n\r\nevent: message\ndata: {\"a\":\ndata: 1}\n\n:\n\ndata: x\r\r";
        let whole = events(&[text]);
        assert_eq!(whole.len(), 3);
        assert_eq!((whole[0].id.as_deref(), whole[0].retry, whole[0].data.len()), (Some("7"), Some(50), 0));
        assert_eq!(whole[1].data, "{\"a\":\n1}");
        let pieces: Vec<String> = text.chars().map(String::from).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        assert_eq!(events(&pieces), whole);
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let encoded = encode(b"{\"a\":1}", Some("s-1"));
        let event = &events(&[std::str::from_utf8(&encoded).unwrap()])[0];
        assert_eq!((event.data.as_ref(), event.id.as_deref()), (&b"{\"a\":1}"[..], Some("s-1")));
    }

    #[test]
    fn an_event_past_the_limit_is_refused() {
        let mut decoder = EventDecoder::new(8);
        decoder.feed(b"data: 0123456789");
        assert!(decoder.next_event().is_err());
    }

    #[test]
    fn events_are_found_in_bytes_as_the_decoder_finds_them() {
        let text = ":x\r\n\r\nevent: message\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\rdata: y\n\nid: 1\n\n";
        let bytes = Bytes::from_static(text.as_bytes());
        let (mut at, mut found) = (0, Vec::new());
        while let Ok(end) = event_end(&bytes[at..], Searched::default()) {
            found.push(data_of(&bytes.slice(at..at + end)));
            at += end;
        }
        assert_eq!(at, bytes.len());
        let found: Vec<Option<&[u8]>> = found.iter().map(Option::as_deref).collect();
        assert_eq!(found, [None, Some(&b"{\"a\":\n1}"[..]), Some(b"x"), Some(b"y"), None]);
    }

    /// What was searched is overwritten with line ends, which would be found if it were read again.
    #[test]
    fn the_end_of_an_event_is_found_without_reading_any_byte_again() {
        for text in ["data: 1\ndata: 22\n\n", "data: 1\r\ndata: 22\r\n\r\n", ": x\rdata: 1\r\r: y\n"] {
            let whole = event_end(text.as_bytes(), Searched::default()).unwrap();
            let (mut bytes, mut searched) = (Vec::new(), Searched::default());
            let found = text.bytes().find_map(|byte| {
                bytes.push(byte);
                let found = event_end(&bytes, searched);
                if let Err(so_far) = found {
                    let unread = bytes.len() - so_far.next;
                    assert!(unread == 0 || (unread == 1 && byte == b'\r'), "{unread} of {bytes:?}");
                    bytes[..so_far.next].fill(b'\n');
                    searched = so_far;
                }
                found.ok()
            });
            assert_eq!(found, Some(whole), "{text:?}");
        }
    }
}
