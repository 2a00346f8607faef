//! The index: which files are in the folder, and how large they are. It is a file in the pack's folder, replaced as a
//! whole, so that a program that is killed leaves the old one or the new one.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// Further files are ignored.
const MOST_FILES: usize = 10_000;

type Files = BTreeMap<String, u64>;

pub(crate) struct Index {
    path: PathBuf,
    files: Mutex<Files>,
}

impl Index {
    /// The index of an earlier run, if there is one that can be read.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join("index.json");
        let files = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Files::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { path, files: Mutex::new(files) })
    }

    /// The names of the files and their sizes.
    pub(crate) fn files(&self) -> Files {
        self.files.lock().clone()
    }

    /// Looks at the folder once, and stores what has changed.
    pub(crate) fn look(&self, folder: &Path) -> io::Result<()> {
        let mut found = Files::new();
        for entry in std::fs::read_dir(folder)?.take(MOST_FILES) {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_file() {
                found.insert(entry.file_name().to_string_lossy().into_owned(), metadata.len());
            }
        }
        if found == self.files() {
            return Ok(());
        }
        let new = self.path.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(&found)?)?;
        std::fs::rename(&new, &self.path)?;
        *self.files.lock() = found;
        Ok(())
    }

    /// Scans again and again. The host ends it with the pack.
    pub(crate) async fn keep(self: Arc<Self>, folder: PathBuf, pause_ms: u64) {
        loop {
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            let (index, folder) = (self.clone(), folder.clone());
            // Files are read on a thread for blocking work. A folder that is missing for a moment is scanned again.
            let _ = tokio::task::spawn_blocking(move || index.look(&folder)).await;
        }
    }
}
