//! Writing: a file appears whole or not at all. It is written in the same folder, synced, and
//! then renamed in one step; a process that is killed meanwhile leaves the old file unchanged.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, fchmod, fstat, fsync, linkat, openat, renameat, renameat_with,
    statat, unlinkat,
};
use rustix::io::Errno;

use crate::walk::{Last, Place};
use crate::{FILE, Inside, Jail, JailError, TEMPORARY, folder, sweep};

/// The treatment of a file that exists already.
///
/// ```
/// use std::io::Write;
/// use toolyard_jail::{Existing, Jail, JailError, Symlinks};
///
/// # fn main() -> Result<(), JailError> {
/// # let folder = tempfile::tempdir()?;
/// # let root = folder.path();
/// let jail = Jail::new(root, Symlinks::Forbid)?;
/// let path = jail.path("notes.txt")?;
/// let put = |text: &'static str, existing| {
///     jail.write(&path, existing, |file| -> Result<(), JailError> { Ok(file.write_all(text.as_bytes())?) })
/// };
/// put("one", Existing::Keep)?;
/// assert!(matches!(put("two", Existing::Keep), Err(JailError::Exists { .. })));
/// put("three", Existing::Replace)?;
/// assert_eq!(jail.look(&path)?.size, 5);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and the call fails.
    Keep,
    /// The file is replaced, in one step.
    Replace,
}

const NEW: OFlags =
    OFlags::RDWR.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The permissions, before the user's umask.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);

impl Jail {
    /// Writes a file: `fill` gets an empty one, which takes its place when `fill` is done.
    pub fn write<T, E: From<JailError>>(
        &self,
        path: &Inside,
        existing: Existing,
        fill: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<T, E> {
        let place = self.locate(path, Last::Follow)?.not_the_folder_itself()?;
        let mut draft = self.draft(place, path)?;
        let filled = fill(&mut draft.file)?;
        draft.take_place(existing)?;
        Ok(filled)
    }

    /// Changes a file: `edit` gets a copy of it, which replaces the file when `edit` is done. Fails with
    /// [`JailError::Changed`] if the file was replaced meanwhile.
    pub fn edit<T, E: From<JailError>>(
        &self,
        path: &Inside,
        edit: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<T, E> {
        self.edit_while(path, &|| true, edit)
    }

    /// [`edit`](Self::edit) that ends with [`JailError::Cancelled`] soon after `go_on` returns false, also while a
    /// huge file is being copied.
    ///
    /// ```
    /// use toolyard_jail::{Existing, Jail, JailError, Symlinks};
    ///
    /// # fn main() -> Result<(), JailError> {
    /// # let folder = tempfile::tempdir()?;
    /// # let root = folder.path();
    /// # std::fs::write(root.join("song"), "la")?;
    /// let jail = Jail::new(root, Symlinks::Forbid)?;
    /// let stopped = jail.edit_while(&jail.path("song")?, &|| false, |_| Ok::<_, JailError>(()));
    /// assert!(matches!(stopped, Err(JailError::Cancelled { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn edit_while<T, E: From<JailError>>(
        &self,
        path: &Inside,
        go_on: &dyn Fn() -> bool,
        edit: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<T, E> {
        let place = self.locate(path, Last::Follow)?.not_the_folder_itself()?;
        let handle = openat(&place.parent, &place.name, FILE, Mode::empty())
            .map_err(|error| JailError::opening(path, error))?;
        let mut old = folder::regular(path, handle)?;
        let mut draft = self.draft(place, path)?;
        draft.copy(&mut old, go_on)?;
        let edited = edit(&mut draft.file)?;
        if !go_on() {
            return Err(JailError::Cancelled { path: path.to_string() }.into());
        }
        draft.check_unchanged(&old)?;
        draft.take_place(Existing::Replace)?;
        Ok(edited)
    }

    fn draft<'a>(&self, place: Place, path: &'a Inside) -> Result<Draft<'a>, JailError> {
        self.0.swept.sweep(&place.parent);
        Draft::new(place, path)
    }

    /// Opens a file to write at its end, and makes it if it is not there.
    pub fn append(&self, path: &Inside) -> Result<File, JailError> {
        let place = self.locate(path, Last::Follow)?.not_the_folder_itself()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = openat(&place.parent, &place.name, flags | OFlags::NONBLOCK, FILE_MODE)
            .map_err(|error| JailError::opening(path, error))?;
        let file = folder::regular(path, handle)?;
        sync_folder(&place.parent);
        Ok(file)
    }

