//! From return types to answers.

use serde::Serialize;
use serde_json::{Value, json};
use toolyard_tool::schemars::JsonSchema;
use toolyard_tool::{Content, Problems, ToolError, ToolSet, WithText, tool};

use crate::support::Client;

#[derive(Serialize, JsonSchema)]
struct Sum {
    total: i64,
}

/// An object.
#[tool]
async fn object() -> Sum {
    Sum { total: 3 }
}

/// A list.
#[tool]
async fn list() -> Vec<u8> {
    vec![1, 2]
}

/// Perhaps an object.
#[tool]
async fn perhaps() -> Option<Sum> {
    None
}

/// An object, where there might be none.
#[tool]
async fn found() -> Option<Sum> {
    Some(Sum { total: 3 })
}

#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Shape {
    Circle {
        radius: u8,
    },
    #[expect(dead_code, reason = "the other form")]
    Point,
}

/// One of several objects.
#[tool]
async fn shape() -> WithText<Shape> {
    WithText::new(Shape::Circle { radius: 2 }, "round")
}

/// Anything.
#[tool]
async fn anything() -> Value {
    json!({ "result": 1 })
}

/// Text.
#[tool]
async fn words() -> &'static str {
    "a\nb"
}

/// Nothing.
#[tool]
async fn nothing() {}

/// An object with a text of its own.
#[tool]
async fn with_text() -> WithText<Sum> {
    WithText::new(Sum { total: 4 }, "four")
}

/// Fails after a part of its work.
#[tool]
async fn fails_half_way() -> WithText<Sum> {
    WithText::new(Sum { total: 2 }, "the disk is full").failed()
}

/// Blocks.
#[tool]
async fn blocks() -> Content {
    Content::new().text("x").audio("audio/wav", b"abc").link("file:///a", "a").meta("k", 1)
}

/// Fails.
#[tool]
async fn fails() -> Result<Sum, ToolError> {
    Err(ToolError::new("no").hint("ask later"))
}

/// Fails with another error.
#[tool]
async fn cannot_parse() -> Result<Sum, std::num::ParseIntError> {
    Ok(Sum { total: "x".parse()? })
}

/// Fails for good.
#[tool]
async fn fatal() -> Result<Sum, ToolError> {
    Err(ToolError::fatal("the disk is gone"))
}

/// Panics.
#[tool]
async fn panics() -> Sum {
    panic!("out of {}", "luck")
}

/// Panics on a thread.
#[tool]
fn panics_on_a_thread() -> Sum {
    panic!("out of thread")
}

#[derive(serde::Deserialize, JsonSchema)]
struct Any {}

fn trips(_: &Any, _: &mut Problems) {
    panic!("out of checks")
}

/// Panics while its arguments are checked.
#[tool(check = trips, rule = "None holds.")]
async fn panics_in_its_check(_: Any) {}

#[derive(JsonSchema)]
struct Odd;

impl Serialize for Odd {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("out of words")
    }
}

/// Panics while its answer is written.
#[tool]
async fn panics_in_its_answer() -> Vec<Odd> {
    vec![Odd]
}

struct Never;

/// Panics before it is called.
#[tool]
async fn panics_in_its_state(_: &Never) {}

/// A prompt that panics.
#[tool(prompt)]
async fn panics_as_a_prompt() -> String {
    panic!("out of prompts")
}

fn broken() -> ToolSet {
    ToolSet::new("broken", "1")
        .with::<panics_in_its_check>()
        .with::<panics_in_its_answer>()
        .with::<panics_as_a_prompt>()
        .state_with(async || -> Result<Never, ToolError> { panic!("out of state") })
        .with::<panics_in_its_state>()
        .state(())
}

fn set() -> ToolSet {
    ToolSet::new("answers", "1")
        .with::<object>()
        .with::<list>()
        .with::<perhaps>()
        .with::<found>()
        .with::<shape>()
        .with::<anything>()
        .with::<words>()
        .with::<nothing>()
        .with::<with_text>()
        .with::<fails_half_way>()
        .with::<blocks>()
        .with::<fails>()
        .with::<cannot_parse>()
        .with::<fatal>()
        .with::<panics>()
        .with::<panics_on_a_thread>()
}

async fn check(tool: &str, expected: Value) {
    assert_eq!(Client::newest().call(&set(), tool, json!({})).await, expected, "{tool}");
}

