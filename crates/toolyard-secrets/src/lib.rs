//! The secrets of one user: a sealed file, and beside it the key file that opens it, readable by its owner only.
//!
//! The key can be moved to the keyring of the operating system instead.
//!
//! The store protects against everything that reads or copies the sealed file alone: backups, synchronised folders,
//! commits by accident. It does not protect against programs of the same user, which can read both files, or ask an
//! unlocked keyring.
//!
//! All names and values are in one file, which is replaced as a whole. Secrets are few and small, and one file means
//! that a change happens completely or not at all.

mod secret;
mod name;
mod seal;
mod keyring;
mod file;
mod system;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

pub use secret::{NotText, Secret};

use file::Lock;
use keyring::{Keyring, Text};
use seal::Key;

/// The sealed file and the key file in the folder of a store.
const SEALED: &str = "sealed";
const KEY: &str = "key";
/// Marks that the key is in the keyring of the operating system. Only valid while there is no key file.
const IN_KEYRING: &str = "key-in-keyring";

/// How many bytes a value may have, and how many secrets a store.
pub const LONGEST_VALUE: usize = 64 * 1024;
pub const MOST_SECRETS: usize = 1000;

/// The secrets of one user. Every call reads the file, so that all programs of the user see the same values.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// Why a secret could not be read or written. Holds no secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{verb} {}: {source}", path.display())]
    Io { verb: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "{} can be read by other users: run `chmod 600` on it, and replace the secrets if another user may have read it",
        _0.display()
    )]
    ReadableByOthers(PathBuf),
    #[error(
        "{} is missing, so the stored secrets cannot be read: restore it from a backup, or delete {} and store the \
         secrets again", key.display(), sealed.display()
    )]
    KeyMissing { key: PathBuf, sealed: PathBuf },
    #[error(
        "{} is damaged or does not belong to the key beside it: restore both from a backup, or delete it and store the \
         secrets again", _0.display()
    )]
    Damaged(PathBuf),
    #[error("`{0}` is not a valid name of a secret: use up to 200 letters, digits and _ - . : / @ +")]
    Name(String),
    #[error("the value is longer than {LONGEST_VALUE} bytes")]
    TooLong,
    #[error("there are {MOST_SECRETS} secrets already: remove some with `toolyard secret rm`")]
    Full,
    #[error("another program has been writing {} for too long; try again", _0.display())]
    Locked(PathBuf),
    #[error("no random numbers from the system")]
    Random,
    #[error(
        "the keyring did not return the key of the stored secrets: {0}. Unlock it, or run `toolyard secret key file` \
         in a session in which it is unlocked"
    )]
    KeyringLocked(String),
    #[error(
        "the keyring has no key for {}, so the stored secrets cannot be read: restore the keyring from a backup, or \
         delete that file and store the secrets again", _0.display()
    )]
    KeyringEmpty(PathBuf),
    #[error("the keyring did not store the key of the secrets, so the key was not moved: {0}")]
    KeyringRefused(String),
}

/// The place of a store's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// In a file beside the sealed one, readable by its owner only.
    File,
    /// In the keyring of the operating system.
    Keyring,
}

type Values = BTreeMap<String, Secret>;

