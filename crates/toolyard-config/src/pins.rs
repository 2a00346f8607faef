//! `[pins]`: what happens when a server defines a tool differently than before; and the lock file beside a config.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolyard_policy::pin::{Action, Class, LockFile, LockState, PinPolicy};

use super::reader::{Field, Reader, Section};
use super::upstream::Upstreams;

const ACTIONS: [(&str, Action); 3] =
    [("accept", Action::Accept), ("announce", Action::Announce), ("hold", Action::Hold)];

pub(crate) fn read(field: Field, reader: &mut Reader<'_>) -> PinPolicy {
    let Some(mut section) = field.section(reader) else { return PinPolicy::default() };
    let default = section.take("default").and_then(|field| read_action(reader, &field));
    let mut policy = default.map(PinPolicy::all).unwrap_or_default();
    for (name, class) in Class::ALL {
        if let Some(action) = section.take(name).and_then(|field| read_action(reader, &field)) {
            policy.set(class, action);
        }
    }
    section.finish(reader);
    policy
}

pub(crate) fn read_action(reader: &mut Reader<'_>, field: &Field) -> Option<Action> {
    field.choice(reader, &ACTIONS)
}

pub(crate) fn refuse(root: &mut Section, reader: &mut Reader<'_>) -> Option<PinPolicy> {
    if let Some(field) = root.take("pins") {
        let help = "move it to your own config, or use this file with --config";
        field.warn(reader, "is not used: a project file cannot decide about changed tools", help);
    }
    None
}

/// The lock file of a config file.
pub fn lock_path(config: &Path) -> PathBuf {
    config.with_extension("lock")
}

/// Applies the lock file beside `config`, if there is one, to the upstreams that `config` defines.
pub(crate) fn apply_lock(config: &Path, upstreams: &mut Upstreams) {
    let path = lock_path(config);
    let read = match std::fs::read_to_string(&path) {
        Ok(text) => LockFile::parse(&text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => Err(error.to_string()),
    };
    for upstream in &mut upstreams.on {
        upstream.lock = match &read {
            Ok(file) => match file.upstreams.get(upstream.id.as_str()) {
                Some(tools) => LockState::Tools(Arc::new(tools.clone())),
                None => LockState::None,
            },
            Err(error) => LockState::Unreadable(format!("{}: {error}", path.display())),
        };
    }
}
