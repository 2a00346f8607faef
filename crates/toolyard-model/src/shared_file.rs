//! A private file of the state directory that several gateways change: one at a time, and each first reads what the
//! others have written.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::private_file;

/// How long another gateway may take for a change.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// The file, and the version of it that this process knows.
#[derive(Debug)]
pub struct SharedFile {
    path: PathBuf,
    known: Option<Version>,
}

/// Held while the file is read and changed. The system releases it when the process dies.
#[derive(Debug)]
pub struct FileLock(#[expect(dead_code, reason = "held, not used")] File);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    bytes: u64,
    modified: SystemTime,
}

impl SharedFile {
    /// Of this path, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), known: None }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits, for a bounded time, until no other process changes the file. The lock is on a file of its own, because the
    /// file itself is replaced.
    pub fn lock(&self) -> io::Result<FileLock> {
        let file = private_file::open_to_lock(&self.path.with_extension("lock"))?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(FileLock(file)),
                Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "another gateway holds its lock"));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// The content, if it is another than the one that this process has read or written last.
    pub fn changed(&mut self) -> io::Result<Option<Vec<u8>>> {
        let version = self.version()?;
        if version.is_none() || version == self.known {
            return Ok(None);
        }
        let content = fs::read(&self.path)?;
        self.known = version;
        Ok(Some(content))
    }

    /// Replaces the content. Only under the lock.
    pub fn replace(&mut self, content: &[u8]) -> io::Result<()> {
        private_file::write(&self.path, content)?;
        self.known = self.version()?;
        Ok(())
    }

    /// Adds to the content, which is on the disk when this returns. Only under the lock. Fails if there is no file.
    pub fn append(&mut self, content: &[u8]) -> io::Result<()> {
        let mut file = File::options().append(true).open(&self.path)?;
        file.write_all(content)?;
        file.sync_data()?;
        self.known = self.version()?;
        Ok(())
    }

    fn version(&self) -> io::Result<Option<Version>> {
        match fs::metadata(&self.path) {
            Ok(about) => Ok(Some(Version { bytes: about.len(), modified: about.modified()? })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_another_process_is_read_once_and_an_own_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared");
        let (mut one, mut other) = (SharedFile::new(&path), SharedFile::new(&path));
        assert_eq!(one.changed().unwrap(), None, "there is no file yet");
        one.append(b"a").unwrap_err();
        one.replace(b"a").unwrap();
        one.append(b"b").unwrap();
        assert_eq!((one.changed().unwrap(), other.changed().unwrap()), (None, Some(b"ab".to_vec())));
        other.append(b"c").unwrap();
        assert_eq!((one.changed().unwrap(), other.changed().unwrap()), (Some(b"abc".to_vec()), None));
        assert_eq!(one.changed().unwrap(), None);
    }

    #[test]
    fn a_lock_is_held_by_one_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let file = SharedFile::new(&folder.path().join("shared"));
        let held = file.lock().unwrap();
        let lock = private_file::open_to_lock(&folder.path().join("shared.lock")).unwrap();
        assert!(matches!(lock.try_lock(), Err(TryLockError::WouldBlock)));
        drop(held);
        lock.try_lock().unwrap();
    }
}
