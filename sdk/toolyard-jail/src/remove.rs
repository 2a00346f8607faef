//! Removing: links are removed themselves, never what they lead to, and the root never.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, unlinkat};

use crate::walk::Last;
use crate::{Folder, Inside, Jail, JailError, Kind};

/// Deeper folders are not removed: no library is that deep, and each level keeps a handle open.
const DEEPEST: usize = 128;

impl Jail {
    /// Removes a file or a link.
    pub fn remove_file(&self, path: &Inside) -> Result<(), JailError> {
        let place = self.locate(path, Last::Keep)?.not_the_folder_itself()?;
        unlink(&place.parent, &place.name, AtFlags::empty(), path)
    }

    /// Removes an empty folder.
    pub fn remove_folder(&self, path: &Inside) -> Result<(), JailError> {
        let place = self.locate(path, Last::Keep)?.not_the_folder_itself()?;
        unlink(&place.parent, &place.name, AtFlags::REMOVEDIR, path)
    }

    /// Removes a folder with everything in it. `go_on` is asked before each removal; with `false` it stops
    /// where it is and answers `false`.
    pub fn remove_tree(&self, path: &Inside, go_on: &mut dyn FnMut() -> bool) -> Result<bool, JailError> {
        if path.is_root() {
            return Err(JailError::RootItself);
        }
        let folder = {
            // Not `folder`, which might follow a link.
            let place = self.locate(path, Last::Keep)?.not_the_folder_itself()?;
            let parent = path.parent().unwrap_or_default();
            Folder::new(parent, place.parent).folder(&place.name)?
        };
        if !empty(&folder, go_on, 0)? || !go_on() {
            return Ok(false);
        }
        self.remove_folder(path).map(|()| true)
    }
}

fn empty(folder: &Folder, go_on: &mut dyn FnMut() -> bool, depth: usize) -> Result<bool, JailError> {
    if depth > DEEPEST {
        let why = "it is too deep";
        return Err(JailError::Invalid { path: folder.path().to_string(), why });
    }
    for entry in folder.entries()? {
        if !go_on() {
            return Ok(false);
        }
        let path = folder.path().join_checked(&entry.name);
        let flags = if entry.kind == Kind::Folder {
            if !empty(&folder.folder(&entry.name)?, go_on, depth + 1)? {
                return Ok(false);
            }
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        unlink(folder.handle(), &entry.name, flags, &path)?;
    }
    Ok(true)
}

fn unlink(folder: &OwnedFd, name: &OsStr, flags: AtFlags, path: &Inside) -> Result<(), JailError> {
    unlinkat(folder, name, flags).map_err(|error| JailError::opening(path, error))
}
