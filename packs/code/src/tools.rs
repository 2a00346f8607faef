//! The tools: thin functions over the search, the change journal and the index.

pub(crate) mod files;
pub(crate) mod lsp;
pub(crate) mod map;
pub(crate) mod reword;
pub(crate) mod rewrite;
pub(crate) mod search;
pub(crate) mod semantic;
pub(crate) mod watch;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use toolyard_tool::{Context, Host, ToolError};

use crate::change::Journals;
use crate::config::{Config, RewordConfig};
use crate::embed::Encoder;
use crate::history::Histories;
use crate::index::{Answer, Filter, Index, store};
use crate::project::{CallerFolder, Place, Projects};
use crate::servers::{self, Limits, Pool};

/// What all tools of the pack share.
#[derive(Debug)]
pub(crate) struct Code {
    projects: Projects,
    pub(crate) journals: Journals,
    cache: PathBuf,
    config: Config,
    encoder: OnceLock<Arc<Encoder>>,
    indexes: Mutex<HashMap<PathBuf, Arc<Index>>>,
    pub(crate) watchers: watch::Watchers,
    /// The language servers.
    pub(crate) pool: Pool,
    pub(crate) histories: Histories,
    pub(crate) reword: Option<RewordConfig>,
    pub(crate) host: Host,
}

/// What a search of an index gave.
pub(crate) struct Found {
    pub(crate) answers: Vec<Answer>,
    /// Why meaning did not count, or not for all chunks.
    pub(crate) trouble: Option<String>,
}

impl Code {
    pub(crate) fn new(config: Config, host: Host, state: &Path, cache: &Path) -> Self {
        let limits = Limits {
            idle: Duration::from_secs(config.server_idle_seconds),
            memory_mb: config.server_memory_mb,
            most: config.max_servers,
        };
        let pool = Pool::new(host.clone(), servers::servers(&config.servers), limits);
        let projects = Projects::new(config.projects.clone(), config.write);
        let journals = Journals::new(state.join("journals"));
        journals.recover(&projects);
        Self {
            projects,
            journals,
            cache: cache.to_owned(),
            reword: config.reword.clone(),
            config,
            encoder: OnceLock::new(),
            histories: Histories::default(),
            indexes: Mutex::default(),
            watchers: watch::Watchers::default(),
            pool,
            host,
        }
    }

    /// The place that an argument names.
    pub(crate) async fn locate(&self, context: &Context, path: &str) -> Result<Place, ToolError> {
        let caller = self.caller_folder(context, path).await;
        let mut place = self.projects.locate(path, caller.as_ref())?;
        place.project.is_proven = context.is_proven();
        Ok(place)
    }

    /// The same for tools that run on a thread of their own.
    pub(crate) fn place(&self, context: &Context, path: &str) -> Result<Place, ToolError> {
        Handle::current().block_on(self.locate(context, path))
    }

    /// The place that an argument names, which need not exist yet.
    pub(crate) fn new_place(&self, context: &Context, path: &str) -> Result<Place, ToolError> {
        let caller = Handle::current().block_on(self.caller_folder(context, path));
        let mut place = self.projects.locate_new(path, caller.as_ref())?;
        place.project.is_proven = context.is_proven();
        Ok(place)
    }

    /// Where the caller works. The client is asked for its roots only if nothing else gives the path a meaning.
    async fn caller_folder(&self, context: &Context, path: &str) -> Option<CallerFolder> {
        let is_proven = context.is_proven();
        let path = match context.client_folder() {
            Some(folder) => folder.canonicalize().ok()?,
            None if !is_proven || self.projects.has_base_for(path) => return None,
            None => context.folder(None, &[]).await.ok()?,
        };
        Some(CallerFolder { path, is_proven })
    }

    /// The index of a place's project; opened once.
    pub(crate) fn index(&self, place: &Place) -> Result<Arc<Index>, ToolError> {
        let root = place.project.root();
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = indexes.get(root) {
            return Ok(index.clone());
        }
        let index = Arc::new(Index::open(place.project.clone(), &self.cache, self.encoder()?)?);
        indexes.insert(root.to_owned(), index.clone());
        Ok(index)
    }

    /// Removes the stored index of a project; returns whether there was one.
    pub(crate) fn delete_index(&self, place: &Place) -> Result<bool, ToolError> {
        let root = place.project.root();
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner).remove(root);
        remove_folder(&store::folder(&self.cache, root))
    }

    /// Removes all stored indexes; returns whether there were any.
    pub(crate) fn delete_all(&self) -> Result<bool, ToolError> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner).clear();
        remove_folder(&self.cache)
    }

    /// Searches an index. Vectors that are missing are computed afterwards, in the background. Blocks: for tools that
    /// run on a thread of their own.
    pub(crate) fn search(
        &self,
        index: &Arc<Index>,
        query: &str,
        filter: &Filter,
        limit: usize,
    ) -> Result<Found, ToolError> {
        let encoder = self.encoder()?;
        let vector = Handle::current().block_on(encoder.query(query));
        let trouble = vector.as_ref().err().map(|error| error.message().to_owned());
        let answers = index.search(query, &vector.unwrap_or_default(), filter, limit);
        self.fill_in_background(index);
        Ok(Found { answers, trouble: trouble.or_else(|| index.fill_failure()) })
    }

    /// Computes missing vectors of an index while the pack goes on.
    fn fill_in_background(&self, index: &Arc<Index>) {
        if !index.claim_fill() {
            return;
        }
        let (index, host) = (index.clone(), self.host.downgrade());
        self.host.spawn("compute vectors", async move {
            // Models of this machine compute for seconds, so the work has a thread of its own.
            let work = move || {
                let go_on = || host.upgrade().is_some();
                let result = Handle::current().block_on(index.fill(&go_on, &|_| {}));
                if let Err(error) = &result {
                    tracing::warn!(target: "code", error = %error.message(), "could not compute vectors");
                }
                index.end_fill(&result);
            };
            let _ = tokio::task::spawn_blocking(work).await;
        });
    }

    pub(crate) fn encoder(&self) -> Result<Arc<Encoder>, ToolError> {
        if let Some(encoder) = self.encoder.get() {
            return Ok(encoder.clone());
        }
        let encoder = Encoder::of(&self.config)?;
        Ok(self.encoder.get_or_init(|| encoder).clone())
    }
}

fn remove_folder(folder: &Path) -> Result<bool, ToolError> {
    match std::fs::remove_dir_all(folder) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(ToolError::new(format!("cannot remove `{}`: {error}", folder.display()))),
    }
}

/// `.`: the project itself.
pub(crate) fn here() -> String {
    ".".to_owned()
}
