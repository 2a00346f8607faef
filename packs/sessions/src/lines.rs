//! A file of lines, read piece by piece with the position of each line. A last line without its end is being written
//! and is left out; a line that is too long is skipped and counted.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Result, Seek as _, SeekFrom};
use std::path::Path;

const BUFFER: usize = 1 << 18;
/// Longer lines hold pictures or whole outputs, not conversation.
const MOST_LINE: usize = 8 << 20;

pub(crate) struct Lines {
    read: BufReader<File>,
    at: u64,
    line: Vec<u8>,
    pub(crate) skipped: usize,
}

/// Where a line is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) at: u64,
    pub(crate) length: usize,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let read = BufReader::with_capacity(BUFFER, File::open(path)?);
        Ok(Self { read, at: 0, line: Vec::new(), skipped: 0 })
    }

    /// The next whole line.
    pub(crate) fn next(&mut self) -> Result<Option<(Place, &mut [u8])>> {
        loop {
            self.line.clear();
            let at = self.at;
            let mut is_long = false;
            let has_end = loop {
                let available = self.read.fill_buf()?;
                if available.is_empty() {
                    break false;
                }
                let end = memchr::memchr(b'\n', available);
                let taken = end.map_or(available.len(), |end| end + 1);
                is_long = is_long || self.line.len() + taken > MOST_LINE;
                if !is_long {
                    self.line.extend_from_slice(&available[..taken]);
                }
                self.read.consume(taken);
                self.at += taken as u64;
                if end.is_some() {
                    break true;
                }
            };
            if !has_end {
                return Ok(None);
            }
            if is_long {
                self.skipped += 1;
                self.line = Vec::new();
                continue;
            }
            let length = self.line.len() - 1;
            return Ok(Some((Place { at, length }, &mut self.line[..length])));
        }
    }

    /// A line that was read before.
    pub(crate) fn again(&mut self, place: Place) -> Result<Vec<u8>> {
        self.read.seek(SeekFrom::Start(place.at))?;
        self.at = place.at;
        let mut line = vec![0; place.length];
        self.read.read_exact(&mut line)?;
        self.at += place.length as u64;
        Ok(line)
    }
}
