//! Approvals as operators see them: the calls that wait, with their arguments, and the last decisions.

use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value, json};

use super::{Approvals, Pending};
use crate::report::at;

/// A list has the arguments of a call up to this size. Longer ones are cut there, and whole where the one call is
/// shown.
const LISTED: usize = 10_000;

impl Approvals {
    /// The pending approvals and the last decisions, for operators.
    pub(crate) fn to_json(&self) -> (Vec<Value>, Vec<Value>) {
        self.refresh();
        let state = self.state();
        let decided = state.decided.iter().rev().map(|one| {
            json!({
                "at": time(one.at), "tool": one.tool, "principal": one.principal, "digest": one.digest,
                "by": one.by, "approved": one.approved,
            })
        });
        (state.pending.iter().map(|(id, one)| one.listed(id)).collect(), decided.collect())
    }

    /// One call that waits, with all of its arguments.
    pub(crate) fn whole_json(&self, id: &str) -> Option<Value> {
        self.refresh();
        self.state().pending.get(id).map(|pending| pending.whole(id))
    }
}

impl Pending {
    pub(super) fn whole(&self, id: &str) -> Value {
        self.shown(id, &self.args)
    }

    fn shown(&self, id: &str, arguments: &impl Serialize) -> Value {
        json!({
            "id": id, "tool": self.subject.tool, "principal": self.principal, "arguments": arguments,
            "digest": self.subject.digest, "rule": self.rule, "since": time(self.since),
            "expires": time(self.expires),
        })
    }

    pub(super) fn listed(&self, id: &str) -> Value {
        if let Some(cut) = &self.cut {
            let mut shown = self.shown(id, cut);
            shown["bytes"] = json!(self.bytes);
            shown["cut"] = json!(true);
            return shown;
        }
        let mut shown = self.whole(id);
        shorten_arguments(&mut shown, LISTED);
        shown
    }
}

/// The beginning of arguments that are too long for lists.
pub(super) fn cut(arguments: &str) -> Option<Box<str>> {
    (arguments.len() > LISTED).then(|| arguments[..arguments.floor_char_boundary(LISTED)].into())
}

/// Cuts the `arguments` of a call after `most` bytes. They are then a text; `cut` and, in `bytes`, the size of the
/// whole are added.
pub fn shorten_arguments(call: &mut Value, most: usize) {
    let text = match &call["arguments"] {
        Value::Null => return,
        Value::String(text) if call["cut"] == true => text.clone(),
        arguments => arguments.to_string(),
    };
    if text.len() <= most {
        return;
    }
    if call["cut"] != true {
        call["bytes"] = json!(text.len());
        call["cut"] = json!(true);
    }
    call["arguments"] = json!(text[..text.floor_char_boundary(most)]);
}

fn time(seconds: u64) -> Value {
    json!(at(UNIX_EPOCH + Duration::from_secs(seconds)))
}
