//! Files and folders that other users must not read, change or replace.

#[cfg(unix)]
#[path = "private_file/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "private_file/windows.rs"]
mod system;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

pub(crate) use system::inode;
pub use system::{is_only_ours, open_plain};

/// Writes a file so that readers see either the old or the new contents, and only its owner can read it.
pub fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    let _ = fs::remove_file(&draft);
    let mut file = system::create(&draft)?;
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(&draft, path)
}

/// A file to lock, which only its owner can open.
pub(crate) fn open_to_lock(path: &Path) -> io::Result<File> {
    match system::create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => File::options().write(true).open(path),
        created => created,
    }
}
