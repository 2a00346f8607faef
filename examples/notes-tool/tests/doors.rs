//! One set of tools, many doors: whichever a client comes through, the list of tools is the same bytes and
//! every tool answers the same. A new door is one line in [`DOORS`].

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

#[path = "doors/clients.rs"]
mod clients;
#[path = "doors/http.rs"]
mod http;
#[path = "doors/lines.rs"]
mod lines;

use clients::{Client, Opening};
use serde_json::{Value, json};
use toolyard_proto::Revision::{V2025_11_25, V2026_07_28};

const DOORS: [(&str, Opening); 9] = [
    ("in memory", || clients::memory(V2026_07_28)),
    ("stdio, older client", || lines::stdio(V2025_11_25)),
    ("stdio", || lines::stdio(V2026_07_28)),
    ("TCP, older client", || lines::tcp(V2025_11_25)),
    ("TCP", || lines::tcp(V2026_07_28)),
    ("Unix socket, older client", || lines::unix(V2025_11_25)),
    ("Unix socket", || lines::unix(V2026_07_28)),
    ("HTTP, older client", || http::http(V2025_11_25)),
    ("HTTP", || http::http(V2026_07_28)),
];

/// Requests in this order, since some change the notebook.
fn requests() -> Vec<(&'static str, Value)> {
    let call = |name: &str, arguments: Value| ("tools/call", json!({ "name": name, "arguments": arguments }));
    vec![
        call("draw", json!({})),
        call("count_notes", json!({})),
        call("add_note", json!({ "title": "Bread", "body": "Flour, water, salt.", "tags": ["food"] })),
        call("add_note", json!({ "title": "Bread", "body": "Again." })),
        call("add_note", json!({ "title": "", "body": " ", "tags": ["A", "b", "c", "d", "e", "f"] })),
        call("search_notes", json!({ "query": "a", "limit": 1000, "order": "title" })),
        call("search_notes", json!({ "query": "a", "limt": 1 })),
        call("export_notes", json!({})),
        call("delete_note", json!({ "title": "Cake" })),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "notes://all" })),
        ("resources/read", json!({ "uri": "notes://by-title/Bread" })),
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "summarize", "arguments": { "title": "Bread" } })),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "summarize" }, "argument": { "name": "title", "value": "B" } }),
        ),
    ]
}

/// What must be the same everywhere: the result without the protocol's own stamps.
fn unstamped(mut result: Value) -> Value {
    if let Some(result) = result.as_object_mut() {
        for stamp in ["resultType", "ttlMs", "cacheScope", "_meta"] {
            result.remove(stamp);
        }
    }
    result
}

async fn answers(client: &mut dyn Client) -> Vec<Value> {
    let mut answers = Vec::new();
    for (method, params) in requests() {
        answers.push(unstamped(client.call(method, params).await.read().unwrap()));
    }
    answers
}

#[tokio::test]
async fn the_list_of_tools_is_the_same_bytes_at_every_door() {
    let mut expected = None;
    for (name, open) in DOORS {
        let list = open().await.call("tools/list", json!({})).await;
        let tools = list.member("tools").unwrap();
        let expected = expected.get_or_insert_with(|| tools.clone());
        assert_eq!(tools.as_str(), expected.as_str(), "{name}");
    }
}

#[tokio::test]
async fn every_tool_answers_the_same_at_every_door() {
    let mut expected = None;
    for (name, open) in DOORS {
        let mut client = open().await;
        let answers = answers(&mut *client).await;
        let expected = expected.get_or_insert_with(|| answers.clone());
        for ((request, answer), expected) in requests().iter().zip(&answers).zip(expected) {
            assert_eq!(answer, expected, "{name}: {request:?}");
        }
    }
}

#[tokio::test]
async fn the_answers_are_those_of_the_functions() {
    let mut client = clients::memory(V2026_07_28).await;
    let answers = answers(&mut *client).await;
    let text = |at: usize| answers[at]["content"][0]["text"].as_str().unwrap();
    assert_eq!(answers[0]["content"][1]["mimeType"], "image/gif");
    assert_eq!(answers[1]["structuredContent"], json!({ "result": 1 }));
    assert_eq!(answers[2]["structuredContent"]["title"], "Bread");
    assert_eq!(answers[3]["isError"], true);
    assert!(text(3).starts_with("there is a note called “Bread” already\nHint: "));
    assert!(text(4).starts_with("The arguments have 3 problems:\n- `title` must not be empty\n- `tags` must have at most 5 items, not 6\n- `tags[0]` must match"), "{}", text(4));
    assert_eq!(answers[5]["structuredContent"]["result"].as_array().unwrap().len(), 2);
    assert!(text(6).contains("`limt` is not known (did you mean `limit`?)"));
    assert_eq!(text(7), "# Welcome\nThis is a notebook.\n# Bread\nFlour, water, salt.\n");
    assert_eq!(text(8), "there is no note called “Cake”");
    assert_eq!(answers[12]["contents"][0]["text"], "Flour, water, salt.");
    assert_eq!(answers[15]["completion"]["values"], json!(["Bread"]));
}
