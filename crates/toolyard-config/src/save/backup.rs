//! Keeps a file as it was when it was read.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::{Readers, beside, fill, first_free, make_folder, read};
use crate::system;

/// A backup of a file.
#[derive(Debug)]
pub struct Backup {
    pub path: PathBuf,
    is_new: bool,
}

impl Backup {
    /// Removes the backup, which is not needed.
    pub fn drop_it(&self) {
        if self.is_new {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes the earlier content of a file to `kept` with `.bak` at its end. The last backup is used if it has the same
/// content.
pub fn back_up(path: &Path, kept: &Path, before: &str) -> io::Result<Backup> {
    let name = |number: u32| match number {
        0 => beside(kept, ".bak"),
        number => beside(kept, &format!(".bak{number}")),
    };
    let last = (0..1000).map(name).take_while(|path| path.symlink_metadata().is_ok()).last();
    if let Some(path) = last.filter(|last| read(last).is_ok_and(|text| text.as_deref() == Some(before))) {
        return Ok(Backup { path, is_new: false });
    }
    make_folder(kept, Readers::Owner)?;
    let mut options = OpenOptions::new();
    system::keep_mode(options.write(true).create_new(true), path);
    let (file, backup) = first_free(&options, name)?;
    let backup = Backup { path: backup, is_new: true };
    // Half of it would be taken for all of it.
    fill(file, path, before).inspect_err(|_| backup.drop_it())?;
    Ok(backup)
}
