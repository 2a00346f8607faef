//! The files of a project, as ripgrep and fd see them: without hidden files and without what ignore files name.

use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use ignore::overrides::{Override, OverrideBuilder};
use toolyard_tool::ToolError;

use crate::project::Place;

/// Which files to visit.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    overrides: Option<Override>,
    ignore_file: Option<&'static str>,
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
        let is_file = |entry: &ignore::DirEntry| entry.file_type().is_some_and(|kind| kind.is_file());
        let entries = builder.build().filter_map(Result::ok).filter(is_file);
        let mut files: Vec<PathBuf> =
            entries.filter_map(|entry| entry.path().strip_prefix(root).ok().map(Path::to_owned)).collect();
        files.sort_unstable();
        files
    }
}
