//! Changes of files below a project, without the folders that ignore files name.

use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use notify::event::{ModifyKind, RenameMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

/// Folders that are watched in one project.
const MAX_FOLDERS: usize = 8_192;
/// Events that wait to be read. Further ones are lost; each request compares the open files anyway.
const MAX_EVENTS: usize = 4_096;

/// A running watch. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Watch {
    watcher: RecommendedWatcher,
    events: mpsc::Receiver<(PathBuf, Happened)>,
    root: PathBuf,
    folders: usize,
}

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    Created,
    Changed,
    Removed,
}

impl Watch {
    pub(crate) fn start(root: &Path) -> notify::Result<Self> {
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let Ok(event) = event else { return };
            let Some(happened) = happened(event.kind) else { return };
            for path in event.paths {
                let _ = sender.try_send((path, happened));
            }
        })?;
        let mut watch = Self { watcher, events, root: root.to_owned(), folders: 0 };
        watch.add(root)?;
        Ok(watch)
    }

    /// The next change. Folders that appear are watched too.
    pub(crate) async fn next(&mut self) -> Option<(PathBuf, Happened)> {
        let (path, happened) = self.events.recv().await?;
        if happened == Happened::Created && path.is_dir() {
            let _ = self.add(&path);
        }
        Some((path, happened))
    }

    /// Watches a folder and those below it.
    fn add(&mut self, folder: &Path) -> notify::Result<()> {
        let is_folder = |entry: &ignore::DirEntry| entry.file_type().is_some_and(|kind| kind.is_dir());
        let mut walk = WalkBuilder::new(folder);
        walk.follow_links(false).filter_entry(is_folder);
        for entry in walk.build().filter_map(Result::ok) {
            if self.folders >= MAX_FOLDERS {
                tracing::warn!(target: "code", project = %self.root.display(), "too many folders to watch all");
                return Ok(());
            }
            self.watcher.watch(entry.path(), RecursiveMode::NonRecursive)?;
            self.folders += 1;
        }
        Ok(())
    }
}

fn happened(kind: EventKind) -> Option<Happened> {
    match kind {
        EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(RenameMode::To)) => Some(Happened::Created),
        EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)) => {
            Some(Happened::Removed)
        }
        EventKind::Modify(ModifyKind::Metadata(_)) | EventKind::Access(_) => None,
        EventKind::Modify(_) | EventKind::Any | EventKind::Other => Some(Happened::Changed),
    }
}
