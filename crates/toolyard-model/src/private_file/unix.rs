//! On Unix, ownership and modes decide: a private file has mode 0600.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::unistd::Uid;

pub(super) fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// The number of the file. A file that replaces another one has another number.
pub(crate) fn inode(about: &fs::Metadata) -> u64 {
    about.ino()
}

/// Whether it is ours, and no other user can change its content.
pub fn is_only_ours(folder: &Path) -> io::Result<bool> {
    let about = fs::symlink_metadata(folder)?;
    Ok(about.uid() == Uid::current().as_raw() && about.mode() & 0o022 == 0)
}

/// Opens a file for reading, without following a link or waiting for the writer of a pipe.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    File::options().read(true).custom_flags(flags.bits()).open(path)
}
