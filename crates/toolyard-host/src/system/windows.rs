//! Windows: folders in the user's profile, which the system keeps other users out of.

use std::io;
use std::path::Path;

/// Creates a folder and those above it.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)
}
