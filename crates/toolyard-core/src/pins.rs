//! Keeps the record of what each configured server offered when it was first seen, and holds back tools whose
//! definitions have changed since in a way that needs approval. Apps, instances and packs are not recorded: they are
//! the user's own programs, and change while they are written.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolyard_policy::pin::{Announced, Book, Difference, Held, LockState, PinPolicy, Terms};
use toolyard_proto::name::{UpstreamId, canonical};

use crate::catalog::{Definitions, ListKind};
use crate::event::{Events, What};
use crate::plan::UpstreamKind;

const FORMAT: u32 = 1;

/// How the definitions of one upstream are compared with those recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinTerms {
    pub policy: PinPolicy,
    /// What the lock file beside its config has about it.
    pub lock: LockState,
}

/// One file per upstream, and the same in memory.
#[derive(Debug)]
pub(crate) struct Pins {
    folder: PathBuf,
    /// Held while a file is written, which happens only when a definition has changed.
    books: Mutex<HashMap<UpstreamId, Book>>,
    /// The tools that were held when an upstream was last compared, so that each is reported once.
    reported: Mutex<HashMap<UpstreamId, Vec<String>>>,
    events: Option<Arc<Events>>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    #[serde(flatten)]
    book: Book,
}

impl Pins {
    pub(crate) fn open(state_dir: &Path) -> Option<Self> {
        let folder = state_dir.join("pins");
        match fs::create_dir_all(&folder) {
            Ok(()) => {
                Some(Self { folder, books: Mutex::default(), reported: Mutex::default(), events: None })
            }
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "definitions of tools are not recorded");
                None
            }
        }
    }

    /// Reports tools that are held and accepted as events.
    pub(crate) fn reporting_to(self, events: Arc<Events>) -> Self {
        Self { events: Some(events), ..self }
    }

    /// Compares the tools of an upstream with the record, and sets which of them are held.
    pub(crate) fn review(&self, id: &UpstreamId, terms: &PinTerms, definitions: &mut Definitions) {
        let tools = definitions.list(ListKind::Tools);
        let named: Vec<(String, &str)> =
            tools.iter().filter_map(|raw| Some((raw.member("name")?.as_string()?, raw.as_str()))).collect();
        let reviewed = self.change(id, |book| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let terms = Terms { policy: &terms.policy, lock: &terms.lock, now };
            let reviewed = book.review(named.iter().map(|(name, sent)| (name.as_str(), *sent)), terms);
            (reviewed.is_changed, reviewed)
        });
        for Announced { tool, classes, .. } in &reviewed.announced {
            let changes: Vec<&str> = classes.iter().map(|class| class.meaning()).collect();
            tracing::warn!(target: "upstream", upstream = %id, tool, changes = changes.join(", "), "the definition of a tool changed");
        }
        for held in &reviewed.held {
            tracing::warn!(target: "upstream", upstream = %id, tool = held.tool, why = %held.why, "a tool is held");
        }
        self.report(id, &reviewed.held);
        definitions.hold(reviewed.held);
    }

    fn report(&self, id: &UpstreamId, held: &[Held]) {
        let now: Vec<String> = held.iter().map(|one| format!("{}: {}", one.tool, one.why)).collect();
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let before = reported.insert(id.clone(), now.clone()).unwrap_or_default();
        drop(reported);
        let Some(events) = &self.events else { return };
        for (held, _) in held.iter().zip(now).filter(|(_, text)| !before.contains(text)) {
            let tool = canonical(id, &held.tool).into();
            events.emit(What::ToolHeld { tool, why: held.why.to_string() });
        }
    }

    /// Records the definition that a tool has now as the accepted one.
    pub(crate) fn accept(&self, id: &UpstreamId, held: &Held) {
        self.change(id, |book| (true, book.accept(held)));
        if let Some(events) = &self.events {
            let tool = canonical(id, &held.tool).into();
            events.emit(What::ToolAccepted { tool, why: held.why.to_string() });
        }
    }

    /// The last changes that were accepted and reported, the newest first.
    pub(crate) fn announced(&self, id: &UpstreamId) -> Vec<Announced> {
        self.change(id, |book| (false, book.announced().rev().cloned().collect()))
    }

    /// Reads or changes the record of an upstream, and stores it if `act` reports that it is different.
    fn change<T>(&self, id: &UpstreamId, act: impl FnOnce(&mut Book) -> (bool, T)) -> T {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let book = books.entry(id.clone()).or_insert_with(|| self.load(id));
        let (is_changed, result) = act(book);
        if is_changed && let Err(error) = self.store(id, book) {
            tracing::warn!(upstream = %id, %error, "definitions of tools were not recorded");
        }
        result
    }

    fn path(&self, id: &UpstreamId) -> PathBuf {
        self.folder.join(format!("{}.json", id.fold()))
    }

    fn load(&self, id: &UpstreamId) -> Book {
        let path = self.path(id);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Book::default(),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the record of definitions cannot be read; a new one begins");
                return Book::default();
            }
        };
        match serde_json::from_slice::<Stored>(&text) {
            Ok(stored) if stored.format == FORMAT => stored.book,
            _ => {
                tracing::warn!(path = %path.display(), "the record of definitions is invalid; a new one begins");
                Book::default()
            }
        }
    }

    /// Written to a temporary file and renamed, so that a file is whole or absent.
    fn store(&self, id: &UpstreamId, book: &Book) -> io::Result<()> {
        let path = self.path(id);
        let beside = path.with_extension("new");
        fs::write(&beside, serde_json::to_vec(&Stored { format: FORMAT, book: book.clone() })?)?;
        fs::rename(beside, path)
    }
}

/// Whether the tools of such an upstream are recorded.
pub(crate) fn is_pinned(kind: UpstreamKind) -> bool {
    kind == UpstreamKind::Server
}

/// Why a tool is not offered and what to do about it.
pub(crate) fn reason(id: &UpstreamId, held: &Held) -> String {
    let tool = canonical(id, &held.tool);
    let hint = if held.is_locked() {
        "`toolyard lock` accepts what is offered now".to_owned()
    } else {
        format!("`toolyard approve` shows the change, and `toolyard approve {tool}` accepts it")
    };
    format!("it is held because {}; {hint}", held.why)
}

/// A held tool, as reports show it.
pub(crate) fn to_json(id: &UpstreamId, held: &Held) -> Value {
    json!({
        "id": canonical(id, &held.tool),
        "why": held.why.to_string(),
        "locked": held.is_locked(),
        "differences": differences(&held.differences),
    })
}

/// A change that was accepted and reported, as reports show it.
pub(crate) fn announced_json(id: &UpstreamId, announced: &Announced) -> Value {
    let changes: Vec<&str> = announced.classes.iter().map(|class| class.meaning()).collect();
    json!({
        "id": canonical(id, &announced.tool),
        "changes": changes,
        "differences": differences(&announced.differences),
        "at": crate::report::at(UNIX_EPOCH + std::time::Duration::from_secs(announced.at)),
    })
}

fn differences(all: &[Difference]) -> Value {
    all.iter().map(|one| json!({ "place": one.place, "change": one.change })).collect()
}

/// Which tools are held, shared by clones of definitions.
pub(crate) type HeldTools = Arc<[Held]>;
