//! A server on the Python SDK: one of other makers that speaks both eras.

use std::path::Path;

use serde_json::json;

use super::Over;
use super::agenda::Subject;
use super::gateway::Reach;
use super::program::Program;
use super::python_server::{python_child, serve_python};
use super::wire::{Era, Request};

pub(crate) const PYTHON: Subject = Subject {
    name: "the Python server",
    start,
    tools: || json!({ "echo": { "text": "é, \u{1F980} and \"quotes\"" } }),
    prompts: || json!({}),
    from_templates: &[],
    others,
    logs_are_steady: true,
    // Sealed with a key of the process.
    unsteady: &[r#""requestState":""#],
    asks_by_itself: &[],
    known: &[],
};

fn start(over: Over, _: Era, _: &Path) -> (Option<Program>, Reach) {
    match over {
        Over::Http => {
            let (program, reach) = serve_python();
            (Some(program), reach)
        }
        Over::Stdio => (None, python_child()),
        _ => panic!("it does not speak over {over:?}"),
    }
}

fn others(era: Era) -> Vec<Request> {
    let mut others = vec![Request::new("missing", "resources/read", json!({ "uri": "note://missing" }))];
    // It declares neither levels of logs nor subscriptions, so they are not asked for.
    if era == Era::Legacy {
        others.push(Request::new("ping", "ping", json!({})));
    }
    others
}
