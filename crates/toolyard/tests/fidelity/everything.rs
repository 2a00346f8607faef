//! `@modelcontextprotocol/server-everything`: a legacy server of other makers that uses most of the protocol.

use std::path::Path;

use serde_json::{Value, json};

use super::Over;
use super::agenda::{Subject, TASK_TIMES, complete, legacy_others};
use super::found::Everything;
use super::gateway::Reach;
use super::program::Program;
use super::wire::{Era, Request};

pub(crate) const EVERYTHING: Subject = Subject {
    name: "server-everything",
    start,
    tools,
    prompts: || {
        json!({
            "args-prompt": { "city": "Köln", "state": "NRW" },
            "completable-prompt": { "department": "Engineering", "name": "Alice" },
            "resource-prompt": { "resourceType": "Text", "resourceId": "1" },
        })
    },
    from_templates: &["demo://resource/dynamic/text/1", "demo://resource/dynamic/blob/2"],
    others,
    logs_are_steady: false,
    unsteady: &[
        TASK_TIMES[0],
        TASK_TIMES[1],
        // The gateway's mark in the environment of its children, which `get-env` returns.
        "TOOLYARD_RUN_",
        // Dynamic resources say when they were made: `… created at 10:20:30 AM`,
        "This is a plaintext resource created at ",
        // and so do blobs, in base64. The words before the time fill whole groups of three bytes.
        "UmVzb3VyY2UgMTogVGhpcyBpcyBhIGJhc2U2NCBibG9iIGNyZWF0ZWQgYXQg",
        "UmVzb3VyY2UgMjogVGhpcyBpcyBhIGJhc2U2NCBibG9iIGNyZWF0ZWQgYXQg",
        "UmVzb3VyY2UgMzogVGhpcyBpcyBhIGJhc2U2NCBibG9iIGNyZWF0ZWQgYXQg",
    ],
    // Some time after the handshake. What it learned shows in `get-roots-list`.
    asks_by_itself: &["roots/list"],
    known: &[],
};

fn start(over: Over, _: Era, _: &Path) -> (Option<Program>, Reach) {
    let everything = Everything::find();
    match over {
        Over::Http => {
            let (program, reach) = everything.serve();
            (Some(program), reach)
        }
        Over::Stdio => (None, everything.child()),
        _ => panic!("it is not started over {over:?}"),
    }
}

fn tools() -> Value {
    json!({
        "echo": { "message": "é, \u{1F980} and \"quotes\"" },
        "get-annotated-message": [
            { "messageType": "error", "includeImage": true },
            { "messageType": "debug" },
        ],
        "get-resource-links": { "count": 4 },
        "get-resource-reference": [
            { "resourceType": "Text", "resourceId": 1 },
            { "resourceType": "Blob", "resourceId": 3 },
        ],
        "get-structured-content": { "location": "Chicago" },
        "get-sum": { "a": 1.5, "b": 1e-7 },
        // Nothing is fetched: the file is in the URL.
        "gzip-file-as-resource": [
            { "name": "a.gz", "data": "data:text/plain;base64,SGVsbG8=", "outputType": "resource" },
            { "name": "b.gz", "data": "data:text/plain;base64,SGVsbG8=", "outputType": "resourceLink" },
        ],
        // On and off again.
        "toggle-simulated-logging": [{}, {}],
        "toggle-subscriber-updates": [{}, {}],
        "trigger-long-running-operation": { "duration": 0.2, "steps": 4 },
        "trigger-sampling-request": { "prompt": "What would a model say?", "maxTokens": 10 },
        "trigger-url-elicitation": { "url": "https://example.com/form", "elicitationId": "one" },
        "simulate-research-query": { "topic": "yards", "ambiguous": false },
    })
}

fn others(_: Era) -> Vec<Request> {
    let mut others = legacy_others("demo://resource/dynamic/text/1");
    others.push(complete("ref/prompt", "name", "completable-prompt", "department", "E"));
    others.push(complete(
        "ref/resource",
        "uri",
        "demo://resource/dynamic/text/{resourceId}",
        "resourceId",
        "1",
    ));
    others.push(Request::new("missing", "resources/read", json!({ "uri": "demo://resource/missing" })));
    others
}
