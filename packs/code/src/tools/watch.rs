//! `start_file_watcher`, `stop_file_watcher` and `list_file_watchers`: update an index as soon as files change.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use ignore::gitignore::Gitignore;
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Context, ToolError, tool};

use super::{Code, here};
use crate::index::Index;

/// The indexes that are watched, by the root of the project and the model. Dropping a watcher ends its thread.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Mutex<HashMap<(PathBuf, String), Watching>>);

#[derive(Debug)]
struct Watching {
    debounce: Duration,
    /// Dropping it closes the channel, which ends the thread.
    _watcher: RecommendedWatcher,
}

impl Watchers {
    fn start(&self, root: &Path, index: Arc<Index>, debounce: Duration) -> Result<Watched, ToolError> {
        let mut watchers = self.0.lock();
        let key = (root.to_owned(), index.encoder().name());
        if let Some(running) = watchers.get(&key) {
            return Ok(Watched::new(&key, running.debounce, "running"));
        }
        let started = Watched::new(&key, debounce, "started");
        let watcher = watch(root, debounce, move || {
            if let Err(error) = index.refresh(&|| true, &|_, _| {}) {
                tracing::warn!(target: "code", error = %error.message(), "could not update an index");
            }
        })?;
        watchers.insert(key, Watching { debounce, _watcher: watcher });
        Ok(started)
    }

    /// Stops the watchers of all indexes of a project.
    fn stop(&self, root: &Path) -> bool {
        let mut watchers = self.0.lock();
        let before = watchers.len();
        watchers.retain(|(own, _), _| own != root);
        watchers.len() < before
    }
}

/// Calls `update` after changes below a folder, on a thread that ends when the watcher is dropped.
fn watch(
    root: &Path,
    debounce: Duration,
    update: impl Fn() + Send + 'static,
) -> Result<RecommendedWatcher, ToolError> {
    let cannot = |error: notify::Error| {
        ToolError::new(format!("cannot watch `{}`: {error}", root.display()))
            .hint("raise the system's limit of file watches, or let searches update the index")
    };
    let (sender, changes) = mpsc::sync_channel(1);
    let (ignored, _) = Gitignore::new(root.join(".gitignore"));
    let folder = root.to_owned();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let Ok(event) = event else { return };
        // One waiting message is enough: the update looks at all files.
        if !event.kind.is_access() && event.paths.iter().any(|path| is_relevant(path, &folder, &ignored)) {
            let _ = sender.try_send(());
        }
    })
    .map_err(cannot)?;
    watcher.watch(root, RecursiveMode::Recursive).map_err(cannot)?;
    std::thread::Builder::new()
        .name("code-watcher".to_owned())
        .spawn(move || follow(&changes, debounce, &update))
        .map_err(|error| ToolError::new(format!("cannot start a thread: {error}")))?;
    Ok(watcher)
}

/// Whether a file can be in an index: builds and commits change many that are not.
fn is_relevant(path: &Path, root: &Path, ignored: &Gitignore) -> bool {
    let Ok(below) = path.strip_prefix(root) else { return false };
    let is_hidden = below.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."));
    !is_hidden && !ignored.matched_path_or_any_parents(below, false).is_ignore()
}

/// Calls `update` when no further change has come for the debounce time. Ends when the watcher is dropped.
fn follow(changes: &mpsc::Receiver<()>, debounce: Duration, update: &dyn Fn()) {
    while changes.recv().is_ok() {
        loop {
            match changes.recv_timeout(debounce) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        update();
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Start {
    /// How many seconds must pass without a further change before the index is updated.
    #[serde(default = "two")]
    #[schemars(range(min = 0.1, max = 60.0))]
    debounce_seconds: f64,
    /// The project to watch.
    #[serde(default = "here")]
    project_path: String,
    /// The provider of vectors, if it must be a certain one. Only configured ones can be used.
    provider: Option<String>,
}

fn two() -> f64 {
    2.0
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Watched {
    project_path: String,
    /// The model of the index that is updated.
    model: String,
    /// That of the watcher that runs, which may have been started with another one.
    debounce_seconds: f64,
    /// `started`, or `running` if it was watched already.
    status: String,
}

impl Watched {
    fn new((root, model): &(PathBuf, String), debounce: Duration, status: &str) -> Self {
        Self {
            project_path: root.display().to_string(),
            model: model.clone(),
            debounce_seconds: debounce.as_secs_f64(),
            status: status.to_owned(),
        }
    }
}

/// Updates the index of a project whenever files change. Without it, each search looks for changes itself.
#[tool(idempotent)]
pub(crate) fn start_file_watcher(code: &Code, context: &Context, args: Start) -> Result<Watched, ToolError> {
    code.expect_provider(args.provider.as_deref())?;
    let place = code.place(context, &args.project_path)?;
    let index = code.index(&place, args.provider.as_deref())?;
    index.refresh(&|| !context.is_cancelled(), &|_, _| {})?;
    let debounce = Duration::from_secs_f64(args.debounce_seconds);
    code.watchers.start(place.project.root(), index, debounce)
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Stop {
    /// The project that is watched.
    #[serde(default = "here")]
    project_path: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Stopped {
    /// Whether it was watched.
    stopped: bool,
    project_path: String,
}

/// Stops watching a project, for the indexes of all providers.
#[tool(idempotent)]
pub(crate) fn stop_file_watcher(code: &Code, context: &Context, args: Stop) -> Result<Stopped, ToolError> {
    let place = code.place(context, &args.project_path)?;
    let root = place.project.root();
    Ok(Stopped { stopped: code.watchers.stop(root), project_path: root.display().to_string() })
}

/// Lists the projects that are watched, with the model of each index.
#[tool(read_only, idempotent)]
pub(crate) fn list_file_watchers(code: &Code) -> Vec<Watched> {
    let watchers = code.watchers.0.lock();
    let watched = watchers.iter().map(|(key, watching)| Watched::new(key, watching.debounce, "running"));
    let mut out: Vec<Watched> = watched.collect();
    out.sort_by(|a, b| (&a.project_path, &a.model).cmp(&(&b.project_path, &b.model)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_a_thousand_changed_files_is_one_update_and_ignored_files_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["target", ".git"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        std::fs::write(root.join(".gitignore"), "/target\n").unwrap();
        let (sender, updates) = mpsc::channel();
        let watcher = watch(&root, Duration::from_secs(1), move || sender.send(()).unwrap()).unwrap();
        for number in 0..1_000 {
            for path in [format!("{number}.rs"), format!("target/{number}"), format!(".git/{number}")] {
                std::fs::write(root.join(path), "fn main() {}\n").unwrap();
            }
        }
        updates.recv_timeout(Duration::from_secs(30)).unwrap();
        for number in 0..100 {
            std::fs::write(root.join(format!("target/{number}")), "changed").unwrap();
        }
        assert!(updates.recv_timeout(Duration::from_secs(2)).is_err(), "one burst, one update");
        drop(watcher);
        let ended = updates.recv_timeout(Duration::from_secs(10));
        assert_eq!(ended, Err(mpsc::RecvTimeoutError::Disconnected), "its thread has ended");
    }
}
