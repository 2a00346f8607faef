//! Files that are replaced as a whole, and the lock that lets one program change them at a time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{Error, system};

/// How long another program may take to change a secret.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

const LOCK: &str = "lock";

/// Held while the store is changed. The system releases it when the program dies.
pub(crate) struct Lock(#[expect(dead_code, reason = "held, not used")] File);

impl Lock {
    pub(crate) fn take(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(LOCK);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file =
            system::private(&mut options).open(&path).map_err(|error| Error::io("open", &path, error))?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => return Err(Error::Locked(folder.to_owned())),
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path, error)),
            }
        }
    }
}

/// The content of a file; nothing if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path, error)),
    }
}

/// Replaces a file. Whenever the machine stops, the file has its old content or the new one, and the new one once this
/// has returned. Only under the lock.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), Error> {
    let draft = path.with_extension("draft");
    let written = write(&draft, content)
        .and_then(|()| fs::rename(&draft, path))
        .and_then(|()| path.parent().map_or(Ok(()), system::sync_folder));
    written.map_err(|error| Error::io("write", path, error))
}

/// Removes a file, if it exists, and the removal is on the disk. Only under the lock.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    let removed = match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    };
    let removed = removed.and_then(|()| path.parent().map_or(Ok(()), system::sync_folder));
    removed.map_err(|error| Error::io("remove", path, error))
}

/// A draft that was left behind by a killed program is replaced, so that its permissions are ours.
fn write(draft: &Path, content: &[u8]) -> io::Result<()> {
    match fs::remove_file(draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = system::private(options.write(true).create_new(true)).open(draft)?;
    file.write_all(content)?;
    file.sync_all()
}
