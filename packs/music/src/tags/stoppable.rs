//! A file whose reads and writes fail once the call is cancelled, so that a library that knows nothing of
//! cancellation still stops between two blocks.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use lofty::io::{Length, Truncate};

/// The largest read or write between two looks at the cancellation.
const BLOCK: usize = 8 * 1024 * 1024;

pub(crate) struct Stoppable<'a> {
    file: &'a mut File,
    go_on: &'a dyn Fn() -> bool,
}

impl<'a> Stoppable<'a> {
    pub(crate) fn new(file: &'a mut File, go_on: &'a dyn Fn() -> bool) -> Self {
        Self { file, go_on }
    }

    fn check(&self) -> io::Result<()> {
        // `Interrupted` would be retried.
        if (self.go_on)() { Ok(()) } else { Err(io::Error::other("cancelled")) }
    }
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.check()?;
        let block = buffer.len().min(BLOCK);
        self.file.read(&mut buffer[..block])
    }
}

impl Write for Stoppable<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        self.file.write(&bytes[..bytes.len().min(BLOCK)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Stoppable<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Truncate for Stoppable<'_> {
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
}

impl Length for Stoppable<'_> {
    fn len(&self) -> io::Result<u64> {
        self.file.metadata().map(|about| about.len())
    }
}
