//! Files and folders that other users must not read, change or replace.

#[cfg(unix)]
#[path = "private_file/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "private_file/windows.rs"]
mod system;

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

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
