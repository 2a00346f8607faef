//! On Windows, files in a user's own folders are closed to other users already.

use std::fs::{self, File};
use std::io;
use std::path::Path;

pub(super) fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}

/// Not known here.
pub(crate) fn inode(_: &fs::Metadata) -> u64 {
    0
}

/// Access control lists can only be read by unsafe code. The folder is in the user's profile, or was chosen by the
/// user.
pub fn is_only_ours(folder: &Path) -> io::Result<bool> {
    fs::symlink_metadata(folder).map(|_| true)
}

/// Opens a file for reading, if it is not a link.
pub fn open_plain(path: &Path) -> io::Result<File> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    File::open(path)
}
