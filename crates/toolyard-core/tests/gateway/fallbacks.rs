//! Fallbacks keep to the rules: what is hidden stays hidden, what needs approval waits for it, and no tool calls itself
//! by way of a fallback. A call that falls back does not wait for a permit that it holds itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;
use toolyard_core::{Gateway, LimitPlan, Per, ToolRule, ToolSettings};
use toolyard_limits::Limit;
use toolyard_model::{
    AnswerBody, Control, ControlRequest, ControlResponse, Handler, Parent, Peer, Principal, Request,
};
use toolyard_policy::rules::{Approval, By, Do, Names, Policy, Rule};
use toolyard_proto::{CallError, Revision};

use crate::rules::rule;
use crate::support::{Behaviour, Client, Double, raw, start};

const NEW: Revision = Revision::NEWEST;

/// `a:t`, which is never there, with the fallback `b:t`.
struct World {
    gateway: Gateway,
    spare: Arc<Double>,
    _folder: TempDir,
}

impl World {
    fn new(rules: Vec<Rule>) -> Self {
        let gone: Behaviour = Arc::new(|request, _| {
            let is_call = request.method == toolyard_proto::Method::TOOLS_CALL;
            Box::pin(async move {
                if is_call {
                    return Err(CallError::unavailable("it is not there"));
                }
                Ok(AnswerBody::ours(raw(json!({}))))
            })
        });
        let (first, spare) = (Double::with(NEW, &["t"], gone), Double::new(NEW, &["t"]));
        let folder = TempDir::new().unwrap();
        let settings = ToolSettings { fallback: Some("b:t".to_owned()), ..ToolSettings::default() };
        let gateway = start(&[("a", &first), ("b", &spare)], |plan| {
            plan.calls.tools = vec![ToolRule { pattern: "a:*".into(), settings, ..ToolRule::default() }];
            plan.calls.rules = (!rules.is_empty()).then(|| Arc::new(Policy::new(rules, Do::Allow)));
            plan.state_dir = Some(folder.path().to_owned());
        });
        Self { gateway, spare, _folder: folder }
    }

    async fn client(&self) -> Client {
        let client = Client::new(&self.gateway, NEW, "");
        client.tools().await;
        client
    }

    /// How often the fallback was called.
    fn calls(&self) -> usize {
        self.spare.seen.lock().iter().filter(|(method, _)| method.as_str() == "tools/call").count()
    }

    async fn approve(&self, id: &str) -> StatusCode {
        let request = ControlRequest {
            method: Method::POST,
            path: "/approvals/approve".into(),
            query: None,
            body: Bytes::from(json!({ "id": id }).to_string()),
            last_event_id: None,
            principal: Principal::local(),
            is_operator: true,
        };
        match self.gateway.control(request).await {
            ControlResponse::Whole { status, .. } => status,
            _ => panic!("neither text nor events were asked for"),
        }
    }
}

fn on_the_fallback(action: Do, approval: Approval) -> Rule {
    let names = Names { tools: vec!["b:*".to_owned()], ..Names::default() };
    Rule { names, approval, ..rule(action) }
}

fn fallback_of(answer: &Value) -> &Value {
    &answer["_meta"]["dev.toolyard/fallback"]["tool"]
}

