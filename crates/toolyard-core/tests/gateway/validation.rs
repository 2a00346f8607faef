//! Arguments and results against the schemas of a tool.

use serde_json::{Value, json};
use toolyard_core::{ToolRule, ToolSettings, UpstreamKind, Validate};
use toolyard_model::AnswerBody;
use toolyard_proto::Revision;

use crate::support::{Behaviour, Client, Double, raw, start};

const NEW: Revision = Revision::NEWEST;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "type": "string" },
            "lines": { "type": "array", "items": { "type": "integer", "minimum": 1 } },
        },
        "required": ["path"],
        "additionalProperties": false,
    })
}

fn rule(validate: Validate) -> ToolRule {
    let settings = ToolSettings { validate: Some(validate), ..ToolSettings::default() };
    ToolRule { pattern: "*".into(), settings, ..ToolRule::default() }
}

fn text(answer: &Value) -> &str {
    answer["content"][0]["text"].as_str().unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_failing_path_is_named_and_the_call_is_not_sent() {
    let double = Double::new(NEW, &["t"]);
    double.tools.lock().unwrap()[0]["inputSchema"] = schema();
    let gateway = start(&[("a", &double)], |plan| plan.calls.tools = vec![rule(Validate::Input)]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let wrong = client.call("a__t", json!({ "lines": [1, 0, "x"], "pth": 1 })).await.unwrap();
    let expected = [
        "the arguments of a:t do not fit its schema: ",
        "`arguments.lines.1`: 0 is less than the minimum of 1",
        "`arguments.lines.2`: \"x\" is not of type \"integer\"",
        "`arguments`: \"path\" is a required property",
        "'pth' was unexpected",
        "; correct these and call the tool again",
    ];
    assert!(expected.iter().all(|part| text(&wrong).contains(part)), "{}", text(&wrong));
    assert_eq!(wrong["_meta"]["dev.toolyard/error"]["kind"], "invalid-arguments");
    assert_eq!(double.seen.lock().unwrap().len(), 0);
    let right = client.call("a__t", json!({ "path": "a", "lines": [1] })).await.unwrap();
    assert!(right.get("isError").is_none());
}

#[tokio::test(start_paused = true)]
async fn instances_are_checked_by_default_and_servers_are_not() {
    for (kind, checked) in
        [(UpstreamKind::Server, false), (UpstreamKind::BuiltIn, false), (UpstreamKind::Instance, true)]
    {
        let double = Double::new(NEW, &["t"]);
        double.tools.lock().unwrap()[0]["inputSchema"] = schema();
        let gateway = start(&[("a", &double)], |plan| plan.upstreams[0].kind = kind);
        let client = Client::new(&gateway, NEW, "");
        client.tools().await;
        let answer = client.call("a__t", json!({})).await.unwrap();
        assert_eq!(answer.get("isError").is_some(), checked, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_schema_that_does_not_compile_is_skipped() {
    let broken = [
        json!({ "type": "object", "properties": { "a": { "type": "nothing" } } }),
        json!({ "type": "object", "properties": { "a": { "$ref": "http://127.0.0.1:9/schema.json" } } }),
        json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "(" } } }),
        json!({ "type": "object", "description": "x".repeat(300 * 1024) }),
    ];
    for schema in broken {
        let double = Double::new(NEW, &["t"]);
        double.tools.lock().unwrap()[0]["inputSchema"] = schema;
        let gateway = start(&[("a", &double)], |plan| plan.calls.tools = vec![rule(Validate::Input)]);
        let client = Client::new(&gateway, NEW, "a");
        client.tools().await;
        let answer = client.call("t", json!({ "a": 1 })).await.unwrap();
        assert!(answer.get("isError").is_none(), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_declared_draft_decides() {
    // A list of schemas in `items` is one for each place in draft 7; 2020-12 has no such form.
    let tuple = |draft: &str| json!({ "$schema": draft, "type": "object", "properties": { "a": { "items": [{ "type": "integer" }] } } });
    for (draft, refused) in [("http://json-schema.org/draft-07/schema#", true)] {
        let double = Double::new(NEW, &["t"]);
        double.tools.lock().unwrap()[0]["inputSchema"] = tuple(draft);
        let gateway = start(&[("a", &double)], |plan| plan.calls.tools = vec![rule(Validate::Input)]);
        let client = Client::new(&gateway, NEW, "a");
        client.tools().await;
        let answer = client.call("t", json!({ "a": ["x"] })).await.unwrap();
        assert_eq!(answer.get("isError").is_some(), refused, "{draft}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_is_checked_where_that_is_asked_for() {
    let numbers: Behaviour = std::sync::Arc::new(|request, _| {
        let wanted = request.params.at(&["arguments", "n"]).unwrap();
        let result =
            raw(json!({ "content": [] })).with("structuredContent", &raw(json!({})).with("n", &wanted));
        Box::pin(async move { Ok(AnswerBody::ours(result)) })
    });
    let double = Double::with(NEW, &["t"], numbers);
    double.tools.lock().unwrap()[0]["outputSchema"] =
        json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let gateway = start(&[("a", &double)], |plan| plan.calls.tools = vec![rule(Validate::Both)]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    assert!(client.call("a__t", json!({ "n": 1 })).await.unwrap().get("isError").is_none());
    let wrong = client.call("a__t", json!({ "n": "one" })).await.unwrap();
    assert!(text(&wrong).starts_with("the result of a:t does not fit its schema: `structuredContent.n`"));
    assert_eq!(wrong["_meta"]["dev.toolyard/error"]["kind"], "bad-answer");
}
