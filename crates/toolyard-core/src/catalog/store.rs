//! The last good definitions of every upstream, stored between runs so that the next start can list at once.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use toolyard_model::Greeting;
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{Raw, Revision};

use super::{CacheHints, Definitions, ListKind, ListRead};

/// A folder with one file per upstream. Losing it costs a slower first list and nothing else, so failures
/// are logged and not passed on.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    /// Numbers the saves, so that an older state never replaces a newer one.
    saves: AtomicU64,
    /// The number of the last save of each upstream. Held while a file is written.
    saved: Mutex<HashMap<UpstreamId, u64>>,
}

#[derive(Serialize, Deserialize)]
struct StoredDefinitions {
    format: u32,
    fingerprint: String,
    revision: String,
    /// Whether the revision was inferred from silence.
    #[serde(default)]
    guessed: bool,
    greeting: Raw,
    tools: Vec<Raw>,
    resources: Vec<Raw>,
    templates: Vec<Raw>,
    prompts: Vec<Raw>,
}

const FORMAT: u32 = 1;

impl Store {
    pub(crate) fn open(state_dir: &Path) -> Option<Self> {
        let folder = state_dir.join("definitions");
        match fs::create_dir_all(&folder) {
            Ok(()) => Some(Self { folder, saves: AtomicU64::new(0), saved: Mutex::default() }),
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "definitions are not stored between runs");
                None
            }
        }
    }

    fn path(&self, id: &UpstreamId) -> PathBuf {
        self.folder.join(format!("{}.json", id.fold()))
    }

    /// The definitions that were stored for exactly this fingerprint of the upstream.
    pub(crate) fn load(&self, id: &UpstreamId, fingerprint: &str) -> Option<Definitions> {
        let text = fs::read(self.path(id)).ok()?;
        let stored: StoredDefinitions = serde_json::from_slice(&text).ok()?;
        if stored.format != FORMAT || stored.fingerprint != fingerprint {
            return None;
        }
        let greeting = Greeting::read(Revision::parse(&stored.revision)?, stored.greeting);
        let mut definitions = Definitions::new(Greeting { guessed: stored.guessed, ..greeting });
        // How long a list of an earlier run may be kept is not known.
        let has_stamps = definitions.greeting.revision.has_result_stamps();
        let hints = if has_stamps { CacheHints::UNKNOWN } else { CacheHints::default() };
        for (kind, entries) in [
            (ListKind::Tools, stored.tools),
            (ListKind::Resources, stored.resources),
            (ListKind::Templates, stored.templates),
            (ListKind::Prompts, stored.prompts),
        ] {
            definitions.set(kind, ListRead { entries, hints, ..ListRead::default() });
        }
        Some(definitions)
    }

    /// Saves on a thread where no call waits.
    pub(crate) fn save_later(
        self: &Arc<Self>,
        id: &UpstreamId,
        fingerprint: &str,
        definitions: &Definitions,
    ) {
        let number = self.saves.fetch_add(1, Ordering::Relaxed) + 1;
        let (store, id) = (self.clone(), id.clone());
        let (fingerprint, definitions) = (fingerprint.to_owned(), definitions.clone());
        tokio::task::spawn_blocking(move || {
            let mut saved = store.saved.lock();
            if saved.get(&id).is_none_or(|last| *last < number) {
                store.save(&id, &fingerprint, &definitions);
                saved.insert(id, number);
            }
        });
    }

    fn save(&self, id: &UpstreamId, fingerprint: &str, definitions: &Definitions) {
        let stored = StoredDefinitions {
            format: FORMAT,
            fingerprint: fingerprint.to_owned(),
            revision: definitions.greeting.revision.to_string(),
            guessed: definitions.greeting.guessed,
            greeting: definitions.greeting.whole.clone(),
            tools: definitions.list(ListKind::Tools).to_vec(),
            resources: definitions.list(ListKind::Resources).to_vec(),
            templates: definitions.list(ListKind::Templates).to_vec(),
            prompts: definitions.list(ListKind::Prompts).to_vec(),
        };
        if let Err(error) = self.write(id, &stored) {
            tracing::warn!(upstream = %id, %error, "definitions were not stored");
        }
    }

    /// Written to a temporary file and renamed, so that a file is whole or absent.
    fn write(&self, id: &UpstreamId, stored: &StoredDefinitions) -> io::Result<()> {
        let path = self.path(id);
        let beside = path.with_extension("new");
        fs::write(&beside, serde_json::to_vec(stored)?)?;
        fs::rename(beside, path)
    }
}

/// The tools that were stored for an upstream when it was last connected, whatever its definition was.
pub fn stored_tools(state_dir: &Path, id: &UpstreamId) -> Vec<Raw> {
    let path = state_dir.join("definitions").join(format!("{}.json", id.fold()));
    let stored = fs::read(path).ok().and_then(|text| serde_json::from_slice::<StoredDefinitions>(&text).ok());
    stored.filter(|stored| stored.format == FORMAT).map(|stored| stored.tools).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_definitions_are_used_for_the_same_upstream_definition_only() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let id = UpstreamId::parse("files").unwrap();
        let whole = Raw::parse(r#"{"capabilities":{"tools":{}},"serverInfo":{"name":"x"}}"#).unwrap();
        let mut definitions = Definitions::new(Greeting::read(Revision::V2025_06_18, whole));
        definitions.set(ListKind::Tools, vec![Raw::parse(r#"{"name":"a" , "x":1.0}"#).unwrap()]);
        store.save(&id, "one", &definitions);
        let loaded = store.load(&id, "one").unwrap();
        assert_eq!(loaded.list(ListKind::Tools)[0].as_str(), r#"{"name":"a" , "x":1.0}"#);
        assert_eq!((loaded.greeting.revision, loaded.greeting.guessed), (Revision::V2025_06_18, false));
        definitions.greeting.guessed = true;
        store.save(&id, "one", &definitions);
        assert!(store.load(&id, "one").unwrap().greeting.guessed);
        assert!(store.load(&id, "two").is_none());
        fs::write(store.path(&id), "{").unwrap();
        assert!(store.load(&id, "one").is_none());
    }
}
