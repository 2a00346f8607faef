//! The clock at every door, and as an app that registers with a gateway.

#![expect(clippy::unwrap_used, reason = "a failed `unwrap` fails the test")]

#[path = "../src/main.rs"]
#[expect(dead_code, reason = "its `main` is not ours")]
mod clock;
#[path = "../../notes-tool/tests/doors/table.rs"]
mod table;

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use table::Example;

static CLOCK: Example = Example {
    program: None,
    app: Some((env!("CARGO_BIN_EXE_clock-app"), "RustClock")),
    tools: clock::tools,
    scheme: "none",
    requests,
    lasting,
};

fn requests() -> Vec<(&'static str, Value)> {
    let call = |name: &str| ("tools/call", json!({ "name": name, "arguments": {} }));
    vec![call("now"), call("ring")]
}

/// Replaces a time that is close to now by `now`, so that answers can be compared.
fn lasting(mut answer: Value) -> Value {
    let time = answer["content"][0]["text"].as_str().and_then(|text| text.parse::<u64>().ok());
    if let Some(time) = time {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!((now - 5..=now).contains(&time), "{answer} at {now}");
        answer["content"][0]["text"] = "now".into();
    }
    answer
}

#[tokio::test]
async fn the_list_of_tools_is_the_same_bytes_at_every_door() {
    table::check_that_the_list_of_tools_is_the_same_bytes(&CLOCK).await;
}

#[tokio::test]
async fn every_tool_answers_the_same_at_every_door() {
    table::check_that_every_tool_answers_the_same(&CLOCK).await;
}

#[tokio::test]
async fn it_returns_the_time_and_has_no_bell() {
    let answers = table::answers(&CLOCK).await;
    assert_eq!(answers[0]["content"], json!([{ "type": "text", "text": "now" }]));
    assert_eq!(answers[1]["content"][0]["text"], "the bell is missing");
    assert_eq!(answers[1]["isError"], true);
}
