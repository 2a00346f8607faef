//! Server-sent events, read piece by piece: the data of each event. Bounded in the size of one event.

use crate::trouble::Trouble;

/// The largest event.
pub(crate) const MOST_EVENT: usize = 4 << 20;

#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The line that has not ended yet.
    line: Vec<u8>,
    data: String,
    has_data: bool,
}

impl Events {
    /// The data of the events that these bytes complete.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<String>, Trouble> {
        let mut out = Vec::new();
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&bytes[..at]);
            bytes = &bytes[at + 1..];
            let line = std::mem::take(&mut self.line);
            self.bounded(line.len())?;
            self.take_line(line.strip_suffix(b"\r").unwrap_or(&line), &mut out)?;
        }
        self.line.extend_from_slice(bytes);
        self.bounded(self.line.len())?;
        Ok(out)
    }

    /// What was sent without the empty line that ends an event.
    pub(crate) fn finish(&mut self) -> Option<String> {
        self.event()
    }

    fn take_line(&mut self, line: &[u8], out: &mut Vec<String>) -> Result<(), Trouble> {
        if line.is_empty() {
            out.extend(self.event());
            return Ok(());
        }
        let Ok(line) = std::str::from_utf8(line) else {
            return Err(Trouble::Garbage("bytes that are not UTF-8".into()));
        };
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        match field {
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(value.strip_prefix(' ').unwrap_or(value));
                self.bounded(0)
            }
            "" | "event" | "id" | "retry" => Ok(()),
            _ => Err(Trouble::Garbage(format!("the line `{line}`"))),
        }
    }

    fn event(&mut self) -> Option<String> {
        std::mem::take(&mut self.has_data).then(|| std::mem::take(&mut self.data))
    }

    fn bounded(&self, more: usize) -> Result<(), Trouble> {
        if self.data.len() + more > MOST_EVENT { Err(Trouble::TooLarge(MOST_EVENT)) } else { Ok(()) }
    }
}

/// The beginning of a text, for a message.
pub(crate) fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(120).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let text = b": ping\r\nevent: a\r\ndata: {\"x\":1}\r\n\r\ndata: one\ndata:two\n\ndata: \xc3\xa4\n\n";
        for size in 1..text.len() {
            let mut events = Events::default();
            let found: Vec<String> =
                text.chunks(size).flat_map(|chunk| events.push(chunk).unwrap()).collect();
            assert_eq!(found, ["{\"x\":1}", "one\ntwo", "ä"], "pieces of {size}");
        }
    }

    #[test]
    fn an_endless_event_and_other_protocols_are_refused() {
        let mut events = Events::default();
        let chunk = vec![b'x'; 1 << 20];
        let refused = (0..8).find_map(|_| events.push(&chunk).err());
        assert_eq!(refused, Some(Trouble::TooLarge(MOST_EVENT)));
        assert!(matches!(Events::default().push(b"<html>\n"), Err(Trouble::Garbage(_))));
        assert!(matches!(Events::default().push(b"data: \xff\n"), Err(Trouble::Garbage(_))));
    }
}
