//! The tools: thin functions over the search, the change journal and the index.

pub(crate) mod files;
pub(crate) mod lsp;
pub(crate) mod map;
pub(crate) mod open_indexes;
pub(crate) mod reword;
pub(crate) mod rewrite;
pub(crate) mod search;
pub(crate) mod semantic;
pub(crate) mod watch;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use toolyard_tool::{Context, Host, ToolError};

use crate::change::Journals;
use crate::config::{Config, EmbeddingsConfig, RewordConfig};
use crate::embed::Encoder;
use crate::history::Histories;
use crate::index::{Answer, Filter, Index, Size, store};
use crate::project::{CallerFolder, Place, Projects};
use crate::servers::{self, Limits, Pool};
use open_indexes::OpenIndexes;

/// While another gateway computes vectors, its progress is read this often.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// What all tools of the pack share.
#[derive(Debug)]
pub(crate) struct Code {
    projects: Projects,
    pub(crate) journals: Journals,
    cache: PathBuf,
    config: Config,
    /// By the name of the provider; the default one has an empty name.
    encoders: Mutex<HashMap<String, Arc<Encoder>>>,
    indexes: OpenIndexes,
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

impl Found {
    /// The trouble in words.
    pub(crate) fn note(&self) -> Option<String> {
        self.trouble.as_ref().map(|trouble| format!("Meaning did not count everywhere: {trouble}."))
    }
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
        Self {
            projects,
            journals,
            cache: cache.to_owned(),
            reword: config.reword.clone(),
            config,
            encoders: Mutex::default(),
            histories: Histories::default(),
            indexes: OpenIndexes::default(),
            watchers: watch::Watchers::default(),
            pool,
            host,
        }
    }

    /// The place that an argument names.
    pub(crate) async fn locate(&self, context: &Context, path: &str) -> Result<Place, ToolError> {
        let caller = self.caller_folder(context, path).await;
        self.opened(self.projects.locate(path, caller.as_ref())?, context).await
    }

    /// The same for tools that run on a thread of their own.
    pub(crate) fn place(&self, context: &Context, path: &str) -> Result<Place, ToolError> {
        Handle::current().block_on(self.locate(context, path))
    }

    /// The place that an argument names, which need not exist yet.
    pub(crate) fn new_place(&self, context: &Context, path: &str) -> Result<Place, ToolError> {
        let runtime = Handle::current();
        let caller = runtime.block_on(self.caller_folder(context, path));
        runtime.block_on(self.opened(self.projects.locate_new(path, caller.as_ref())?, context))
    }

    /// The place as this caller may use it, after what a killed process left in the project was handled.
    async fn opened(&self, mut place: Place, context: &Context) -> Result<Place, ToolError> {
        place.project.is_proven = context.is_proven();
        if self.journals.is_unopened(&place.project) {
            let (journals, project) = (self.journals.clone(), place.project.clone());
            tokio::task::spawn_blocking(move || journals.open(&project))
                .await
                .map_err(|error| ToolError::new(format!("cannot finish an earlier change: {error}")))?;
        }
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

    /// The index of a place's project with vectors of a provider. All who use it at the same time share it.
    pub(crate) fn index(&self, place: &Place, provider: Option<&str>) -> Result<Arc<Index>, ToolError> {
        let provider = self.provider(provider)?;
        let root = place.project.root();
        let open = || Index::open(place.project.clone(), &self.cache, self.encoder(provider)?);
        self.indexes.get(&self.host, root, provider, open)
    }

    /// Empties the stored index of a project with the vectors of one provider; returns whether there was anything in
    /// it. A watcher or another gateway that has it open continues with the same, empty index.
    pub(crate) fn clear_index(&self, place: &Place, provider: Option<&str>) -> Result<bool, ToolError> {
        let (root, provider) = (place.project.root(), self.provider(provider)?);
        // One that is damaged cannot be opened.
        if let Some(index) = self.indexes.find(root, provider) {
            return index.clear();
        }
        let folder = store::folder(&self.cache, root);
        let cleared = store::clear_one(&folder, &self.encoder(provider)?.name());
        cleared.map_err(|error| cannot_clear(&folder, &error))
    }

    /// The same with the vectors of all providers.
    pub(crate) fn delete_index(&self, place: &Place) -> Result<bool, ToolError> {
        let root = place.project.root();
        let mut had_any = false;
        for index in self.indexes.all(Some(root)) {
            had_any |= index.clear()?;
        }
        // Those of providers that this gateway has not used.
        Ok(clear(&store::folder(&self.cache, root))? || had_any)
    }

    /// Empties all stored indexes; returns whether there was anything in them, or the first error after all were tried.
    pub(crate) fn delete_all(&self) -> Result<bool, ToolError> {
        let mut had_any = false;
        let mut failed = None;
        let mut note = |cleared: Result<bool, ToolError>| match cleared {
            Ok(had) => had_any |= had,
            Err(error) => failed = failed.take().or(Some(error)),
        };
        for index in self.indexes.all(None) {
            note(index.clear());
        }
        for entry in std::fs::read_dir(&self.cache).into_iter().flatten().flatten() {
            note(clear(&entry.path()));
        }
        failed.map_or(Ok(had_any), Err)
    }

    /// Searches an index. Vectors that are missing are computed afterwards, in the background. Blocks: for tools that
    /// run on a thread of their own.
    pub(crate) fn search(&self, index: &Arc<Index>, query: &str, filter: &Filter, limit: usize) -> Found {
        let vector = Handle::current().block_on(index.encoder().query(query));
        let trouble = vector.as_ref().err().map(|error| error.message().to_owned());
        let answers = index.search(query, &vector.unwrap_or_default(), filter, limit);
        self.fill_in_background(index);
        Found { answers, trouble: trouble.or_else(|| index.fill_failure()) }
    }

    /// Computes missing vectors of an index while the pack goes on.
    fn fill_in_background(&self, index: &Arc<Index>) {
        if !index.claim_fill() {
            return;
        }
        let lock = self.host.try_cache_lock(&index.lock_name());
        if lock.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            // Another gateway computes them; a later search reads what that has stored.
            return index.end_fill(&Ok(false));
        }
        let (index, host) = (index.clone(), self.host.downgrade());
        self.host.spawn("compute vectors", async move {
            // Models of this machine compute for seconds, so the work has a thread of its own.
            let work = move || {
                let _lock = lock;
                let go_on = || host.upgrade().is_some();
                let filling = async {
                    index.catch_up()?;
                    index.fill(&go_on, &|_| {}).await
                };
                let result = Handle::current().block_on(filling);
                if let Err(error) = &result {
                    tracing::warn!(target: "code", error = %error.message(), "could not compute vectors");
                }
                index.end_fill(&result);
            };
            let _ = tokio::task::spawn_blocking(work).await;
        });
    }

