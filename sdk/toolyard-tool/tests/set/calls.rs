//! Arguments, progress, logs, cancelling, and calling by hand.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::sync::Notify;
use toolyard_tool::schemars::JsonSchema;
use toolyard_tool::{Context, Level, ToolSet, tool};

use crate::support::{Client, text};

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: i64,
    #[serde(default)]
    b: i64,
}

/// Adds two
/// numbers.
///
/// Never overflows.
///
/// # Panics
/// Not for models to read.
#[tool(read_only, idempotent, open_world = false, title = "Add", icon = "https://example.com/plus.svg")]
async fn add(args: Add) -> i64 {
    args.a.saturating_add(args.b)
}

/// Reports.
#[tool(name = "report-it")]
async fn report(context: Context) -> String {
    context.progress(1, 4);
    context.progress(f64::NAN, 4);
    context.progress(f64::INFINITY, 4);
    context.progress(1, 4);
    context.progress_with(2.5, None, "half");
    context.progress(3, f64::NAN);
    context.log(Level::Warning, json!({ "left": 1 }));
    let caller = context.caller();
    format!("{} {:?} {:?}", caller.principal, caller.client, caller.client_version)
}

#[tokio::test]
async fn a_function_is_still_called_by_hand() {
    assert_eq!(add(Add { a: 1, b: 2 }).await, 3);
    assert_eq!(report(Context::detached()).await, "gateway Some(\"none\") Some(\"0\")");
}

#[test]
fn a_definition_is_read_from_the_function() {
    let set = ToolSet::new("t", "1").with::<add>();
    assert_eq!(
        set.definition("add").unwrap(),
        json!({
            "name": "add",
            "title": "Add",
            "description": "Adds two numbers.\n\nNever overflows.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "a": { "type": "integer", "description": "The first number." },
                    "b": { "type": "integer", "default": 0 },
                },
                "required": ["a"],
            },
            "outputSchema": {
                "type": "object",
                "properties": { "result": { "type": "integer" } },
                "required": ["result"],
            },
            "annotations": { "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false },
            "icons": [{ "src": "https://example.com/plus.svg" }],
        })
    );
}

#[tokio::test]
async fn wrong_arguments_are_named_and_unknown_ones_ignored() {
    let set = ToolSet::new("t", "1").with::<add>();
    let client = Client::newest();
    let answer = client.call(&set, "add", json!({ "a": 1, "b": 1, "c": 1 })).await;
    assert_eq!(answer["structuredContent"], json!({ "result": 2 }));
    let answer = client.call(&set, "add", json!({ "a": "1" })).await;
    assert_eq!(answer["isError"], true);
    assert!(text(&answer).starts_with("The arguments are not valid: `a` must be an integer, not \"1\"."));
    let answer = client.call(&set, "add", json!([1])).await;
    assert!(text(&answer).contains("the whole must be an object, not [1]"));
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_of_the_protocol() {
    let set = ToolSet::new("t", "1").with::<add>();
    let error = Client::newest().request(&set, "tools/call", json!({ "name": "sub" })).await.unwrap_err();
    assert_eq!((error.code(), error.message().as_str()), (-32602, "unknown tool: sub"));
    let error = Client::newest().request(&set, "tools/list", json!({ "cursor": "x" })).await.unwrap_err();
    assert_eq!(error.code(), -32602);
    let error = Client::newest().request(&set, "x/y", json!({})).await.unwrap_err();
    assert_eq!(error.code(), -32601);
}

#[tokio::test]
async fn progress_goes_forward_and_logs_name_the_set() {
    let set = ToolSet::new("reporter", "1").with::<report>();
    let client = Client::newest();
    let answer = client.call(&set, "report-it", json!({})).await;
    assert_eq!(text(&answer), "ann Some(\"tester\") Some(\"7\")");
    assert_eq!(
        client.notifications(),
        [
            json!(["notifications/progress", { "progressToken": "p", "progress": 1, "total": 4 }]),
            json!(["notifications/progress", { "progressToken": "p", "progress": 2.5, "message": "half" }]),
            json!(["notifications/progress", { "progressToken": "p", "progress": 3 }]),
            json!(["notifications/message", { "level": "warning", "logger": "reporter", "data": { "left": 1 } }]),
        ]
    );
}

#[derive(Default)]
struct Signals {
    started: Notify,
    stopped: Notify,
}

/// Works on a thread until it is cancelled.
#[tool]
fn works(signals: &Arc<Signals>, context: &Context) {
    signals.started.notify_one();
    while !context.is_cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    signals.stopped.notify_one();
}

#[tokio::test]
async fn a_dropped_call_stops_its_blocking_function() {
    let signals = Arc::new(Signals::default());
    let set = ToolSet::new("t", "1").state(signals.clone()).with::<works>();
    let call = Client::newest().start(&set, "tools/call", json!({ "name": "works" }));
    tokio::select! {
        _ = call => panic!("it ended by itself"),
        () = signals.started.notified() => {}
    }
    signals.stopped.notified().await;
    set.end().await;
}
