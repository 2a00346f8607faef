//! Unix: permissions for the owner only.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Creates a folder and those above it, for their owner only. An existing folder keeps its permissions.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A file that is made by this is its owner's only.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Whether no other user can read or change it.
pub(crate) fn is_private(file: &Path) -> io::Result<bool> {
    let of_others = fs::metadata(file)?.mode() & 0o077;
    Ok(of_others == 0)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
