//! The library: its root, and what all tools share. Made by the first call, so that a gateway that merely
//! lists the tools opens nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};

use toolyard_jail::{Inside, Jail, Symlinks};
use toolyard_tool::ToolError;

use crate::config::Config;
use crate::services::Services;
use crate::trouble::Told as _;

/// What the pack itself keeps in the library: manifests and the journals of plans.
pub(crate) const OWN_FOLDER: &str = ".toolyard";

#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) jail: Jail,
    pub(crate) config: Config,
    pub(crate) services: Services,
    /// One change at a time, so that two writers of one file do not lose each other's work.
    changing: Mutex<()>,
}

impl Library {
    pub(crate) fn open(config: &Config) -> Result<Self, ToolError> {
        let symlinks = if config.allow_symlinks { Symlinks::Follow } else { Symlinks::Forbid };
        let jail = Jail::new(&config.root, symlinks).told()?;
        let services = Services::new(config);
        Ok(Self { jail, config: config.clone(), services, changing: Mutex::new(()) })
    }

    pub(crate) fn path(&self, text: &str) -> Result<Inside, ToolError> {
        self.jail.path(text).told()
    }

    /// A path that is about to be changed: what the pack keeps for itself is not for others.
    pub(crate) fn path_to_change(&self, text: &str) -> Result<Inside, ToolError> {
        let path = self.path(text)?;
        if path.parts().next().is_some_and(|first| first == OWN_FOLDER) {
            return Err(ToolError::new(format!("`{OWN_FOLDER}` holds manifests and what undoing needs"))
                .hint("use the `manifest_…` and `plan_…` tools"));
        }
        Ok(path)
    }

    /// Held while something is changed. Never held over `.await`: only blocking functions change files.
    pub(crate) fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A folder in what the pack keeps for itself, made if it is not there.
    pub(crate) fn own_folder(&self, name: &str) -> Result<Inside, ToolError> {
        let folder = Inside::root().join(OWN_FOLDER).and_then(|own| own.join(name)).told()?;
        self.jail.make_folders(&folder).told()?;
        Ok(folder)
    }
}
