//! The library: its root, and what all tools share. Made by the first call, so that a gateway that merely
//! lists the tools opens nothing.

use toolyard_jail::{Inside, Jail, Symlinks};
use toolyard_tool::{Context, ToolError};

use crate::config::Config;
use crate::locks::{Locked, Locks};
use crate::services::Services;
use crate::trouble::JailResult as _;

/// The folder of the pack itself in the library, for manifests and journals of plans.
pub(crate) const OWN_FOLDER: &str = ".toolyard";

#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) jail: Jail,
    pub(crate) config: Config,
    pub(crate) services: Services,
    /// One change at a time per path, so that two writers of one file do not lose each other's work.
    locks: Locks,
}

impl Library {
    pub(crate) fn open(config: &Config) -> Result<Self, ToolError> {
        let symlinks = if config.allow_symlinks { Symlinks::Follow } else { Symlinks::Forbid };
        let jail = Jail::new(&config.root, symlinks).tool_error()?;
        let services = Services::new(config);
        Ok(Self { jail, config: config.clone(), services, locks: Locks::default() })
    }

    pub(crate) fn path(&self, text: &str) -> Result<Inside, ToolError> {
        self.jail.path(text).tool_error()
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

    /// Locks paths while they are changed. Waits while another call changes one of them, unless this call is
    /// cancelled. Only for blocking functions.
    pub(crate) fn lock(&self, context: &Context, paths: &[&Inside]) -> Result<Locked<'_>, ToolError> {
        self.locks.lock(paths, &|| !context.is_cancelled())
    }

    /// Locks the journals: one plan is carried out or undone at a time.
    pub(crate) fn lock_plans(&self, context: &Context) -> Result<Locked<'_>, ToolError> {
        self.lock(context, &[&Inside::root().join(OWN_FOLDER).tool_error()?])
    }

    /// A folder in what the pack keeps for itself, made if it is not there.
    pub(crate) fn own_folder(&self, name: &str) -> Result<Inside, ToolError> {
        let folder = Inside::root().join(OWN_FOLDER).and_then(|own| own.join(name)).tool_error()?;
        self.jail.make_folders(&folder).tool_error()?;
        Ok(folder)
    }
}
