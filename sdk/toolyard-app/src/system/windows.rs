//! Windows: files in the user's profile, which the system keeps others out of.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::absolute;

/// The folder for files that are needed only while programs run.
pub(crate) fn runtime_folder() -> PathBuf {
    absolute("XDG_RUNTIME_DIR").or_else(|| absolute("LOCALAPPDATA")).unwrap_or_else(std::env::temp_dir)
}

/// Makes a folder with all its parents.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// A new file inherits the owner of its folder.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// There is no table here that names the owner of a connection.
pub(crate) fn own_user() -> Option<u32> {
    None
}
