//! Unix: permissions for the owner only.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Creates a folder and those above it, for their owner only. An existing folder keeps its permissions.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
