//! Removes the drafts of killed writers at the next write into the same folder. A file is removed only if it is certainly
//! an abandoned draft: a regular file with the name of a draft, which is not locked and has
//! not been written for an hour.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, flock, fstat, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::folder::{Kind, Look};
use crate::{FILE, Inside, Jail, JailError, TEMPORARY};

/// A draft is written at least this often.
const OLD: Duration = Duration::from_hours(1);
/// How many folders are remembered as swept. Beyond that, all are swept again.
const MOST_FOLDERS: usize = 10_000;

/// The folders that were swept. Each is swept once in the life of a jail, because it may hold thousands of files.
#[derive(Debug, Default)]
pub(crate) struct Swept(Mutex<HashSet<(u64, u64)>>);

impl Swept {
    /// Whether this folder has not been checked yet.
    fn is_new(&self, folder: &OwnedFd) -> bool {
        let Ok(stat) = fstat(folder) else { return false };
        let mut swept = self.0.lock();
        if swept.len() >= MOST_FOLDERS {
            swept.clear();
        }
        swept.insert(Look::from_stat(&stat).identity)
    }

    /// Removes leftovers in a folder. What cannot be removed does no harm.
    pub(crate) fn sweep(&self, folder: &OwnedFd) {
        if self.is_new(folder) {
            sweep(folder, |_, age| age >= OLD);
        }
    }
}

impl Jail {
    /// Removes drafts in a folder whose writer was killed, also young ones: they are not locked, and no process here has
    /// the id that is in their names. Writing removes old ones automatically; this is for folders that should
    /// be empty.
    pub fn sweep(&self, folder: &Inside) -> Result<(), JailError> {
        sweep(self.folder(folder)?.handle(), |process, _| is_gone(process));
        Ok(())
    }
}

/// `is_over` is asked with the process that made a draft and how long ago that was written.
fn sweep(folder: &OwnedFd, is_over: impl Fn(i32, Duration) -> bool) {
    let Ok(entries) = Dir::read_from(folder) else { return };
    for entry in entries.flatten() {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let Some(process) = writer(name) else { continue };
        if unheld_since(folder, name).is_some_and(|age| is_over(process, age)) {
            let _ = unlinkat(folder, name, AtFlags::empty());
        }
    }
}

fn is_gone(process: i32) -> bool {
    let Some(process) = Pid::from_raw(process) else { return false };
    test_kill_process(process) == Err(Errno::SRCH)
}

/// Whether a file of this name is an abandoned draft of a killed writer.
///
/// ```
/// use std::ffi::OsStr;
/// use toolyard_jail::is_leftover;
///
/// assert!(is_leftover(OsStr::new(".toolyard-tmp-4711-1")));
/// assert!(!is_leftover(OsStr::new("Waterloo.flac")));
/// ```
pub fn is_leftover(name: &OsStr) -> bool {
    writer(name).is_some()
}

/// The process in the name of a draft.
fn writer(name: &OsStr) -> Option<i32> {
    let (process, count) = name.to_str()?.strip_prefix(TEMPORARY)?.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(process) && is_number(count)).then(|| process.parse().ok())?
}

/// A writer holds a lock on its draft.
pub(crate) fn hold(draft: impl AsFd) {
    // File systems without locks are left with the age alone.
    let _ = flock(draft, FlockOperation::NonBlockingLockExclusive);
}

/// How long ago an unlocked draft was written.
fn unheld_since(folder: &OwnedFd, name: &OsStr) -> Option<Duration> {
    let file = openat(folder, name, FILE, Mode::empty()).ok()?;
    let look = Look::from_stat(&fstat(&file).ok()?);
    let is_unheld = look.kind == Kind::File && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    is_unheld.then(|| SystemTime::now().duration_since(look.modified).unwrap_or_default())
}
