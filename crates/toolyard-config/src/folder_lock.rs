//! Reserves a state directory for the gateways of one config set, by a lock on a file in the folder, which
//! the system takes back however a gateway ends.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

const FILE: &str = "gateway.lock";
/// A gateway that starts has the lock to itself only while it writes its name.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// Held by a gateway for as long as it uses the folder.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

/// The result of an attempt to use a folder.
#[derive(Debug)]
pub enum FolderUse {
    Own(FolderLock),
    /// A gateway of another config set uses it: the process that came first.
    Other {
        pid: u32,
    },
}

/// The content of the lock file, written by the first gateway.
#[derive(Deserialize, Serialize)]
struct User {
    set: String,
    pid: u32,
}

impl FolderLock {
    /// Takes the folder for this config set. Gateways of one set may share it.
    pub fn take(folder: &Path, set: &str) -> io::Result<FolderUse> {
        let mut file =
            File::options().create(true).truncate(false).read(true).write(true).open(folder.join(FILE))?;
        let deadline = Instant::now() + PATIENCE;
        match file.try_lock() {
            Ok(()) => {
                write(&mut file, &User { set: set.to_owned(), pid: std::process::id() })?;
                // Another gateway may have the lock in between; then it has written its own name.
                file.unlock()?;
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        while let Err(error) = file.try_lock_shared() {
            match error {
                TryLockError::WouldBlock if Instant::now() < deadline => thread::sleep(PAUSE),
                TryLockError::WouldBlock => return Err(io::Error::other("the lock is never free")),
                TryLockError::Error(error) => return Err(error),
            }
        }
        let user = read(&mut file)?;
        if user.set == set {
            return Ok(FolderUse::Own(Self { _file: file }));
        }
        Ok(FolderUse::Other { pid: user.pid })
    }
}

fn write(file: &mut File, user: &User) -> io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&serde_json::to_vec(user)?)
}

fn read(file: &mut File) -> io::Result<User> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn gateways_of_one_set_share_a_folder_and_others_get_it_when_they_have_ended() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderLock::take(folder.path(), "one").unwrap();
        let second = FolderLock::take(folder.path(), "one").unwrap();
        for held in [first, second] {
            assert!(matches!(held, FolderUse::Own(_)));
            let other = FolderLock::take(folder.path(), "two").unwrap();
            assert!(matches!(other, FolderUse::Other { pid } if pid == std::process::id()));
            drop(held);
        }
        assert!(matches!(FolderLock::take(folder.path(), "two").unwrap(), FolderUse::Own(_)));
    }

    #[test]
    fn of_two_sets_that_come_at_the_same_time_one_gets_the_folder() {
        for _ in 0..200 {
            let folder = tempfile::tempdir().unwrap();
            let barrier = Barrier::new(2);
            let taken = thread::scope(|scope| {
                let taking = ["one", "two"].map(|set| {
                    let (folder, barrier) = (folder.path(), &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        FolderLock::take(folder, set).unwrap()
                    })
                });
                taking.map(|taking| taking.join().unwrap())
            });
            let own = taken.iter().filter(|taken| matches!(taken, FolderUse::Own(_))).count();
            assert_eq!(own, 1, "{taken:?}");
        }
    }
}
