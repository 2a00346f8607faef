//! The folders in which packs keep their files.

use std::io;
use std::path::PathBuf;

/// Gives each pack its folders. Nothing is made before a pack asks.
pub trait Folders: Send + Sync + 'static {
    /// The folder of this pack for data that must last.
    fn state(&self, pack: &str) -> io::Result<PathBuf>;

    /// The folder of this pack for data that can be made again.
    fn cache(&self, pack: &str) -> io::Result<PathBuf>;
}

/// A folder per pack below two others.
#[derive(Clone, Debug)]
pub struct FoldersIn {
    state: PathBuf,
    cache: PathBuf,
}

impl FoldersIn {
    /// Below these.
    pub fn new(state: impl Into<PathBuf>, cache: impl Into<PathBuf>) -> Self {
        Self { state: state.into(), cache: cache.into() }
    }
}

impl Folders for FoldersIn {
    fn state(&self, pack: &str) -> io::Result<PathBuf> {
        make(self.state.join(pack))
    }

    fn cache(&self, pack: &str) -> io::Result<PathBuf> {
        make(self.cache.join(pack))
    }
}

fn make(folder: PathBuf) -> io::Result<PathBuf> {
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
