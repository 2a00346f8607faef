//! The report of `install` and `uninstall`: what they would do, and what they have done.

use std::path::Path;

use serde_json::{Value, json};
use toolyard_clients::{Client, ClientFile, Scope};

use crate::say;

/// One change of a client's config.
pub(in crate::commands) struct Step<'a> {
    pub(in crate::commands) file: &'a ClientFile,
    pub(in crate::commands) name: &'a str,
    pub(in crate::commands) action: Action,
    /// The command, with secrets hidden.
    pub(in crate::commands) how: String,
    pub(in crate::commands) notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Action {
    Add,
    Replace,
    Remove,
    /// Nothing is to be done.
    Nothing,
}

/// The result.
pub(in crate::commands) struct Outcome<'a> {
    pub(in crate::commands) is_written: bool,
    pub(in crate::commands) backup: Option<&'a Path>,
}

impl Step<'_> {
    pub(in crate::commands) fn print(&self) {
        let sign = match self.action {
            Action::Add => '+',
            Action::Replace => '!',
            Action::Remove => '-',
            Action::Nothing => '=',
        };
        say::result(self.file.label());
        say::result(format!("  {sign} {}  {}", self.name, self.how));
        self.notes.iter().for_each(|note| say::line(format_args!("note: {note}")));
    }

    pub(in crate::commands) fn print_outcome(&self, outcome: &Outcome<'_>) {
        let (client, path) = (self.file.client.name(), self.file.path.display());
        if self.action == Action::Nothing {
            return say::result("nothing to do");
        }
        if !outcome.is_written {
            return say::result(format_args!("nothing was written; --yes writes {path}"));
        }
        let before = outcome.backup.map(|path| format!(" (backup: {})", path.display()));
        say::result(format_args!("wrote {path}{}", before.unwrap_or_default()));
        let what = if self.action == Action::Remove { "remove" } else { "use" };
        let how = match self.file.client {
            Client::Cursor | Client::Vscode => {
                format!("if {client} does not {what} it at once, restart {client}")
            }
            Client::ClaudeDesktop => {
                format!("quit {client} (closing its window is not enough) and start it again to {what} it")
            }
            _ => format!("restart {client} to {what} it"),
        };
        say::result(how);
    }

    pub(in crate::commands) fn json(&self, entry: Option<&Value>, outcome: &Outcome<'_>) -> Value {
        let action = match self.action {
            Action::Add => "add",
            Action::Replace => "replace",
            Action::Remove => "remove",
            Action::Nothing => "none",
        };
        json!({
            "client": self.file.client.id(), "scope": scope(self.file.scope), "file": shown(&self.file.path),
            "name": self.name, "action": action, "entry": entry, "notes": self.notes,
            "written": outcome.is_written, "backup": outcome.backup.map(shown),
        })
    }
}

/// A path that is not UTF-8 cannot be printed as JSON.
pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}

pub(super) fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::User => "user",
        Scope::Project => "project",
    }
}
