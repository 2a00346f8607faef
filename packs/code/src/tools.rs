//! The tools: thin functions over the search, the change journal and the index.

pub(crate) mod files;
pub(crate) mod lsp;
pub(crate) mod map;
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
use crate::config::{Config, ModelChoice};
use crate::index::{Index, store};
use crate::model::Model;
use crate::project::{CallerFolder, Place, Projects};
use crate::servers::{self, Limits, Pool};

/// What all tools of the pack share.
#[derive(Debug)]
pub(crate) struct Code {
    projects: Projects,
    pub(crate) journals: Journals,
    cache: PathBuf,
    model_choice: ModelChoice,
    model: OnceLock<Arc<Model>>,
    indexes: Mutex<HashMap<PathBuf, Arc<Index>>>,
    pub(crate) watchers: watch::Watchers,
    /// The language servers.
    pub(crate) pool: Pool,
    pub(crate) host: Host,
}

impl Code {
    pub(crate) fn new(config: Config, host: Host, state: &Path, cache: &Path) -> Self {
        let limits = Limits {
            idle: Duration::from_secs(config.server_idle_seconds),
            memory_mb: config.server_memory_mb,
            most: config.max_servers,
        };
        let pool = Pool::new(host.clone(), servers::servers(&config.servers), limits);
        let projects = Projects::new(config.projects, config.write);
        let journals = Journals::new(state.join("journals"));
        journals.recover(&projects);
        Self {
            projects,
            journals,
            cache: cache.to_owned(),
            model_choice: config.model,
            model: OnceLock::new(),
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
        self.projects.locate_new(path, caller.as_ref())
    }

    /// Where the caller works. The client is asked for its roots only if nothing else tells what the path means.
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
        let index =
            Arc::new(Index::open(place.project.clone(), &self.cache, self.model()?, self.model_name())?);
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

    pub(crate) fn model_name(&self) -> &'static str {
        match self.model_choice {
            ModelChoice::Fast => "static128",
            ModelChoice::Precise => "tiny1x128",
        }
    }

    fn model(&self) -> Result<Arc<Model>, ToolError> {
        if let Some(model) = self.model.get() {
            return Ok(model.clone());
        }
        let model = match self.model_choice {
            ModelChoice::Fast => Model::fast(),
            ModelChoice::Precise => Model::precise(),
        };
        let model =
            model.map_err(|error| ToolError::new(format!("cannot read the built-in model: {error}")))?;
        Ok(self.model.get_or_init(|| Arc::new(model)).clone())
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
