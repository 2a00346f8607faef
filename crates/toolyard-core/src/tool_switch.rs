//! Tools that an operator has switched off one by one. They are kept between runs, so a tool stays off until it is
//! switched on again, also while its upstream is away.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use toolyard_proto::name::{UpstreamId, canonical};

const FILE: &str = "tools-off.json";
const FORMAT: u32 = 1;
/// How many tools may be off; a longer list belongs in a profile.
const MOST: usize = 10_000;

/// The own names of the tools of one upstream that are off, shared by clones of definitions.
pub(crate) type OffTools = Arc<[String]>;

/// Which tools are off, by upstream.
#[derive(Debug, Default)]
pub(crate) struct ToolSwitches {
    path: Option<PathBuf>,
    off: Mutex<BTreeMap<String, BTreeSet<String>>>,
}

#[derive(Serialize, Deserialize)]
struct StoredSwitches {
    format: u32,
    off: BTreeMap<String, BTreeSet<String>>,
}

impl ToolSwitches {
    pub(crate) fn open(state_dir: Option<&Path>) -> Self {
        let path = state_dir.map(|folder| folder.join(FILE));
        let off = path.as_deref().map(load).unwrap_or_default();
        Self { path, off: Mutex::new(off) }
    }

    fn off(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<String>>> {
        self.off.lock()
    }

    /// The tools of an upstream that are off.
    pub(crate) fn of(&self, id: &UpstreamId) -> OffTools {
        self.off().get(&id.fold()).map(|tools| tools.iter().cloned().collect()).unwrap_or_default()
    }

    /// Switches a tool off or on, and stores that. An error leaves everything as it was.
    pub(crate) fn set(&self, id: &UpstreamId, tool: &str, is_on: bool) -> io::Result<()> {
        let mut off = self.off();
        let mut next = off.clone();
        let tools = next.entry(id.fold()).or_default();
        if is_on {
            tools.remove(tool);
        } else {
            tools.insert(tool.to_owned());
        }
        next.retain(|_, tools| !tools.is_empty());
        if next.values().map(BTreeSet::len).sum::<usize>() > MOST {
            return Err(io::Error::other(format!("more than {MOST} tools are off; use a profile instead")));
        }
        if let Some(path) = &self.path {
            store(path, &next)?;
        }
        *off = next;
        Ok(())
    }
}

fn load(path: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return BTreeMap::new(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the list of disabled tools cannot be read; all tools are enabled");
            return BTreeMap::new();
        }
    };
    match serde_json::from_slice::<StoredSwitches>(&text) {
        Ok(stored) if stored.format == FORMAT => stored.off,
        _ => {
            tracing::warn!(path = %path.display(), "the list of disabled tools is invalid; all tools are enabled");
            BTreeMap::new()
        }
    }
}

/// Written to a temporary file and renamed, so that the file is whole or absent.
fn store(path: &Path, off: &BTreeMap<String, BTreeSet<String>>) -> io::Result<()> {
    let beside = path.with_extension("new");
    fs::write(&beside, serde_json::to_vec(&StoredSwitches { format: FORMAT, off: off.clone() })?)?;
    fs::rename(beside, path)
}

/// Why a tool is not offered and what to do about it.
pub(crate) fn reason(id: &UpstreamId, tool: &str) -> String {
    format!("it is switched off; `toolyard tools enable {}` switches it on", canonical(id, tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_stays_off_across_restarts_until_it_is_switched_on() {
        let folder = tempfile::tempdir().unwrap();
        let id = UpstreamId::parse("Files").unwrap();
        let switches = ToolSwitches::open(Some(folder.path()));
        switches.set(&id, "write", false).unwrap();
        switches.set(&id, "delete", false).unwrap();
        let again = ToolSwitches::open(Some(folder.path()));
        assert_eq!(
            *again.of(&UpstreamId::parse("files").unwrap()),
            ["delete".to_owned(), "write".to_owned()]
        );
        again.set(&id, "write", true).unwrap();
        again.set(&id, "delete", true).unwrap();
        assert!(ToolSwitches::open(Some(folder.path())).of(&id).is_empty());
    }

    #[test]
    fn a_switch_that_cannot_be_stored_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let id = UpstreamId::parse("files").unwrap();
        let switches = ToolSwitches::open(Some(&folder.path().join("missing")));
        assert!(switches.set(&id, "write", false).is_err());
        assert!(switches.of(&id).is_empty());
    }
}
