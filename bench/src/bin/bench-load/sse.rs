//! Reads messages from an event stream. A message is one `data:` line, as every MCP server sends it.

use std::ops::Range;

use http_body_util::BodyExt;
use hyper::body::Incoming;

pub(crate) struct Events {
    body: Incoming,
    buffer: Vec<u8>,
    /// Where the first line not yet looked at begins.
    start: usize,
    /// Up to where that line is known to hold no newline.
    scanned: usize,
}

impl Events {
    pub(crate) fn new(body: Incoming) -> Self {
        Self { body, buffer: Vec::new(), start: 0, scanned: 0 }
    }

    /// The next message, or nothing at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<&[u8]>, String> {
        let message = loop {
            match self.next_data_line() {
                Some(message) => break message,
                None if self.read_more().await? => {}
                None => return Ok(None),
            }
        };
        Ok(Some(&self.buffer[message]))
    }

    fn next_data_line(&mut self) -> Option<Range<usize>> {
        while let Some(length) = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n') {
            let (from, to) = (self.start, self.scanned + length);
            (self.start, self.scanned) = (to + 1, to + 1);
            let Some(data) = self.buffer[from..to].strip_prefix(b"data:") else { continue };
            let message = data.trim_ascii_start();
            if !message.is_empty() {
                return Some(to - message.len()..to);
            }
        }
        self.scanned = self.buffer.len();
        None
    }

    async fn read_more(&mut self) -> Result<bool, String> {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        let Some(frame) = self.body.frame().await else { return Ok(false) };
        if let Ok(bytes) = frame.map_err(|error| format!("stream: {error}"))?.into_data() {
            self.buffer.extend_from_slice(&bytes);
        }
        Ok(true)
    }
}
