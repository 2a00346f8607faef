//! Writes a file of the user: whole or not at all, with the permissions and the owner it had, through a link
//! (dotfiles often are links), and only if it is still what it was when it was read.

mod backup;
mod lock;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use crate::state_dir::{self, attempted};
use crate::system;

pub use backup::{Backup, back_up};
pub use lock::{Lock, lock};

/// The permissions of a new file. An existing file keeps its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Its owner: it may come to hold secrets.
    Owner,
    /// The default of the system: files of a project are shared.
    SystemDefault,
}

/// A file and the text that replaces its content.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    pub path: &'a Path,
    /// Its content when it was read; nothing if it did not exist.
    pub before: Option<&'a str>,
    pub text: &'a str,
    pub readers: Readers,
    /// Whether its program makes a folder beside it while it writes.
    pub has_folder_lock: bool,
}

/// The content of a file; nothing if it does not exist.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    match read_there(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The content of a file. Pipes and devices are refused, since reading them could block.
pub fn read_there(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    system::open_file(path)?.read_to_string(&mut text)?;
    Ok(text)
}

impl Change<'_> {
    pub fn write(&self) -> io::Result<()> {
        let path = &fs::canonicalize(self.path).or_else(|_| std::path::absolute(self.path))?;
        make_folder(path, self.readers)?;
        let (file, draft) = make_draft(path, self.readers)?;
        let written = fill(file, path, self.text).and_then(|()| self.put(&draft, path));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }

    fn put(&self, draft: &Path, path: &Path) -> io::Result<()> {
        let _theirs = self.has_folder_lock.then(|| lock::folder(path)).transpose()?;
        // The file's owner may have written it in the meantime, and that must not be lost.
        if read(path)?.as_deref() != self.before {
            let message =
                "another program changed the file at the same time, so nothing was written; try again";
            return Err(io::Error::other(message));
        }
        fs::rename(draft, path)
    }
}

fn make_folder(path: &Path, readers: Readers) -> io::Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    let new: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
    match readers {
        Readers::Owner => state_dir::create(folder)?,
        Readers::SystemDefault => {
            fs::create_dir_all(folder).map_err(|error| attempted(&error, "create", folder))?;
        }
    }
    for folder in new.into_iter().rev() {
        system::hand_over(folder).map_err(|error| attempted(&error, "set the owner of", folder))?;
    }
    Ok(())
}

/// A new file beside it, which no other process can have created.
fn make_draft(path: &Path, readers: Readers) -> io::Result<(File, PathBuf)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if path.exists() || readers == Readers::Owner {
        system::keep_mode(&mut options, path);
    }
    let name = |number: u32| beside(path, &format!(".{}-{number}", std::process::id()));
    first_free(&options, name)
}

/// Creates a file with the first of these names that is free.
fn first_free(options: &OpenOptions, name: impl Fn(u32) -> PathBuf) -> io::Result<(File, PathBuf)> {
    for number in 0..1000 {
        let path = name(number);
        match options.open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(attempted(&error, "write", &path)),
            Ok(file) => return Ok((file, path)),
        }
    }
    Err(io::Error::other("there are a thousand backups already: delete some"))
}

/// The same name with something at its end.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(end);
    path.with_file_name(name)
}

/// Makes a new file what the one at `path` is to be: its owner, its permissions, and the text.
fn fill(mut file: File, path: &Path, text: &str) -> io::Result<()> {
    system::keep_owner(&file, path).map_err(|error| {
        let why = "it belongs to another user or group, and would not any more; run this as its owner";
        io::Error::new(error.kind(), format!("{why}: {error}"))
    })?;
    // What may be set when a file is made is less than what it may have.
    if let Ok(about) = fs::metadata(path) {
        file.set_permissions(about.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
