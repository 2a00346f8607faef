//! Marks a gateway that waits for the socket of its config set, so that `toolyard stdio` does not start another one in
//! the moment between the end of the gateway that has the socket and the next attempt of the one that waits.
//!
//! It is known by a lock on a file beside the socket: however it ends, the system takes that back.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Held by a gateway for as long as it waits.
#[derive(Debug)]
pub struct Standby {
    _lock: File,
}

impl Standby {
    /// Several may wait for one socket.
    pub fn new(socket: &Path) -> io::Result<Self> {
        let file = File::options().create(true).read(true).append(true).open(place(socket))?;
        // A process that checks holds the lock only for the check.
        file.lock_shared()?;
        Ok(Self { _lock: file })
    }

    /// Whether a gateway waits for this socket.
    pub fn is_there(socket: &Path) -> bool {
        let file = File::options().read(true).append(true).open(place(socket));
        file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }
}

fn place(socket: &Path) -> PathBuf {
    socket.with_extension("standby")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standby_is_known_while_it_waits() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, other) = (folder.path().join("mcp.sock"), folder.path().join("apps.sock"));
        assert!(!Standby::is_there(&socket));
        let standbys = [(); 2].map(|()| Standby::new(&socket).unwrap());
        for standby in standbys {
            assert!(Standby::is_there(&socket) && !Standby::is_there(&other));
            drop(standby);
        }
        assert!(!Standby::is_there(&socket));
        let _heir = Standby::new(&socket).unwrap();
        assert!(Standby::is_there(&socket));
    }
}
