//! The smallest server at every door.

#![expect(clippy::unwrap_used, reason = "a failed `unwrap` fails the test")]

#[path = "../src/main.rs"]
#[expect(dead_code, reason = "its `main` is not ours")]
mod hello;
#[path = "../../notes-tool/tests/doors/table.rs"]
mod table;

use serde_json::{Value, json};
use table::Example;

static HELLO: Example = Example {
    program: Some(env!("CARGO_BIN_EXE_hello-tool")),
    app: None,
    tools: hello::tools,
    scheme: "none",
    requests,
    lasting: |answer| answer,
};

fn requests() -> Vec<(&'static str, Value)> {
    let call = |arguments: Value| ("tools/call", json!({ "name": "hello", "arguments": arguments }));
    vec![call(json!({ "name": "Ann" })), call(json!({ "name": "\u{1F30D} \"\n" })), call(json!({}))]
}

#[tokio::test]
async fn the_list_of_tools_is_the_same_bytes_at_every_door() {
    table::check_that_the_list_of_tools_is_the_same_bytes(&HELLO).await;
}

#[tokio::test]
async fn every_tool_answers_the_same_at_every_door() {
    table::check_that_every_tool_answers_the_same(&HELLO).await;
}

#[tokio::test]
async fn it_greets_by_name() {
    let answers = table::answers(&HELLO).await;
    assert_eq!(answers[0]["content"], json!([{ "type": "text", "text": "Hello, Ann!" }]));
    assert_eq!(answers[2]["isError"], true);
}
