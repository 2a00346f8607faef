//! The gateway's keys, read from the state directory when something is first sealed or opened.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use toolyard_model::Keys;

#[derive(Debug, Default)]
pub(crate) struct StateKeys {
    folder: Option<PathBuf>,
    keys: OnceLock<Keys>,
}

impl StateKeys {
    pub(crate) fn new(state_dir: Option<&Path>) -> Self {
        Self { folder: state_dir.map(Path::to_owned), keys: OnceLock::new() }
    }

    /// The same keys as those of parked calls. Without a state directory they end with the process.
    pub(crate) fn get(&self) -> &Keys {
        self.keys.get_or_init(|| {
            let read = self.folder.as_deref().map(|folder| Keys::load(&folder.join("keys.json")));
            match read {
                Some(Ok(keys)) => keys,
                Some(Err(error)) => {
                    tracing::warn!(%error, "the keys cannot be read, so approvals and handles end with this run");
                    Keys::default()
                }
                None => Keys::default(),
            }
        })
    }
}
