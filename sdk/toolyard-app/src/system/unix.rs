//! Unix: files and folders with permissions for their owner only.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::absolute;

/// The folder for files that are needed only while programs run.
pub(crate) fn runtime_folder() -> PathBuf {
    absolute("XDG_RUNTIME_DIR").or_else(|| absolute("TMPDIR")).unwrap_or_else(|| "/tmp".into())
}

/// Makes a folder with all its parents.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A new file that only its owner can read.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Our user, where the system has a table of connections with their owners.
pub(crate) fn own_user() -> Option<u32> {
    fs::metadata("/proc/self").ok().map(|about| about.uid())
}
