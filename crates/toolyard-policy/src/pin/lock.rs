//! A lock file: the definitions that a config was agreed with, written beside it and kept under version control.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

const VERSION: u32 = 1;

/// The tools of one upstream by their own names.
pub type Tools = BTreeMap<String, Value>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockFile {
    version: u32,
    pub upstreams: BTreeMap<String, Tools>,
}

/// The entry of an upstream in a lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LockState {
    /// There is none, or it does not have this upstream.
    #[default]
    None,
    Tools(Arc<Tools>),
    Unreadable(String),
}

impl LockFile {
    pub fn new(upstreams: BTreeMap<String, Tools>) -> Self {
        Self { version: VERSION, upstreams }
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if file.version != VERSION {
            return Err(format!("it has version {}, and this program reads version {VERSION}", file.version));
        }
        Ok(file)
    }

    /// Writes one line for each member, so that version control shows what changed.
    pub fn render(&self) -> String {
        let sorted: Value = serde_json::from_str(&crate::canonical::canonical(&serde_json::json!(self)))
            .expect("canonical JSON is JSON");
        format!("{sorted:#}\n")
    }
}
