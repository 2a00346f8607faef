//! The changes of an upstream's definitions, for operators: a tool whose description has changed should be
//! reviewed.

use std::collections::VecDeque;
use std::time::SystemTime;

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolyard_proto::Raw;

use crate::catalog::{Definitions, ListKind};
use crate::report::at;

/// How many changes are kept.
const MOST: usize = 100;
/// A longer definition is not kept.
const LARGEST: usize = 64 * 1024;

/// One entry that was added, removed or changed.
#[derive(Clone, Debug)]
pub(crate) struct DefinitionChange {
    at: SystemTime,
    kind: ListKind,
    name: String,
    before: Option<Raw>,
    after: Option<Raw>,
}

/// The last changes.
#[derive(Debug, Default)]
pub(crate) struct Changes(Mutex<VecDeque<DefinitionChange>>);

impl Changes {
    /// Records how `after` differs from `before`.
    pub(crate) fn record(&self, before: &Definitions, after: &Definitions) {
        let now = SystemTime::now();
        let found = ListKind::ALL.into_iter().flat_map(|kind| differences(kind, before, after, now));
        let mut changes = self.0.lock();
        for change in found.take(MOST) {
            if changes.len() == MOST {
                changes.pop_front();
            }
            changes.push_back(change);
        }
    }

    /// The newest first.
    pub(crate) fn to_json(&self) -> Value {
        let changes = self.0.lock();
        changes.iter().rev().map(DefinitionChange::to_json).collect()
    }
}

impl DefinitionChange {
    fn to_json(&self) -> Value {
        json!({
            "at": at(self.at),
            "list": self.kind.key(),
            "name": self.name,
            "before": self.before,
            "after": self.after,
        })
    }
}

fn differences(
    kind: ListKind,
    before: &Definitions,
    after: &Definitions,
    now: SystemTime,
) -> Vec<DefinitionChange> {
    let key = match kind {
        ListKind::Resources => "uri",
        ListKind::Templates => "uriTemplate",
        ListKind::Tools | ListKind::Prompts => "name",
    };
    let name = |raw: &Raw| raw.member(key).and_then(|name| name.as_string()).unwrap_or_default();
    let index = |definitions: &Definitions| -> std::collections::BTreeMap<String, Raw> {
        definitions.list(kind).iter().map(|raw| (name(raw), raw.clone())).collect()
    };
    if before.list(kind) == after.list(kind) {
        return Vec::new();
    }
    let (old, new) = (index(before), index(after));
    let kept = |raw: &Raw| Some(raw.clone()).filter(|raw| raw.len() <= LARGEST);
    let mut found = Vec::new();
    for (name, was) in &old {
        let is = new.get(name);
        if is != Some(was) {
            let (before, after) = (kept(was), is.and_then(kept));
            found.push(DefinitionChange { at: now, kind, name: name.clone(), before, after });
        }
    }
    let added = new.iter().filter(|(name, _)| !old.contains_key(*name));
    found.extend(added.map(|(name, is)| DefinitionChange {
        at: now,
        kind,
        name: name.clone(),
        before: None,
        after: kept(is),
    }));
    found
}
