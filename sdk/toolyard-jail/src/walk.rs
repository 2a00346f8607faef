//! The way from the root to the folder that holds the last part of a path, one handle after the other.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, openat, readlinkat};
use rustix::io::Errno;

use crate::{FOLDER, Inside, Jail, JailError, Symlinks};

/// As many links as Linux itself follows in one path.
const MOST_LINKS: usize = 40;

/// The treatment of a link as the last part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    /// The link is followed to its target.
    Follow,
    /// The link itself is used.
    Keep,
}

/// An open folder and a name in it.
pub(crate) struct Place {
    pub(crate) parent: OwnedFd,
    /// `.` for the folder itself, which only happens for the root and for links to folders.
    pub(crate) name: OsString,
}

impl Place {
    /// For changes: the root cannot be one end of a change.
    pub(crate) fn not_the_folder_itself(self) -> Result<Self, JailError> {
        if self.name == "." { Err(JailError::RootItself) } else { Ok(self) }
    }
}

impl Jail {
    pub(crate) fn locate(&self, path: &Inside, last: Last) -> Result<Place, JailError> {
        let mut walk = Walk { jail: self, path, open: Vec::new(), links: 0, todo: VecDeque::new() };
        walk.todo.extend(path.parts().map(ToOwned::to_owned));
        walk.run(last)
    }
}

struct Walk<'a> {
    jail: &'a Jail,
    path: &'a Inside,
    /// Handles of the folders on the way, without the root. `..` in a link goes back to one of these.
    open: Vec<OwnedFd>,
    links: usize,
    todo: VecDeque<OsString>,
}

impl Walk<'_> {
    fn run(mut self, last: Last) -> Result<Place, JailError> {
        while let Some(name) = self.todo.pop_front() {
            if name == ".." {
                self.open.pop().ok_or_else(|| self.leads_out())?;
            } else if !self.todo.is_empty() {
                self.enter(&name)?;
            } else if last == Last::Follow
                && let Some(target) = self.link_at(&name)?
            {
                self.follow(&target)?;
            } else {
                return Ok(Place { parent: self.here_owned()?, name });
            }
        }
        Ok(Place { parent: self.here_owned()?, name: ".".into() })
    }

    fn enter(&mut self, name: &OsString) -> Result<(), JailError> {
        match openat(self.here(), name, FOLDER, Mode::empty()) {
            Ok(folder) => self.open.push(folder),
            // Systems differ in the error for a link that must not be followed.
            Err(error @ (Errno::LOOP | Errno::NOTDIR | Errno::MLINK)) => match self.link_at(name)? {
                Some(target) => self.follow(&target)?,
                None => return Err(JailError::opening(self.path, error)),
            },
            Err(error) => return Err(JailError::opening(self.path, error)),
        }
        Ok(())
    }

    fn link_at(&self, name: &OsString) -> Result<Option<PathBuf>, JailError> {
        match readlinkat(self.here(), name, Vec::new()) {
            Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()).into())),
            Err(Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(error) => Err(JailError::opening(self.path, error)),
        }
    }

    /// Puts the target of a link in front of the rest of the path.
    fn follow(&mut self, target: &Path) -> Result<(), JailError> {
        if self.jail.0.symlinks == Symlinks::Forbid {
            return Err(JailError::Symlink { path: self.path.to_string() });
        }
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(self.leads_out());
        }
        let relative = if target.is_absolute() {
            self.open.clear();
            target.strip_prefix(&self.jail.0.path).map_err(|_| self.leads_out())?
        } else {
            target
        };
        for part in relative.components().rev() {
            match part {
                Component::Normal(name) => self.todo.push_front(name.to_owned()),
                Component::ParentDir => self.todo.push_front("..".into()),
                Component::CurDir => {}
                Component::RootDir | Component::Prefix(_) => return Err(self.leads_out()),
            }
        }
        Ok(())
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.open.last().map_or(self.jail.0.handle.as_fd(), |folder| folder.as_fd())
    }

    fn here_owned(&mut self) -> Result<OwnedFd, JailError> {
        if let Some(folder) = self.open.pop() {
            return Ok(folder);
        }
        self.jail.0.handle.try_clone().map_err(|error| JailError::io(self.path, error))
    }

    fn leads_out(&self) -> JailError {
        JailError::LinkOutside { path: self.path.to_string() }
    }
}
