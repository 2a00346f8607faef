//! Writes a file of the user: whole or not at all, with the permissions it had, through a link (dotfiles often
//! are links), and only if it is still what it was when it was read.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{state_dir, system};

/// Who is to read a file that is made anew. One that is there keeps its permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    /// Its owner: it may come to hold secrets.
    Owner,
    /// Whoever the system lets: files of a project are shared.
    Usual,
}

/// What a file says; nothing where it is not there.
pub(super) fn read(path: &Path) -> std::io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes `text` what the file says, which `before` was.
pub(super) fn write(path: &Path, before: Option<&str>, text: &str, readers: Readers) -> Result<()> {
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    make_folder(path, readers)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let draft = path.with_file_name(name);
    let written = write_draft(&draft, path, text, readers).and_then(|()| {
        // Whoever the file belongs to may have written it meanwhile, and that must not be lost.
        if read(path)?.as_deref() != before {
            bail!("it was changed by somebody else in this moment, so nothing was written; try again");
        }
        Ok(fs::rename(&draft, path)?)
    });
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

fn make_folder(path: &Path, readers: Readers) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match (folder, readers) {
        (Some(folder), Readers::Owner) => state_dir::create(folder),
        (Some(folder), Readers::Usual) => {
            fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))
        }
        (None, _) => Ok(()),
    }
}

fn write_draft(draft: &Path, path: &Path, text: &str, readers: Readers) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    if path.exists() || readers == Readers::Owner {
        system::keep_mode(&mut options, path);
    }
    let mut file = options.open(draft)?;
    // What may be set when a file is made is less than what it may have.
    if let Ok(about) = fs::metadata(path) {
        file.set_permissions(about.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    Ok(file.sync_all()?)
}

/// Keeps a file as it was beside it; where.
pub(super) fn back_up(path: &Path) -> Result<PathBuf> {
    let name = |number: u32| match number {
        0 => format!("{}.bak", path.display()),
        number => format!("{}.bak{number}", path.display()),
    };
    let is_free = |path: &PathBuf| fs::symlink_metadata(path).is_err();
    let free = (0..1000).map(|number| PathBuf::from(name(number))).find(is_free);
    let backup = free.context("there are a thousand backups already: delete some")?;
    fs::copy(path, &backup).with_context(|| format!("write {}", backup.display()))?;
    Ok(backup)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_else_wrote_meanwhile_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.json");
        let check = |before: Option<&str>, there: Option<&str>| {
            let _ = fs::remove_file(&path);
            if let Some(text) = there {
                fs::write(&path, text).unwrap();
            }
            let outcome = write(&path, before, "new", Readers::Owner);
            let expected = if before == there { Some("new") } else { there };
            assert_eq!(read(&path).unwrap().as_deref(), expected, "{before:?} {there:?}");
            assert_eq!(outcome.is_ok(), before == there);
            assert!(fs::read_dir(folder.path()).unwrap().count() <= 1, "nothing is left beside it");
        };
        check(Some("old"), Some("old"));
        check(Some("old"), Some("other"));
        check(Some("old"), None);
        check(None, None);
        check(None, Some("other"));
    }
}
