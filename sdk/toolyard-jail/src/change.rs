//! Making folders, moving and linking. Each change names its two ends by open folders.

use rustix::fs::{AtFlags, Mode, RenameFlags, linkat, mkdirat, renameat, renameat_with};
use rustix::io::Errno;

use crate::walk::Last;
use crate::{Existing, Inside, Jail, JailError, Kind, Look};

/// The permissions, before the user's umask.
const FOLDER_MODE: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

impl Jail {
    /// Makes a folder; the one it is in must be there.
    pub fn make_folder(&self, path: &Inside) -> Result<(), JailError> {
        let place = self.locate(path, Last::Keep)?;
        mkdirat(&place.parent, &place.name, FOLDER_MODE).map_err(|error| JailError::opening(path, error))
    }

    /// Makes a folder and all missing parents. Returns what it made, from the top down.
    pub fn make_folders(&self, path: &Inside) -> Result<Vec<Inside>, JailError> {
        let mut made = Vec::new();
        for folder in self.missing_folders(path)? {
            match self.make_folder(&folder) {
                Ok(()) => made.push(folder),
                // Another process was faster.
                Err(JailError::Exists { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        // The other process may have created something else.
        self.folder(path)?;
        Ok(made)
    }

    /// The folders that [`make_folders`](Self::make_folders) would make.
    pub fn missing_folders(&self, path: &Inside) -> Result<Vec<Inside>, JailError> {
        let mut missing = Vec::new();
        let mut at = path.clone();
        loop {
            match self.folder(&at) {
                Ok(_) => break,
                Err(JailError::Missing { .. }) => missing.push(at.clone()),
                Err(error) => return Err(error),
            }
            match at.parent() {
                Some(parent) => at = parent,
                None => break,
            }
        }
        missing.reverse();
        Ok(missing)
    }

    /// Moves a file, a folder or a link (the link itself). With [`Existing::Keep`] nothing is ever replaced;
    /// with [`Existing::Replace`] a file is, in one step, and a folder only if it is empty.
    pub fn rename(&self, from: &Inside, to: &Inside, existing: Existing) -> Result<(), JailError> {
        if from.is_root() || to.is_root() {
            return Err(JailError::RootItself);
        }
        let source = self.locate(from, Last::Keep)?.not_the_folder_itself()?;
        let look = Look::at(&source.parent, &source.name, from)?;
        if look.kind == Kind::Folder && to.is_within(from) && to != from {
            let why = "a folder cannot be moved into itself";
            return Err(JailError::Invalid { path: to.to_string(), why });
        }
        let target = self.locate(to, Last::Keep)?.not_the_folder_itself()?;
        let fail = |error| JailError::opening(to, error);
        match existing {
            Existing::Replace => {
                renameat(&source.parent, &source.name, &target.parent, &target.name).map_err(fail)
            }
            Existing::Keep => match renameat_with(
                &source.parent,
                &source.name,
                &target.parent,
                &target.name,
                RenameFlags::NOREPLACE,
            ) {
                // For file systems without this operation: a link never replaces anything.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if look.kind == Kind::File => {
                    let linked =
                        linkat(&source.parent, &source.name, &target.parent, &target.name, AtFlags::empty());
                    linked.map_err(fail)?;
                    self.remove_file(from)
                }
                renamed => renamed.map_err(fail),
            },
        }
    }

    /// Gives a file a second name. Nothing is replaced.
    pub fn link(&self, from: &Inside, to: &Inside) -> Result<(), JailError> {
        let source = self.locate(from, Last::Follow)?.not_the_folder_itself()?;
        let target = self.locate(to, Last::Keep)?.not_the_folder_itself()?;
        linkat(&source.parent, &source.name, &target.parent, &target.name, AtFlags::empty())
            .map_err(|error| JailError::opening(to, error))
    }
}
