//! `toolyard install claude --hooks` and `uninstall claude --hooks`: our hooks in the settings of Claude Code.

use std::path::PathBuf;

use anyhow::Context;
use serde_json::json;
use toolyard_clients::{Client, Scope, claude_hooks};
use toolyard_config::save::{self, Change, Readers};

use super::Consent;
use crate::failure::{Failure, refused};
use crate::{say, settings};

/// The action on the hooks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum What<'a> {
    /// Put them in; they run this program.
    Install(&'a str),
    Remove,
}

pub(in crate::commands) fn change(
    client: Client,
    scope: Scope,
    what: What<'_>,
    consent: &Consent,
) -> Result<(), Failure> {
    if client != Client::ClaudeCode {
        let message = format!("{} has no hooks that Toolyard can run", client.name());
        return Err(refused(message, "only Claude Code has: toolyard install claude --hooks"));
    }
    let path = settings_file(scope)?;
    let before = save::read(&path).with_context(|| format!("read {}", path.display()))?;
    let after = match what {
        What::Install(command) => claude_hooks::with_hooks(before.as_deref(), command),
        What::Remove => match before.as_deref().filter(|text| claude_hooks::has_hooks(text)) {
            Some(text) => claude_hooks::without_hooks(text),
            None => Ok(before.clone().unwrap_or_default()),
        },
    };
    let after = after.map_err(|reason| {
        refused(format!("{} is left as it is: {reason}", path.display()), "correct it and try again")
    })?;
    let is_new = before.as_deref().unwrap_or_default() != after;
    let is_written = is_new && consent.agrees(&path)?;
    if is_written {
        if let Some(before) = &before {
            save::back_up(&path, &path, before)
                .with_context(|| format!("keep {} as it was", path.display()))?;
        }
        let readers = if scope == Scope::Project { Readers::SystemDefault } else { Readers::Owner };
        let change =
            Change { path: &path, before: before.as_deref(), text: &after, readers, has_folder_lock: false };
        change.write().with_context(|| format!("write {}", path.display()))?;
    }
    report(&path, is_new, is_written, consent)
}

fn report(path: &std::path::Path, is_new: bool, is_written: bool, consent: &Consent) -> Result<(), Failure> {
    if consent.json {
        return Ok(say::json(&json!({ "file": path, "changes": is_new, "written": is_written }))?);
    }
    let path = path.display();
    match (is_new, is_written) {
        (false, _) => say::result(format_args!("nothing to do in {path}")),
        (true, true) => say::result(format_args!("wrote {path}; sessions that are started now use it")),
        (true, false) => say::result(format_args!("nothing was written; --yes writes {path}")),
    }
    Ok(())
}

fn settings_file(scope: Scope) -> Result<PathBuf, Failure> {
    if scope == Scope::Project {
        return Ok(std::env::current_dir()?.join(".claude/settings.json"));
    }
    let own = settings::variable("CLAUDE_CONFIG_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::home_dir().map(|home| home.join(".claude"));
    let folder = own.or_else(home).ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))?;
    Ok(folder.join("settings.json"))
}
