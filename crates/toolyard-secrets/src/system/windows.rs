//! Windows: files in the user's profile, which the system keeps other users out of.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

/// Creates a folder and those above it.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// A new file has the access rights of its folder.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Access control lists can only be read by unsafe code.
pub(crate) fn is_private(file: &Path) -> io::Result<bool> {
    fs::metadata(file).map(|_| true)
}

/// Folders cannot be synchronised here; a rename is journaled by the file system.
pub(crate) fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