    /// Computes missing vectors once no other gateway computes those of this index, and reads what that has stored.
    /// Blocks: for tools that run on a thread of their own.
    pub(crate) fn fill_in_turn(
        &self,
        index: &Index,
        go_on: &(dyn Fn() -> bool + Sync),
        report: &(dyn Fn(Size) + Sync),
    ) -> Result<bool, ToolError> {
        let _lock = loop {
            match Handle::current().block_on(self.host.cache_lock(&index.lock_name(), LOOK_AGAIN)) {
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    if index.is_cancelled() || !go_on() {
                        return Ok(false);
                    }
                    index.catch_up()?;
                    report(index.size());
                }
                // A pack that is served alone has no lock.
                lock => break lock.ok(),
            }
        };
        index.catch_up()?;
        Handle::current().block_on(index.fill(go_on, report))
    }

    /// Refuses a provider of vectors that is not configured.
    pub(crate) fn expect_provider(&self, wanted: Option<&str>) -> Result<(), ToolError> {
        self.provider(wanted).map(|_| ())
    }

    /// Refuses vectors of a provider that may cost money on a connection that does not prove its user.
    pub(crate) fn expect_payer(&self, place: &Place, provider: Option<&str>) -> Result<(), ToolError> {
        let is_paid = self.embeddings(self.provider(provider)?).is_some_and(EmbeddingsConfig::is_paid);
        if place.project.is_proven || !is_paid {
            return Ok(());
        }
        Err(unproven("vectors of a provider with a `key` are computed"))
    }

    /// Refuses to delete such vectors in the same way. Without `provider`, those of all are meant.
    pub(crate) fn expect_owner(&self, place: &Place, provider: Option<&str>) -> Result<(), ToolError> {
        let mut all = self.config.embeddings.iter().chain(self.config.providers.values());
        let is_paid = match provider {
            Some(_) => self.embeddings(self.provider(provider)?).is_some_and(EmbeddingsConfig::is_paid),
            None => all.any(EmbeddingsConfig::is_paid),
        };
        if place.project.is_proven || !is_paid {
            return Ok(());
        }
        Err(unproven("vectors of a provider with a `key` are deleted"))
    }

    /// The section of a provider; nothing for a built-in model.
    fn embeddings(&self, provider: &str) -> Option<&EmbeddingsConfig> {
        self.config.providers.get(provider).or(self.config.embeddings.as_ref())
    }

    /// The name of a provider in the config; empty for the default one.
    fn provider(&self, wanted: Option<&str>) -> Result<&str, ToolError> {
        let (own, further) = (self.config.default_provider(), &self.config.providers);
        let Some(wanted) = wanted else { return Ok("") };
        if let Some((name, _)) = further.get_key_value(wanted) {
            return Ok(name);
        }
        if own.contains(&wanted) {
            return Ok("");
        }
        let quoted = |name: &str| format!("`{name}`");
        let own: Vec<String> = own.into_iter().map(quoted).collect();
        let further = further.keys().map(|name| format!(", and {}", quoted(name)));
        let message = format!(
            "the provider `{wanted}` is not configured; configured is {}{}",
            own.join(", also called "),
            further.collect::<String>()
        );
        Err(ToolError::new(message).hint(
            "leave out `provider`, or configure it in `[packs.code.embeddings]` or `[packs.code.providers]`",
        ))
    }

    fn encoder(&self, provider: &str) -> Result<Arc<Encoder>, ToolError> {
        let mut encoders = self.encoders.lock();
        if let Some(encoder) = encoders.get(provider) {
            return Ok(encoder.clone());
        }
        let encoder = match self.config.providers.get(provider) {
            Some(config) => {
                Arc::new(Encoder::configured(config, &format!("[packs.code.providers.{provider}]"))?)
            }
            None => Encoder::of(&self.config)?,
        };
        encoders.insert(provider.to_owned(), encoder.clone());
        Ok(encoder)
    }
}

/// The refusal of what only the user may do.
pub(crate) fn unproven(what: &str) -> ToolError {
    ToolError::new(format!("{what} only for connections that prove their user, and this one does not"))
        .hint("connect through `toolyard stdio`, or with a token")
}

fn clear(folder: &Path) -> Result<bool, ToolError> {
    store::clear(folder).map_err(|error| cannot_clear(folder, &error))
}

fn cannot_clear(folder: &Path, error: &dyn std::fmt::Display) -> ToolError {
    ToolError::new(format!("cannot empty the index in `{}`: {error}", folder.display()))
}

/// `.`: the project itself.
pub(crate) fn here() -> String {
    ".".to_owned()
}