    /// Brings the names in a folder to the disk.
    pub fn sync(&self, folder: &Inside) -> Result<(), JailError> {
        let folder = self.folder(folder)?;
        sync_folder(folder.handle());
        Ok(())
    }
}

/// A file that has not taken its place yet. Removed if dropped before that.
struct Draft<'a> {
    place: Place,
    path: &'a Inside,
    name: OsString,
    file: File,
    is_placed: bool,
}

impl<'a> Draft<'a> {
    fn new(place: Place, path: &'a Inside) -> Result<Self, JailError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!("{TEMPORARY}{}-{count}", std::process::id()));
            match openat(&place.parent, &name, NEW, FILE_MODE) {
                Ok(handle) => {
                    sweep::hold(&handle);
                    return Ok(Self { place, path, name, file: handle.into(), is_placed: false });
                }
                // Left by an earlier process with our process id.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(JailError::opening(path, error)),
            }
        }
    }

    /// The content and the permissions of the old file.
    fn copy(&mut self, old: &mut File, go_on: &dyn Fn() -> bool) -> Result<(), JailError> {
        copy_while(old, &mut self.file, go_on).map_err(|error| error.at(self.path))?;
        let fail = |error| JailError::io(self.path, error);
        std::io::Seek::rewind(&mut self.file).map_err(fail)?;
        let mode = fstat(&*old).map_err(|error| JailError::opening(self.path, error))?.st_mode;
        fchmod(&self.file, Mode::from_raw_mode(mode)).map_err(|error| JailError::opening(self.path, error))
    }

    /// Whether the file that was copied is still the one in place. The check and the replacement are two steps, so
    /// this narrows the window for lost changes rather than closing it.
    fn check_unchanged(&self, old: &File) -> Result<(), JailError> {
        let now = statat(&self.place.parent, &self.place.name, AtFlags::SYMLINK_NOFOLLOW);
        let before = fstat(old).map_err(|error| JailError::opening(self.path, error))?;
        match now {
            Ok(now) if (now.st_dev, now.st_ino) == (before.st_dev, before.st_ino) => Ok(()),
            _ => Err(JailError::Changed { path: self.path.to_string() }),
        }
    }

    fn take_place(mut self, existing: Existing) -> Result<(), JailError> {
        let fail = |error| JailError::opening(self.path, error);
        fsync(&self.file).map_err(fail)?;
        let (folder, name) = (self.place.parent.as_fd(), &self.place.name);
        match existing {
            Existing::Replace => renameat(folder, &self.name, folder, name).map_err(fail)?,
            Existing::Keep => {
                match renameat_with(folder, &self.name, folder, name, RenameFlags::NOREPLACE) {
                    // For file systems without this operation: a link never replaces anything.
                    Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                        linkat(folder, &self.name, folder, name, AtFlags::empty()).map_err(fail)?;
                        unlinkat(folder, &self.name, AtFlags::empty()).map_err(fail)?;
                    }
                    renamed => renamed.map_err(fail)?,
                }
            }
        }
        self.is_placed = true;
        sync_folder(&self.place.parent);
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.is_placed {
            let _ = unlinkat(&self.place.parent, &self.name, AtFlags::empty());
        }
    }
}

/// How much is copied between two looks at `go_on`. Small enough to stop within a second on a slow disk, large
/// enough that the system can still copy by itself.
const BLOCK: u64 = 8 * 1024 * 1024;
/// How many blocks may wait to be written to the disk, so that the last sync is short.
const SYNC_EVERY: u64 = 16;

/// Copies the rest of `from` to `to` and stops with [`JailError::Cancelled`] soon after `go_on` returns false.
///
/// ```
/// use std::fs::File;
/// use toolyard_jail::copy_while;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let (from, to) = (folder.path().join("from"), folder.path().join("to"));
/// # std::fs::write(&from, "la")?;
/// let bytes = copy_while(&mut File::open(from)?, &mut File::create(to)?, &|| true)?;
/// assert_eq!(bytes, 2);
/// # Ok(())
/// # }
/// ```
pub fn copy_while(from: &mut File, to: &mut File, go_on: &dyn Fn() -> bool) -> Result<u64, JailError> {
    let mut copied = 0;
    for block in 1.. {
        if !go_on() {
            return Err(JailError::Cancelled { path: String::new() });
        }
        let bytes = std::io::copy(&mut from.take(BLOCK), to)?;
        copied += bytes;
        if bytes < BLOCK {
            break;
        }
        if block % SYNC_EVERY == 0 {
            to.sync_data()?;
        }
    }
    Ok(copied)
}

/// Not all file systems support it, and those that do not need not.
fn sync_folder(folder: &OwnedFd) {
    let _ = fsync(folder);
}
