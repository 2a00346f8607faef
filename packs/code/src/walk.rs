//! The files of a project, as ripgrep and fd see them: without hidden files and without what ignore files name.

use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::{DirEntry, WalkBuilder, WalkState};
use parking_lot::Mutex;
use toolyard_tool::ToolError;

use crate::project::{Place, Project};

/// Threads that walk at the same time.
const THREADS: usize = 4;

/// Which files to visit.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    overrides: Option<Override>,
    ignore_file: Option<&'static str>,
    add_file: Option<&'static str>,
}

impl Walk {
    /// Only files that match a glob, as with `rg --glob`.
    pub(crate) fn matching(root: &Path, glob: &str) -> Result<Self, ToolError> {
        let wrong = |error: ignore::Error| ToolError::new(format!("`{glob}` is not a valid glob: {error}"));
        let overrides = OverrideBuilder::new(root).add(glob).map_err(wrong)?.build().map_err(wrong)?;
        Ok(Self { overrides: Some(overrides), ..Self::default() })
    }

    /// A further kind of ignore file.
    #[must_use]
    pub(crate) fn with_ignore_file(self, name: &'static str) -> Self {
        Self { ignore_file: Some(name), ..self }
    }

    /// A file in the project's root with paths and globs in the syntax of ignore files. If it names any, only those
    /// files are visited, except for what ignore files leave out.
    #[must_use]
    pub(crate) fn with_add_file(self, name: &'static str) -> Self {
        Self { add_file: Some(name), ..self }
    }

    /// All files at or below a place, relative to the project's root, sorted.
    pub(crate) fn files(&self, place: &Place) -> Vec<PathBuf> {
        let root = place.project.root();
        let mut builder = WalkBuilder::new(root.join(&place.below));
        builder.follow_links(false);
        if let Some(overrides) = &self.overrides {
            builder.overrides(overrides.clone());
        }
        if let Some(name) = self.ignore_file {
            builder.add_custom_ignore_filename(name);
        }
        let found = Mutex::new(Vec::new());
        // Several threads: a search by meaning walks before it answers.
        builder.threads(THREADS).build_parallel().run(|| {
            Box::new(|entry| {
                if let Some(path) = entry.ok().and_then(|entry| file_below(root, &entry)) {
                    found.lock().push(path);
                }
                WalkState::Continue
            })
        });
        let mut files = found.into_inner();
        if let Some(added) = self.add_file.and_then(|name| additions(&place.project, name)) {
            files.retain(|path| added.matched_path_or_any_parents(path, false).is_ignore());
        }
        files.sort_unstable();
        files
    }
}

/// What a file of additions names. `None` without such a file, or if it names nothing.
fn additions(project: &Project, name: &str) -> Option<Gitignore> {
    let text = project.text(Path::new(name))?;
    let mut builder = GitignoreBuilder::new(project.root());
    for line in text.lines() {
        // A path that begins with `./` is relative to the root, as one that begins with `/`.
        let line = line.strip_prefix('.').filter(|rest| rest.starts_with('/')).unwrap_or(line);
        // A line that is not a valid glob names nothing, as in an ignore file.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|added| !added.is_empty())
}

/// The path of an entry relative to the root, if it is a file.
fn file_below(root: &Path, entry: &DirEntry) -> Option<PathBuf> {
    let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
    entry.path().strip_prefix(root).ok().filter(|_| is_file).map(Path::to_owned)
}
