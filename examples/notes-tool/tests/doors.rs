//! The notebook at every door.

#![expect(clippy::unwrap_used, reason = "a failed `unwrap` fails the test")]

#[path = "doors/table.rs"]
mod table;
#[path = "doors/tasks.rs"]
mod tasks;

use serde_json::{Value, json};
use table::Example;

static NOTES: Example = Example {
    program: Some(env!("CARGO_BIN_EXE_notes-tool")),
    app: None,
    tools: || notes_tool::tools().state(()),
    scheme: "notes",
    requests,
    lasting: |answer| answer,
};

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
        call("delete_note", json!({ "title": "Bread" })),
        ("tools/call", json!({ "name": "export_notes", "arguments": {}, "task": {} })),
    ]
}

#[tokio::test]
async fn the_list_of_tools_is_the_same_bytes_at_every_door() {
    table::check_that_the_list_of_tools_is_the_same_bytes(&NOTES).await;
}

#[tokio::test]
async fn every_tool_answers_the_same_at_every_door() {
    table::check_that_every_tool_answers_the_same(&NOTES).await;
}

#[tokio::test]
async fn a_task_can_be_asked_after_at_every_door() {
    tasks::check_that_tasks_can_be_asked_after(&NOTES, "export_notes").await;
}

#[tokio::test]
async fn the_answers_are_those_of_the_functions() {
    let answers = table::answers(&NOTES).await;
    let text = |at: usize| answers[at]["content"][0]["text"].as_str().unwrap();
    assert_eq!(answers[0]["content"][1]["mimeType"], "image/gif");
    assert_eq!(answers[0]["_meta"], json!({ "example.org/pixels": 1 }), "`_meta` of the tool itself");
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
    assert_eq!(text(16), "It is gone.", "the user was asked");
    assert_eq!(text(17), "# Welcome\nThis is a notebook.\n", "as a task");
}
