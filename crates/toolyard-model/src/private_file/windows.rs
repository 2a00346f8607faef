//! On Windows, files in a user's own folders are closed to other users already.

use std::fs::File;
use std::io;
use std::path::Path;

pub(super) fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}
