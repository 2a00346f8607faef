//! Arguments and results against the schemas of a tool.

use std::fmt::{Debug, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolyard_core::{ToolRule, ToolSettings, UpstreamKind, Validate};
use toolyard_model::AnswerBody;
use toolyard_proto::Revision;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

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
    double.tools.lock()[0]["inputSchema"] = schema();
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
    assert_eq!(double.seen.lock().len(), 0);
    let right = client.call("a__t", json!({ "path": "a", "lines": [1] })).await.unwrap();
    assert!(right.get("isError").is_none());
}

#[tokio::test(start_paused = true)]
async fn apps_and_instances_are_checked_by_default_and_servers_are_not() {
    for (kind, checked) in [
        (UpstreamKind::Server, false),
        (UpstreamKind::BuiltIn, false),
        (UpstreamKind::App, true),
        (UpstreamKind::Instance, true),
    ] {
        let double = Double::new(NEW, &["t"]);
        double.tools.lock()[0]["inputSchema"] = schema();
        let gateway = start(&[("a", &double)], |plan| plan.upstreams[0].kind = kind);
        let client = Client::new(&gateway, NEW, "");
        client.tools().await;
        let answer = client.call("a__t", json!({})).await.unwrap();
        assert_eq!(answer.get("isError").is_some(), checked, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_schema_that_does_not_compile_is_skipped_with_a_warning() {
    let warnings = Warnings::default();
    let _logging = tracing::subscriber::set_default(warnings.clone());
    let broken = [
        json!({ "type": "object", "properties": { "a": { "type": "nothing" } } }),
        json!({ "type": "object", "properties": { "a": { "$ref": "http://127.0.0.1:9/schema.json" } } }),
        json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "(" } } }),
        json!({ "type": "object", "description": "x".repeat(300 * 1024) }),
    ];
    for schema in broken {
        let double = Double::new(NEW, &["t"]);
        double.tools.lock()[0]["inputSchema"] = schema;
        let gateway = start(&[("a", &double)], |plan| plan.calls.tools = vec![rule(Validate::Input)]);
        let client = Client::new(&gateway, NEW, "a");
        client.tools().await;
        let answer = client.call("t", json!({ "a": 1 })).await.unwrap();
        assert!(answer.get("isError").is_none(), "{answer}");
        let logged = std::mem::take(&mut *warnings.0.lock());
        assert!(
            logged.iter().any(|line| line.contains("a:t") && line.contains("skipped validation")),
            "{logged:?}"
        );
    }
}

/// Keeps the warnings that are logged.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn the_declared_draft_decides() {
    const DRAFT_7: Option<&str> = Some("http://json-schema.org/draft-07/schema#");
    const NEWEST: Option<&str> = Some("https://json-schema.org/draft/2020-12/schema");
    // One schema for each place is a list in `items` in draft 7, and `prefixItems` in 2020-12.
    let tuple = |draft: Option<&str>, key: &str| {
        let list = json!({ key: [{ "type": "integer" }] });
        let mut schema = json!({ "type": "object", "properties": { "a": list } });
        if let Some(draft) = draft {
            schema["$schema"] = json!(draft);
        }
        schema
    };
    for (draft, key, refused) in [
        (DRAFT_7, "items", true),
        (DRAFT_7, "prefixItems", false),
        (NEWEST, "items", false),
        (NEWEST, "prefixItems", true),
        // A schema that declares none is 2020-12.
        (None, "items", false),
        (None, "prefixItems", true),
    ] {
        let double = Double::new(NEW, &["t"]);
        double.tools.lock()[0]["inputSchema"] = tuple(draft, key);
        let gateway = start(&[("a", &double)], |plan| plan.calls.tools = vec![rule(Validate::Input)]);
        let client = Client::new(&gateway, NEW, "a");
        client.tools().await;
        let answer = client.call("t", json!({ "a": ["x"] })).await.unwrap();
        assert_eq!(answer.get("isError").is_some(), refused, "{draft:?} {key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_is_checked_where_that_is_asked_for() {
    let numbers: Behaviour = Arc::new(|request, _| {
        let wanted = request.params.at(&["arguments", "n"]).unwrap();
        let result =
            raw(json!({ "content": [] })).with("structuredContent", &raw(json!({})).with("n", &wanted));
        Box::pin(async move { Ok(AnswerBody::ours(result)) })
    });
    let double = Double::with(NEW, &["t"], numbers);
    double.tools.lock()[0]["outputSchema"] =
        json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let gateway = start(&[("a", &double)], |plan| plan.calls.tools = vec![rule(Validate::Both)]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    assert!(client.call("a__t", json!({ "n": 1 })).await.unwrap().get("isError").is_none());
    let wrong = client.call("a__t", json!({ "n": "one" })).await.unwrap();
    assert!(text(&wrong).starts_with("the result of a:t does not fit its schema: `structuredContent.n`"));
    assert_eq!(wrong["_meta"]["dev.toolyard/error"]["kind"], "bad-answer");
}