fn text_content(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

#[tokio::test]
async fn a_return_type_decides_the_form_of_the_answer() {
    check(
        "object",
        json!({ "content": text_content("{\n  \"total\": 3\n}"), "structuredContent": { "total": 3 } }),
    )
    .await;
    check(
        "list",
        json!({ "content": text_content("[\n  1,\n  2\n]"), "structuredContent": { "result": [1, 2] } }),
    )
    .await;
    check("perhaps", json!({ "content": text_content("null"), "structuredContent": { "result": null } }))
        .await;
    check("words", json!({ "content": text_content("a\nb") })).await;
    check("nothing", json!({ "content": text_content("Done.") })).await;
    check("with_text", json!({ "content": text_content("four"), "structuredContent": { "total": 4 } })).await;
    check(
        "fails_half_way",
        json!({ "content": text_content("the disk is full"), "structuredContent": { "total": 2 }, "isError": true }),
    )
    .await;
    let blocks = Client::newest().call(&set(), "blocks", json!({})).await;
    assert_eq!(blocks["content"][1], json!({ "type": "audio", "data": "YWJj", "mimeType": "audio/wav" }));
}

#[tokio::test]
async fn an_object_that_might_be_something_else_is_wrapped_in_result() {
    let structured =
        async |tool| Client::newest().call(&set(), tool, json!({})).await["structuredContent"].clone();
    assert_eq!(structured("found").await, json!({ "result": { "total": 3 } }));
    assert_eq!(structured("shape").await, json!({ "result": { "kind": "circle", "radius": 2 } }));
    assert_eq!(structured("anything").await, json!({ "result": { "result": 1 } }));
}

#[tokio::test]
async fn structured_content_matches_the_output_schema() {
    for tool in ["object", "list", "perhaps", "found", "shape", "anything", "with_text"] {
        let schema = set().definition(tool).unwrap()["outputSchema"].clone();
        let answer = Client::newest().call(&set(), tool, json!({})).await;
        let validated = jsonschema::validate(&schema, &answer["structuredContent"]);
        assert!(validated.is_ok(), "{tool}: {validated:?}");
    }
}

#[tokio::test]
async fn a_failure_is_an_answer_with_a_hint() {
    check("fails", json!({ "content": text_content("no\nHint: ask later"), "isError": true })).await;
    check(
        "cannot_parse",
        json!({ "content": text_content("invalid digit found in string"), "isError": true }),
    )
    .await;
    let error = Client::newest().request(&set(), "tools/call", json!({ "name": "fatal" })).await.unwrap_err();
    assert_eq!((error.code(), error.message().as_str()), (-32603, "the disk is gone"));
}

#[tokio::test]
async fn a_panic_fails_one_call_and_nothing_else() {
    let set = set().join(broken());
    for _ in 0..2 {
        for (tool, reason) in [
            ("panics", "out of luck"),
            ("panics_on_a_thread", "out of thread"),
            ("panics_in_its_check", "out of checks"),
            ("panics_in_its_answer", "out of words"),
            ("panics_in_its_state", "out of state"),
        ] {
            let answer = Client::newest().call(&set, tool, json!({})).await;
            let text =
                format!("`{tool}` panicked: {reason}\nHint: this is a defect of the tool, not of the call");
            assert_eq!(answer, json!({ "content": text_content(&text), "isError": true }));
        }
    }
    let asked = json!({ "name": "panics_as_a_prompt" });
    let error = Client::newest().request(&set, "prompts/get", asked).await.unwrap_err();
    assert_eq!(error.code(), -32603);
    assert!(error.message().starts_with("`panics_as_a_prompt` panicked: out of prompts"));
    check(
        "object",
        json!({ "content": text_content("{\n  \"total\": 3\n}"), "structuredContent": { "total": 3 } }),
    )
    .await;
}

#[test]
fn schemas_of_answers_are_objects_or_nothing() {
    let schema = |tool: &str| set().definition(tool).unwrap().get("outputSchema").cloned();
    let total =
        json!({ "type": "object", "properties": { "total": { "type": "integer" } }, "required": ["total"] });
    assert_eq!(schema("object"), Some(total.clone()));
    assert_eq!(schema("with_text"), Some(total.clone()));
    assert_eq!(schema("fails"), Some(total));
    assert_eq!(schema("list").unwrap()["properties"]["result"]["type"], "array");
    for free in ["words", "nothing", "blocks"] {
        assert_eq!(schema(free), None, "{free}");
    }
}
