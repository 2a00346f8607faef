//! A private file of the state directory that several gateways change: one at a time, and each first reads what the
//! others have written.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::blocking::beside_tasks;
use crate::private_file;

/// How long another gateway may take for a change.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);
/// After a wait without success, for how long there is no other wait. A gateway that is stopped can hold a lock for hours.
const REST: Duration = Duration::from_secs(5);

/// The file, and the version of it that this process knows.
#[derive(Debug)]
pub struct SharedFile {
    path: PathBuf,
    known: Option<Version>,
    patience: Duration,
    /// Until then a lock that is not free is an error at once.
    resting_until: Option<Instant>,
}

/// Held while the file is read and changed. The system releases it when the process dies.
#[derive(Debug)]
pub struct FileLock(#[expect(dead_code, reason = "held, not used")] File);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    bytes: u64,
    modified: SystemTime,
    /// A file that is replaced within one tick of the clock has another one. Always 0 on Windows.
    inode: u64,
}

impl SharedFile {
    /// Of this path, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), known: None, patience: PATIENCE, resting_until: None }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits, for a bounded time, until no other process changes the file. The lock is on a file of its own, because the
    /// file itself is replaced.
    pub fn lock(&mut self) -> io::Result<FileLock> {
        let file = private_file::open_to_lock(&self.path.with_extension("lock"))?;
        if !is_locked(&file)? {
            let is_resting = self.resting_until.is_some_and(|until| Instant::now() < until);
            if is_resting || !beside_tasks(|| is_locked_within(&file, self.patience))? {
                if !is_resting {
                    self.resting_until = Some(Instant::now() + REST);
                }
                return Err(io::Error::new(io::ErrorKind::TimedOut, "another gateway holds its lock"));
            }
        }
        self.resting_until = None;
        Ok(FileLock(file))
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
        beside_tasks(|| private_file::write(&self.path, content))?;
        self.known = self.version()?;
        Ok(())
    }

    /// Adds a line, which is on the disk when this returns. Only under the lock. Fails if there is no file.
    pub fn append_line(&mut self, line: &str) -> io::Result<()> {
        beside_tasks(|| append_line(&self.path, line))?;
        self.known = self.version()?;
        Ok(())
    }

    fn version(&self) -> io::Result<Option<Version>> {
        match fs::metadata(&self.path) {
            Ok(about) => {
                let (bytes, inode) = (about.len(), private_file::inode(&about));
                Ok(Some(Version { bytes, modified: about.modified()?, inode }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn is_locked(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn is_locked_within(file: &File, patience: Duration) -> io::Result<bool> {
    let start = Instant::now();
    while start.elapsed() < patience {
        std::thread::sleep(PAUSE);
        if is_locked(file)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A line that was cut off, as on a full disk, stays a line of its own.
fn append_line(path: &Path, line: &str) -> io::Result<()> {
    let mut file = File::options().read(true).append(true).open(path)?;
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    let begin = if last == [b'\n'] { "" } else { "\n" };
    file.write_all(format!("{begin}{line}\n").as_bytes())?;
    file.sync_data()
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
        one.append_line("a").unwrap_err();
        one.replace(b"a\n").unwrap();
        one.append_line("b").unwrap();
        assert_eq!((one.changed().unwrap(), other.changed().unwrap()), (None, Some(b"a\nb\n".to_vec())));
        other.append_line("c").unwrap();
        assert_eq!((one.changed().unwrap(), other.changed().unwrap()), (Some(b"a\nb\nc\n".to_vec()), None));
        assert_eq!(one.changed().unwrap(), None);
    }

    #[test]
    fn a_lock_is_held_by_one_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = SharedFile::new(&folder.path().join("shared"));
        let held = file.lock().unwrap();
        let lock = private_file::open_to_lock(&folder.path().join("shared.lock")).unwrap();
        assert!(matches!(lock.try_lock(), Err(TryLockError::WouldBlock)));
        drop(held);
        lock.try_lock().unwrap();
    }

    #[test]
    fn after_a_wait_without_success_the_next_lock_fails_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (mut one, mut other) = two(&folder);
        let held = one.lock().unwrap();
        other.patience = Duration::from_millis(20);
        assert_eq!(other.lock().unwrap_err().kind(), io::ErrorKind::TimedOut);
        other.patience = Duration::from_hours(1);
        assert_eq!(other.lock().unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(held);
        other.lock().unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_replaced_within_one_tick_of_the_clock_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let (mut one, mut other) = two(&folder);
        one.replace(b"a").unwrap();
        assert_eq!(other.changed().unwrap(), Some(b"a".to_vec()));
        let modified = fs::metadata(one.path()).unwrap().modified().unwrap();
        one.replace(b"b").unwrap();
        File::options().write(true).open(one.path()).unwrap().set_modified(modified).unwrap();
        assert_eq!(other.changed().unwrap(), Some(b"b".to_vec()));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_of_the_thread_are_served_while_one_waits_for_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let (mut one, mut other) = two(&folder);
        let held = one.lock().unwrap();
        other.patience = Duration::from_hours(1);
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move {
            let mut others = tokio::task::JoinSet::new();
            others.spawn(async move { drop(held) });
            // The only thread of the runtime waits here, so the other task needs one more.
            other.lock().is_ok()
        });
        assert!(tasks.join_next().await.unwrap().unwrap());
    }

    fn two(folder: &tempfile::TempDir) -> (SharedFile, SharedFile) {
        let path = folder.path().join("shared");
        (SharedFile::new(&path), SharedFile::new(&path))
    }
}
