//! The folders of packs: state below the folder of the config set, cache below a folder of the user. Only their owner can
//! read them.

use std::io;
use std::path::{Path, PathBuf};

use toolyard_tool::host::Folders;

use crate::system;

#[derive(Clone)]
pub(crate) struct PackFolders {
    state: Option<PathBuf>,
    cache: Option<PathBuf>,
}

impl PackFolders {
    pub(crate) fn new(state: Option<&Path>, cache: Option<&Path>) -> Self {
        Self { state: state.map(|state| state.join("packs")), cache: cache.map(ToOwned::to_owned) }
    }
}

impl PackFolders {
    /// Where the state of a pack is, if there is a place for it.
    pub(crate) fn of_state(&self, pack: &str) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join(pack))
    }
}

impl Folders for PackFolders {
    fn state(&self, pack: &str) -> io::Result<PathBuf> {
        make(self.state.as_deref(), pack, "the gateway keeps no state: use --state-dir")
    }

    fn cache(&self, pack: &str) -> io::Result<PathBuf> {
        make(
            self.cache.as_deref(),
            pack,
            "there is no folder for caches: neither XDG_CACHE_HOME nor HOME is set",
        )
    }
}

fn make(base: Option<&Path>, pack: &str, nowhere: &str) -> io::Result<PathBuf> {
    let folder = base.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, nowhere))?.join(pack);
    let explain =
        |error: io::Error| io::Error::new(error.kind(), format!("create {}: {error}", folder.display()));
    system::create_folder(&folder).map_err(explain)?;
    Ok(folder)
}
