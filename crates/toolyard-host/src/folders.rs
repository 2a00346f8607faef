//! The folders of packs: state below the folder of the config set, cache below a folder of the user. Only their owner
//! can read them.

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
        // Packs pass these folders to programs that work elsewhere.
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        Self {
            state: state.map(|state| absolute(state.join("packs"))),
            cache: cache.map(|cache| absolute(cache.to_owned())),
        }
    }
}

impl PackFolders {
    /// The folder for the state of a pack, if there is a state directory.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_absolute_wherever_the_gateway_was_started() {
        let folders = PackFolders::new(Some(Path::new("state")), Some(Path::new("cache")));
        let here = std::env::current_dir().unwrap();
        assert_eq!(folders.of_state("agents"), Some(here.join("state/packs/agents")));
        assert_eq!(folders.cache, Some(here.join("cache")));
    }
}
