//! The end of every tool that changes files: shown as a diff, or applied to all files or none.

use schemars::JsonSchema;
use serde::Serialize;
use toolyard_tool::{ToolError, WithText};

use super::Code;
use crate::change::{self, FileChange};
use crate::project::Project;
use crate::search::ast::Rewritten;

/// Diffs are cut to this many characters.
const MAX_DIFF: usize = 60_000;

/// What the caller wants to happen with a change.
pub(crate) struct Wish {
    /// Whether to show the change only.
    pub(crate) dry_run: bool,
    /// The id of the preview that the change must be equal to.
    pub(crate) preview: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Replaced {
    /// The project's root.
    project: String,
    /// The files that change, relative to the root.
    files: Vec<String>,
    /// How many places change.
    changes: usize,
    /// Identifies this change; pass it as `preview` to apply exactly this.
    preview: String,
    /// Whether the files were changed.
    applied: bool,
    /// The change as a unified diff.
    diff: String,
}

/// Shows a change or applies it.
pub(crate) fn conclude(
    code: &Code,
    project: &Project,
    rewritten: &[Rewritten],
    wish: &Wish,
) -> Result<WithText<Replaced>, ToolError> {
    let changes: Vec<FileChange> = rewritten.iter().map(FileChange::of).collect();
    let preview = change::preview_id(&changes);
    if wish.preview.as_ref().is_some_and(|expected| *expected != preview) {
        return Err(ToolError::new("the files have changed since the preview; nothing was written")
            .hint("call again with `dry_run: true` to see the new change"));
    }
    let applied = !wish.dry_run && !changes.is_empty();
    if applied {
        code.journals.apply(project, &changes)?;
    }
    let count = rewritten.iter().map(|file| file.changes).sum();
    let diff = crate::search::shorten(&change::diff(rewritten), MAX_DIFF);
    let amount = format!("{} in {}", plural(count, "place"), plural(changes.len(), "file"));
    let headline = match (changes.is_empty(), applied) {
        (true, _) => "Nothing matches.".to_owned(),
        (false, true) => format!("Changed {amount}.\n\n{diff}"),
        (false, false) => format!("Would change {amount} (preview {preview}).\n\n{diff}"),
    };
    let files = rewritten.iter().map(|file| file.path.display().to_string()).collect();
    let project = project.root().display().to_string();
    Ok(WithText::new(Replaced { project, files, changes: count, preview, applied, diff }, headline))
}

/// `1 file`, `2 files`.
fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