#[tokio::test(start_paused = true)]
async fn a_fallback_that_a_rule_hides_or_denies_is_not_used() {
    for (action, expected) in [(Do::Hide, 0), (Do::Deny, 0), (Do::Allow, 1)] {
        let world = World::new(vec![on_the_fallback(action, Approval::default())]);
        let answer = world.client().await.call("a__t", json!({})).await.unwrap();
        assert_eq!(world.calls(), expected, "{action:?}: {answer}");
        assert_eq!(answer["isError"] == true, expected == 0, "{action:?}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hidden_fallback_is_reported_as_one_that_is_not_there() {
    let world = World::new(vec![on_the_fallback(Do::Hide, Approval::default())]);
    let answer = world.client().await.call("a__t", json!({})).await.unwrap().to_string();
    assert!(answer.contains("its fallback b:t is not available here"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_fallback_is_used_after_an_operator_has_approved_it() {
    let approval = Approval { by: By::Operator, wait: Duration::ZERO, ..Approval::default() };
    let world = World::new(vec![on_the_fallback(Do::Approve, approval)]);
    let client = world.client().await;
    let waits = client.call("a__t", json!({ "x": 1 })).await.unwrap().to_string();
    assert_eq!(world.calls(), 0, "{waits}");
    let (_, rest) = waits.split_once("pending as ").unwrap_or_else(|| panic!("it does not wait: {waits}"));
    let id: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
    assert_eq!(world.approve(&id).await, StatusCode::OK);
    let answer = client.call("a__t", json!({ "x": 1 })).await.unwrap();
    assert_eq!((fallback_of(&answer), world.calls()), (&json!("b:t"), 1), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_call_made_by_the_fallback_or_nested_too_deeply_does_not_fall_back() {
    let parent = |upstream: &str, tool: &str, parent: Option<Parent>| Parent {
        call: 1,
        upstream: upstream.into(),
        tool: tool.to_owned(),
        parent: parent.map(Arc::new),
    };
    let deep = (0..3).fold(None, |above, number| Some(parent("c", &number.to_string(), above)));
    for (made_for, expected) in [
        (None, 1),
        (Some(parent("c", "t", None)), 1),
        (deep, 1),
        (Some(parent("b", "t", None)), 0),
        (Some(parent("c", "t", Some(parent("b", "t", None)))), 0),
    ] {
        let world = World::new(Vec::new());
        let client = world.client().await;
        let described = format!("{made_for:?}");
        let params = raw(json!({ "name": "a__t", "arguments": {} })).into();
        let request = Request { params, parent: made_for.map(Arc::new), ..client.request("tools/call") };
        let Ok(AnswerBody::Whole(answer, _)) = world.gateway.handle(request, Peer::none()).await else {
            panic!("no answer: {described}")
        };
        assert_eq!(world.calls(), expected, "{described}: {answer:?}");
        let is_refused = answer.as_str().contains("its fallback b:t is not available here");
        assert_eq!(is_refused, expected == 0, "{described}: {answer:?}");
    }
}

/// A tool set on which one tool is never there.
fn without(missing: &'static str) -> Arc<Double> {
    let behaviour: Behaviour = Arc::new(move |request, _| {
        let is_missing =
            request.params.member("name").is_some_and(|name| name.as_string().as_deref() == Some(missing));
        Box::pin(async move {
            if is_missing {
                return Err(CallError::unavailable("it is not there"));
            }
            Ok(AnswerBody::ours(raw(json!({ "content": [] }))))
        })
    });
    Double::with(NEW, &["t", "u"], behaviour)
}

/// `a:t` and `b:u` are never there, and the other upstream is the fallback of each. One call at once for each key.
fn both_ways(per: Per) -> Gateway {
    let limited = |pattern: &str, fallback: &str| ToolRule {
        pattern: pattern.into(),
        settings: ToolSettings {
            limits: Some(vec!["one".to_owned()]),
            fallback: Some(fallback.to_owned()),
            ..ToolSettings::default()
        },
        ..ToolRule::default()
    };
    start(&[("a", &without("t")), ("b", &without("u"))], |plan| {
        plan.calls.tools = vec![limited("a:*", "b:*"), limited("b:*", "a:*")];
        plan.calls.limits = vec![LimitPlan { name: "one".into(), per, limit: Limit::concurrent(1) }];
    })
}

#[tokio::test(start_paused = true)]
async fn a_call_that_falls_back_does_not_wait_for_its_own_permit() {
    for per in [Per::Group, Per::Principal, Per::Upstream] {
        let gateway = both_ways(per);
        let client = Client::new(&gateway, NEW, "");
        client.tools().await;
        let begun = Instant::now();
        let tools = ["a__t", "b__u", "a__t", "b__u", "a__t", "b__u"];
        let answers = join_all(tools.map(|tool| client.call(tool, json!({})))).await;
        for (tool, answer) in tools.iter().zip(answers) {
            let answer = answer.unwrap();
            let other = if *tool == "a__t" { "b:t" } else { "a:u" };
            assert_eq!(fallback_of(&answer), other, "{per:?}: {answer}");
        }
        assert!(begun.elapsed() < Duration::from_secs(1), "{per:?}: {:?}", begun.elapsed());
    }
}
