//! Keeps two from changing one file at once: two runs of this program, by the lock of the system on the folder that
//! the file is in, so that nothing is left behind; and Claude Code, which makes a folder beside its file while it
//! writes, and takes one that is older than ten seconds for forgotten.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::beside;

/// How long another one may take.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);
/// The age from which a lock folder counts as abandoned.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// How many folders may have to be made for a file.
const NEW_FOLDERS: usize = 3;

/// Held until it is dropped; nothing where the system has no such locks.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held, not used")] Vec<File>);

/// Takes the lock; hold it from before the file is read until after it is written.
pub fn lock(path: &Path) -> io::Result<Lock> {
    let start = Instant::now();
    loop {
        let Some(near) = nearest_folder(path) else { return Ok(Lock(Vec::new())) };
        match take(&near) {
            // The previous holder may have created the folder of the file.
            Some(lock) if nearest_folder(path).as_ref() == Some(&near) => return Ok(lock),
            Some(_) => {}
            None if start.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            None => {
                let path = path.display();
                let message =
                    format!("another toolyard is about to change {path}; try again when it is done");
                return Err(io::Error::other(message));
            }
        }
    }
}

/// Locks this folder exclusively, and those above it shared, because another process may be about to create this one.
/// `None` if another process holds one of them; not every file system has locks.
fn take(folder: &Path) -> Option<Lock> {
    let above = folder.ancestors().skip(1).take(NEW_FOLDERS);
    let mut held = Vec::new();
    for above in above.filter_map(|above| File::open(above).ok()) {
        match above.try_lock_shared() {
            Err(TryLockError::WouldBlock) => return None,
            _ => held.push(above),
        }
    }
    if let Ok(folder) = File::open(folder) {
        match folder.try_lock() {
            Err(TryLockError::WouldBlock) => return None,
            _ => held.push(folder),
        }
    }
    Some(Lock(held))
}

/// The one that the file is in, through links, or the first above it that is there.
fn nearest_folder(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).or_else(|_| std::path::absolute(path)).ok()?;
    path.ancestors().skip(1).find_map(|folder| fs::canonicalize(folder).ok())
}

/// The folder beside a file, until it is dropped; nothing where it is a forgotten one.
pub(super) struct LockFolder(Option<PathBuf>);

pub(super) fn folder(path: &Path) -> io::Result<LockFolder> {
    let folder = beside(path, ".lock");
    let start = Instant::now();
    loop {
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(LockFolder(Some(folder))),
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            Err(_) if is_forgotten(&folder) => return Ok(LockFolder(None)),
            Err(_) if start.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            Err(_) => {
                let message = format!("its client is writing it ({} is there); try again", folder.display());
                return Err(io::Error::other(message));
            }
        }
    }
}

fn is_forgotten(folder: &Path) -> bool {
    let changed = fs::symlink_metadata(folder).and_then(|about| about.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > FORGOTTEN))
}

impl Drop for LockFolder {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            let _ = fs::remove_dir(folder);
        }
    }
}
