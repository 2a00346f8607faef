//! Files below one root folder, and nothing else. A tool that takes paths from a model opens them through a
//! [`Jail`], so that no path, however it is written and whatever happens to the disk meanwhile, reaches
//! anything outside.
//!
//! Every step of a path is opened relative to the handle of the folder before it, and no step follows a
//! symbolic link by itself. So there is no moment between checking a path and using it: a folder that is
//! swapped for a link during the call is either still the folder that was opened, or an error.
//!
//! ```
//! use std::error::Error;
//! use std::io::Write;
//!
//! use toolyard_jail::{Existing, Jail, Symlinks};
//!
//! # let folder = tempfile::tempdir()?;
//! # let root = folder.path();
//! let jail = Jail::new(root, Symlinks::Forbid)?;
//! let song = jail.path("Abba/Waterloo.flac")?;
//! jail.make_folders(&song.parent().unwrap())?;
//! jail.write(&song, Existing::Keep, |file| -> Result<(), Box<dyn Error>> { Ok(file.write_all(b"fLaC")?) })?;
//! assert_eq!(jail.look(&song)?.size, 4);
//! assert!(jail.path("../elsewhere").is_err());
//! assert!(jail.path("/etc/passwd").is_err());
//! # Ok::<(), Box<dyn Error>>(())
//! ```
//!
//! What it does not protect from: hard links that another process creates to files outside, and folders that
//! another process moves out of the root while they are open.
#![warn(missing_docs)]

mod change;
mod error;
mod folder;
mod path;
mod remove;
mod sweep;
mod walk;
mod write;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};

pub use error::JailError;
pub use folder::{Entry, Folder, Kind, Look};
pub use path::Inside;
pub use sweep::is_leftover;
pub use write::{Existing, copy_while};

use walk::Last;

/// The treatment of symbolic links.
///
/// ```
/// use toolyard_jail::{Jail, JailError, Symlinks};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let root = folder.path();
/// std::fs::write(root.join("song.flac"), "fLaC")?;
/// std::os::unix::fs::symlink("song.flac", root.join("link"))?;
/// std::os::unix::fs::symlink("/etc", root.join("out"))?;
///
/// let strict = Jail::new(root, Symlinks::Forbid)?;
/// assert!(matches!(strict.open(&strict.path("link")?), Err(JailError::Symlink { .. })));
/// let lax = Jail::new(root, Symlinks::Follow)?;
/// assert!(lax.open(&lax.path("link")?).is_ok());
/// assert!(lax.open(&lax.path("out/passwd")?).is_err(), "links lead nowhere outside");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// A link in any part of a path is an error.
    #[default]
    Forbid,
    /// Links are followed as long as they stay below the root.
    Follow,
}

/// A root folder with an open handle. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Jail(Arc<Root>);

#[derive(Debug)]
struct Root {
    handle: OwnedFd,
    /// Without links, as the system knows it.
    path: PathBuf,
    /// As it was given, made absolute.
    given: PathBuf,
    symlinks: Symlinks,
    swept: sweep::Swept,
}

/// The beginning of a draft's name; its writer's process and a count follow.
const TEMPORARY: &str = ".toolyard-tmp-";

/// How folders are opened on the way: to read, as a folder, without following a link.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How files are opened: without following a link, and without waiting for the writer of a pipe.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

impl Jail {
    /// Everything below `root`, which must be a folder. Links on the way to the root are its owner's choice
    /// and are followed.
    pub fn new(root: &Path, symlinks: Symlinks) -> Result<Self, JailError> {
        let fail = |source| JailError::Root { root: root.to_owned(), source };
        let path = root.canonicalize().map_err(fail)?;
        let given = std::path::absolute(root).map_err(fail)?;
        let handle = openat(CWD, &path, FOLDER, Mode::empty()).map_err(|error| fail(error.into()))?;
        Ok(Self(Arc::new(Root { handle, path, given, symlinks, swept: sweep::Swept::default() })))
    }

    /// The path of the root.
    pub fn root(&self) -> &Path {
        &self.0.path
    }

    /// Parses a path: relative to the root, or absolute and below it. It need not
    /// exist.
    pub fn path(&self, text: &str) -> Result<Inside, JailError> {
        path::parse(text, &[&self.0.path, &self.0.given])
    }

    /// Opens a folder.
    pub fn folder(&self, path: &Inside) -> Result<Folder, JailError> {
        let place = self.locate(path, Last::Follow)?;
        let handle = openat(&place.parent, &place.name, FOLDER, Mode::empty())
            .map_err(|error| JailError::opening(path, error))?;
        Ok(Folder::new(path.clone(), handle))
    }

    /// Opens a file to read. Devices, pipes and sockets are refused.
    pub fn open(&self, path: &Inside) -> Result<File, JailError> {
        let place = self.locate(path, Last::Follow)?;
        let handle = openat(&place.parent, &place.name, FILE, Mode::empty())
            .map_err(|error| JailError::opening(path, error))?;
        folder::regular(path, handle)
    }

    /// Describes the entry at a path. A link as the last part is not followed.
    pub fn look(&self, path: &Inside) -> Result<Look, JailError> {
        let place = self.locate(path, Last::Keep)?;
        Look::at(&place.parent, &place.name, path)
    }

    /// Describes the entry at a path, if there is one.
    pub fn look_if_any(&self, path: &Inside) -> Result<Option<Look>, JailError> {
        match self.look(path) {
            Ok(look) => Ok(Some(look)),
            Err(JailError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The path after links are followed, for messages and for handing files to other programs.
    /// By the time it is used, it may lead elsewhere: open through the jail whatever you can.
    pub fn real(&self, path: &Inside) -> PathBuf {
        self.0.path.join(path.as_path())
    }
}
