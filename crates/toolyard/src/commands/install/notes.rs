//! Notes for a user who is about to install Toolyard in a client.

use std::path::Path;

use toolyard_clients::{ClientFile, Entry, Foreign, InFolder, Scope};
use toolyard_config::system;

use super::entry::depends_on_state_home;
use super::report::Action;
use crate::settings;

pub(super) fn notes(file: &ClientFile, name: &str, action: Action, entry: &Entry) -> Vec<String> {
    let own = file.toolyards().find(|server| server.name == name);
    let twice = "with both, its tools are listed twice";
    let others = file.toolyards().filter(|other| other.name != name && entry.shows_the_same(other));
    let mut notes: Vec<String> =
        others.map(|other| format!("{} is Toolyard, too; {twice}", other.name)).collect();
    notes.extend(file.in_folders.iter().map(in_folder));
    match action {
        Action::Nothing => notes.extend(own.into_iter().flat_map(|own| of_what_is_there(own, entry))),
        Action::Replace => notes.extend(file.server(name).ok().flatten().and_then(what_goes)),
        Action::Add => notes.extend(of_a_new_one(file, entry)),
        Action::Remove => {}
    }
    if file.scope == Scope::User && action != Action::Nothing && depends_on_state_home(entry) {
        notes.push("XDG_STATE_HOME is set here; a client without it starts a gateway of its own".to_owned());
    }
    if action != Action::Nothing && system::has_other_names(&file.path) {
        notes.push("the file has other names (hard links), which keep its current content".to_owned());
    }
    notes
}

/// How to remove Toolyard where Claude Code has it for one folder.
pub(in crate::commands) fn in_folder(own: &InFolder) -> String {
    let InFolder { folder, name } = own;
    format!("{name} is Toolyard, too, in {folder}; there `claude mcp remove -s local {name}` removes it")
}

fn of_what_is_there(own: &Foreign, entry: &Entry) -> Vec<String> {
    let mut notes = Vec::new();
    if own.definition.is_off {
        notes.push("it is switched off there".to_owned());
    }
    if !entry.is(own) {
        notes.push(format!("--force writes {} instead", entry.command));
    }
    let set: Vec<&str> = own.definition.env.iter().map(|(name, _)| name.as_str()).collect();
    if set.iter().any(|name| name.starts_with("TOOLYARD_")) {
        notes.push(format!("there it also gets {}", set.join(", ")));
    }
    notes
}

/// Keys of the replaced entry that are lost.
fn what_goes(old: &Foreign) -> Option<String> {
    let definition = &old.definition;
    let known = [
        ("env", !definition.env.is_empty()),
        ("headers", !definition.headers.is_empty()),
        ("cwd", definition.cwd.is_some()),
    ];
    let known = known.into_iter().filter(|(_, is_there)| *is_there).map(|(key, _)| key.to_owned());
    let keys: Vec<String> = known.chain(old.unused.iter().cloned()).collect();
    (!keys.is_empty()).then(|| format!("the entry is replaced and loses its keys {}", keys.join(", ")))
}

fn of_a_new_one(file: &ClientFile, entry: &Entry) -> Option<String> {
    match file.scope {
        Scope::User if !file.client.is_here(&settings::variable) => {
            Some(format!("{} does not seem to be on this machine", file.client.name()))
        }
        Scope::Project if Path::new(&entry.command).is_absolute() => {
            Some("others may use this file, too; `--command toolyard` runs what is on their PATH".to_owned())
        }
        _ => None,
    }
}
