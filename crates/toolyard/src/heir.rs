//! A gateway that waits for the socket of its config set is known to wait, so that nobody starts another one in the
//! moment between the end of the gateway that has it and the next look of the one that waits.
//!
//! It is known by a lock on a file beside the socket: however it ends, the system takes that back.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Of this gateway, for as long as it waits.
#[derive(Debug)]
pub(crate) struct Heir {
    _lock: File,
}

impl Heir {
    /// Several may wait for one socket.
    pub(crate) fn new(socket: &Path) -> io::Result<Self> {
        let file = File::options().create(true).read(true).append(true).open(place(socket))?;
        // Whoever looks has it for no longer than a look.
        file.lock_shared()?;
        Ok(Self { _lock: file })
    }

    /// Whether a gateway waits for this socket.
    pub(crate) fn is_there(socket: &Path) -> bool {
        let file = File::options().read(true).append(true).open(place(socket));
        file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }
}

fn place(socket: &Path) -> PathBuf {
    socket.with_extension("heir")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_heir_is_known_while_it_waits() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, other) = (folder.path().join("mcp.sock"), folder.path().join("apps.sock"));
        assert!(!Heir::is_there(&socket));
        let heirs = [(); 2].map(|()| Heir::new(&socket).unwrap());
        for heir in heirs {
            assert!(Heir::is_there(&socket) && !Heir::is_there(&other));
            drop(heir);
        }
        assert!(!Heir::is_there(&socket));
        let _heir = Heir::new(&socket).unwrap();
        assert!(Heir::is_there(&socket));
    }
}
