//! An open folder: what is in it, and the next step down.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, Mode, fstat, openat, statat};

use crate::{FILE, FOLDER, Inside, JailError};

/// The kind of an entry of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Symlink,
    /// A device, a pipe or a socket.
    Other,
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Symlink,
            _ => Self::Other,
        }
    }
}

/// The metadata of a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The kind of the entry.
    pub kind: Kind,
    /// In bytes.
    pub size: u64,
    /// When its content was changed last.
    pub modified: SystemTime,
    /// The device and the number on it. Two paths with the same identity are one file.
    pub identity: (u64, u64),
}

impl Look {
    pub(crate) fn at(folder: impl AsFd, name: &OsStr, path: &Inside) -> Result<Self, JailError> {
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| JailError::opening(path, error))?;
        Ok(Self::from_stat(&stat))
    }

    /// Of an open file.
    pub fn of(file: &File) -> std::io::Result<Self> {
        Ok(Self::from_stat(&fstat(file)?))
    }

    #[expect(
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        clippy::unnecessary_cast,
        reason = "the types of these fields differ from system to system"
    )]
    pub(crate) fn from_stat(stat: &rustix::fs::Stat) -> Self {
        let since = Duration::new(stat.st_mtime.max(0) as u64, stat.st_mtime_nsec as u32);
        Self {
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            size: stat.st_size as u64,
            modified: UNIX_EPOCH + since,
            identity: (stat.st_dev as u64, stat.st_ino as u64),
        }
    }
}

/// Something in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// The kind of the entry.
    pub kind: Kind,
}

/// An open folder, with an [`Entry`] for each thing in it and a [`Look`] at one where it is asked for.
///
/// ```
/// use toolyard_jail::{Inside, Jail, Kind, Symlinks};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let root = folder.path();
/// std::fs::create_dir(root.join("Abba"))?;
/// std::fs::write(root.join("list.txt"), "one")?;
///
/// let folder = Jail::new(root, Symlinks::Forbid)?.folder(&Inside::root())?;
/// let entries = folder.entries()?;
/// assert_eq!((entries[0].name.to_str(), entries[0].kind), (Some("Abba"), Kind::Folder));
/// assert_eq!(folder.look(&entries[1].name)?.size, 3);
/// # Ok(())
/// # }
/// ```
///
/// It stays the folder that was opened, whatever its path leads to meanwhile.
#[derive(Debug)]
pub struct Folder {
    path: Inside,
    handle: OwnedFd,
}

impl Folder {
    pub(crate) fn new(path: Inside, handle: OwnedFd) -> Self {
        Self { path, handle }
    }

    /// As it was asked for.
    pub fn path(&self) -> &Inside {
        &self.path
    }

    /// The entries of the folder, in the order of their names (byte by byte).
    pub fn entries(&self) -> Result<Vec<Entry>, JailError> {
        let fail = |error| JailError::opening(&self.path, error);
        let mut entries = Vec::new();
        for found in Dir::read_from(&self.handle).map_err(fail)? {
            let found = found.map_err(fail)?;
            let name = OsStr::from_bytes(found.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match found.file_type() {
                // Some file systems do not report the kind. An entry that is gone by now is left out.
                FileType::Unknown => match self.look(name) {
                    Ok(look) => look.kind,
                    Err(JailError::Missing { .. }) => continue,
                    Err(error) => return Err(error),
                },
                kind => kind.into(),
            };
            entries.push(Entry { name: name.to_owned(), kind });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// The metadata of an entry, without following a link.
    pub fn look(&self, name: &OsStr) -> Result<Look, JailError> {
        let path = self.path.join(name)?;
        Look::at(&self.handle, name, &path)
    }

    /// Opens a folder in it; a link is an error.
    pub fn folder(&self, name: &OsStr) -> Result<Self, JailError> {
        let path = self.path.join(name)?;
        let handle = openat(&self.handle, name, FOLDER, Mode::empty())
            .map_err(|error| JailError::opening(&path, error))?;
        Ok(Self { path, handle })
    }

    /// Opens a file in it to read; a link is an error.
    pub fn open(&self, name: &OsStr) -> Result<File, JailError> {
        let path = self.path.join(name)?;
        let handle = openat(&self.handle, name, FILE, Mode::empty())
            .map_err(|error| JailError::opening(&path, error))?;
        regular(&path, handle)
    }

    /// The device and the number on it, to notice links that lead in circles.
    pub fn identity(&self) -> Result<(u64, u64), JailError> {
        let stat = fstat(&self.handle).map_err(|error| JailError::opening(&self.path, error))?;
        Ok(Look::from_stat(&stat).identity)
    }

    pub(crate) fn handle(&self) -> &OwnedFd {
        &self.handle
    }
}

/// Accepts only regular files: reading from anything else may never end.
pub(crate) fn regular(path: &Inside, handle: OwnedFd) -> Result<File, JailError> {
    let stat = fstat(&handle).map_err(|error| JailError::opening(path, error))?;
    match Kind::from(FileType::from_raw_mode(stat.st_mode)) {
        Kind::File => Ok(File::from(handle)),
        _ => Err(JailError::NotAFile { path: path.to_string() }),
    }
}
