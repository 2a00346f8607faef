//! The tools that clients call.

pub(crate) mod look;
pub(crate) mod prompts;
pub(crate) mod spawn;
pub(crate) mod tasks;

use crate::store::{Run, Status};

/// An answer with a text of its own.
pub(crate) use toolyard_tool::WithText;

/// A run in a few words, with its result.
pub(crate) fn readable(run: &Run) -> String {
    let head = format!("{} ({}): {}", run.id, run.agent_type, run.status.as_str());
    let worktree =
        run.worktree.as_ref().map(|path| format!("\n\nIts changes are in {path}")).unwrap_or_default();
    match run.status {
        Status::Completed => format!("{head}\n\n{}{worktree}", run.result.as_deref().unwrap_or_default()),
        Status::Running => head,
        Status::Failed | Status::Cancelled => {
            format!("{head}: {}{worktree}", run.error.as_deref().unwrap_or("no reason"))
        }
    }
}