impl Store {
    /// The store in this folder, which need not exist: the first secret creates it.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        Ok(Self { folder: std::path::absolute(folder).map_err(|error| Error::io("find", folder, error))? })
    }

    /// The value of a secret, if there is one of this name.
    pub fn get(&self, name: &str) -> Result<Option<Secret>, Error> {
        name::check(name)?;
        Ok(self.read()?.remove(name))
    }

    /// Stores a secret, also in place of another of this name. It is on the disk when this returns.
    pub fn set(&self, name: &str, value: Secret) -> Result<(), Error> {
        name::check(name)?;
        if value.expose().len() > LONGEST_VALUE {
            return Err(Error::TooLong);
        }
        system::create_folder(&self.folder).map_err(|error| Error::io("create", &self.folder, error))?;
        let _lock = Lock::take(&self.folder)?;
        let mut values = self.read()?;
        if values.len() >= MOST_SECRETS && !values.contains_key(name) {
            return Err(Error::Full);
        }
        values.insert(name.to_owned(), value);
        self.write(&values)
    }

    /// Removes a secret; whether there was one of this name.
    pub fn remove(&self, name: &str) -> Result<bool, Error> {
        name::check(name)?;
        if !self.sealed().exists() {
            return Ok(false);
        }
        let _lock = Lock::take(&self.folder)?;
        let mut values = self.read()?;
        let was_there = values.remove(name).is_some();
        if was_there {
            self.write(&values)?;
        }
        Ok(was_there)
    }

    /// The names of all secrets, in order.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        Ok(self.read()?.into_keys().collect())
    }

    /// The file that changes with every change of a secret.
    pub fn sealed(&self) -> PathBuf {
        self.folder.join(SEALED)
    }

    /// The place of the key, or where the first secret will create it.
    pub fn key_place(&self) -> KeyPlace {
        let has_file = self.folder.join(KEY).exists();
        if !has_file && self.folder.join(IN_KEYRING).exists() { KeyPlace::Keyring } else { KeyPlace::File }
    }

    /// Moves the key, or makes one there. If the program is killed before the end, the key stays in its file.
    pub fn move_key(&self, to: KeyPlace) -> Result<(), Error> {
        system::create_folder(&self.folder).map_err(|error| Error::io("create", &self.folder, error))?;
        let _lock = Lock::take(&self.folder)?;
        let text = match self.key_text(true)? {
            Some(text) => text,
            None if self.sealed().exists() => return Err(self.no_key()),
            None => Key::make()?.1,
        };
        match to {
            KeyPlace::Keyring => {
                self.give_to_keyring(&text)?;
                file::remove(&self.folder.join(KEY))
            }
            KeyPlace::File => {
                file::replace(&self.folder.join(KEY), &text)?;
                if file::remove(&self.folder.join(IN_KEYRING)).is_ok() {
                    // A key that stays in the keyring opens nothing that the file does not.
                    let _ = Keyring::of(&self.folder).clear();
                }
                Ok(())
            }
        }
    }

    fn read(&self) -> Result<Values, Error> {
        let sealed = self.sealed();
        let Some(bytes) = file::read(&sealed)? else { return Ok(Values::new()) };
        let values = self.key(false)?.ok_or_else(|| self.no_key())?.open(&bytes);
        if values.is_none() && self.key_place() == KeyPlace::Keyring {
            // The key that was read before may be that of an earlier store.
            let again = self.key(true)?.ok_or_else(|| self.no_key())?.open(&bytes);
            return again.ok_or(Error::Damaged(sealed));
        }
        values.ok_or(Error::Damaged(sealed))
    }

    /// Only under the lock.
    fn write(&self, values: &Values) -> Result<(), Error> {
        let key = match self.key(false)? {
            Some(key) => key,
            None => self.make_key()?,
        };
        file::replace(&self.sealed(), &key.seal(values)?)
    }

    fn key(&self, again: bool) -> Result<Option<Key>, Error> {
        let Some(text) = self.key_text(again)? else { return Ok(None) };
        Key::parse(text.to_vec()).map(Some).ok_or_else(|| Error::Damaged(self.folder.join(KEY)))
    }

    /// The key as its file has it. `again` asks the keyring although the key was read before.
    fn key_text(&self, again: bool) -> Result<Option<Text>, Error> {
        let path = self.folder.join(KEY);
        if let Some(bytes) = file::read(&path)? {
            if !system::is_private(&path).map_err(|error| Error::io("inspect", &path, error))? {
                return Err(Error::ReadableByOthers(path));
            }
            return Ok(Some(bytes.into()));
        }
        match self.key_place() {
            KeyPlace::File => Ok(None),
            KeyPlace::Keyring => Keyring::of(&self.folder).load(again).map_err(Error::KeyringLocked),
        }
    }

    fn no_key(&self) -> Error {
        match self.key_place() {
            KeyPlace::File => Error::KeyMissing { key: self.folder.join(KEY), sealed: self.sealed() },
            KeyPlace::Keyring => Error::KeyringEmpty(self.sealed()),
        }
    }

    fn make_key(&self) -> Result<Key, Error> {
        let (key, text) = Key::make()?;
        match self.key_place() {
            KeyPlace::File => file::replace(&self.folder.join(KEY), &text)?,
            KeyPlace::Keyring => self.give_to_keyring(&text)?,
        }
        Ok(key)
    }

    fn give_to_keyring(&self, text: &Text) -> Result<(), Error> {
        Keyring::of(&self.folder).store(text).map_err(Error::KeyringRefused)?;
        file::replace(&self.folder.join(IN_KEYRING), b"")
    }
}

impl Error {
    fn io(verb: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { verb, path: path.to_owned(), source }
    }
}
