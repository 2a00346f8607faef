//! Approvals as a table: clients of both eras, approval by the user of the client and by an operator, and everything
//! that can come between the question and the call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolyard_core::{Gateway, LimitPlan, Per, ToolRule, ToolSettings};
use toolyard_hooks::{HookPlan, Point, Verdict};
use toolyard_limits::Limit;
use toolyard_model::{AnswerBody, Control, ControlRequest, ControlResponse, Principal};
use toolyard_policy::rules::{Approval, By, Do, Names, Policy};
use toolyard_proto::Revision;

use crate::hooks::hook;
use crate::rules::rule;
use crate::support::{Behaviour, Client, Double, echo, raw, start};

const ERAS: [Revision; 2] = [Revision::NEWEST, Revision::NEWEST_LEGACY];
const KINDS: [By; 2] = [By::Client, By::Operator];

/// A gateway with one tool that needs approval, and a state directory that outlives it.
struct World {
    era: Revision,
    by: By,
    approval: Approval,
    folder: TempDir,
    double: Arc<Double>,
    gateway: Gateway,
}

impl World {
    fn new(era: Revision, by: By, approval: Approval) -> Self {
        Self::with(era, by, approval, echo())
    }

    fn with(era: Revision, by: By, approval: Approval, behaviour: Behaviour) -> Self {
        let approval = Approval { by, wait: Duration::ZERO, ..approval };
        let (folder, double) = (TempDir::new().unwrap(), Double::with(Revision::NEWEST, &["pay"], behaviour));
        let gateway = gateway(&folder, &double, approval);
        Self { era, by, approval, folder, double, gateway }
    }

    /// Another gateway continues with the same files.
    async fn restart(&mut self) {
        self.gateway.end().await;
        self.gateway = gateway(&self.folder, &self.double, self.approval);
    }

    async fn client(&self, name: &str) -> Client {
        let mut client = Client::named(&self.gateway, self.era, "", name);
        client.declare(json!({ "elicitation": {} }));
        client.tools().await;
        client
    }

    fn is_legacy_client(&self) -> bool {
        self.era != Revision::NEWEST && self.by == By::Client
    }

    /// Makes the call up to the point where it needs a decision: what the client has to bring back, or the id of what
    /// waits. A legacy client is asked in the call itself.
    async fn ask(&self, client: &Client, amount: u64) -> Value {
        if self.is_legacy_client() {
            return Value::Null;
        }
        let asked = client.call("a__pay", json!({ "amount": amount })).await.unwrap();
        match self.by {
            By::Client => {
                assert_eq!(asked["resultType"], "input_required", "{asked}");
                asked
            }
            By::Operator => json!(pending(&asked)),
        }
    }

    /// Decides about what was asked, and makes the call.
    async fn decide(&self, client: &Client, asked: &Value, amount: u64, is_yes: bool, how: &str) -> Value {
        let answer =
            json!({ "action": if is_yes { "accept" } else { "decline" }, "content": { "decision": how } });
        let mut params = json!({ "name": "a__pay", "arguments": { "amount": amount } });
        match self.by {
            By::Client if self.is_legacy_client() => *client.inbox.reply.lock() = Some(answer),
            By::Client => {
                params["requestState"] = asked["requestState"].clone();
                params["inputResponses"] = json!({ "approval": answer });
            }
            By::Operator => {
                let path = if is_yes { "/approvals/approve" } else { "/approvals/deny" };
                let status = decide(&self.gateway, path, &json!({ "id": asked })).await;
                assert!([StatusCode::OK, StatusCode::NOT_FOUND].contains(&status), "{status}");
            }
        }
        result(client.ask("tools/call", params).await)
    }

    /// The arguments that the upstream was called with.
    fn sent(&self) -> Vec<Value> {
        let seen = self.double.seen.lock();
        let calls = seen.iter().filter(|(method, _)| method.as_str() == "tools/call");
        calls.map(|(_, params)| params.read::<Value>().unwrap()["arguments"].clone()).collect()
    }

    fn described(&self) -> String {
        format!("{} by {:?}", self.era.as_str(), self.by)
    }
}

fn gateway(folder: &TempDir, double: &Arc<Double>, approval: Approval) -> Gateway {
    gateway_with(folder, double, approval, Vec::new())
}

fn gateway_with(folder: &TempDir, double: &Arc<Double>, approval: Approval, hooks: Vec<HookPlan>) -> Gateway {
    let names = Names { tools: vec!["a:pay".to_owned()], ..Names::default() };
    let rules = vec![toolyard_policy::rules::Rule { names, approval, ..rule(Do::Approve) }];
    start(&[("a", double)], |plan| {
        plan.calls.rules = Some(Arc::new(Policy::new(rules, Do::Allow)));
        plan.state_dir = Some(folder.path().to_owned());
        plan.calls.hooks = hooks;
    })
}

/// An operator's request to the control API.
pub(crate) async fn decide(gateway: &Gateway, path: &str, body: &Value) -> StatusCode {
    control(gateway, Method::POST, path, body.to_string()).await.0
}

/// What an operator reads there.
async fn read(gateway: &Gateway, path: &str) -> Value {
    let (status, body) = control(gateway, Method::GET, path, String::new()).await;
    assert_eq!(status, StatusCode::OK, "{path}");
    serde_json::from_slice(&body).unwrap()
}

async fn control(gateway: &Gateway, method: Method, path: &str, body: String) -> (StatusCode, Bytes) {
    let request = ControlRequest {
        method,
        path: path.into(),
        query: None,
        body: Bytes::from(body),
        last_event_id: None,
        principal: Principal::local(),
        is_operator: true,
    };
    match gateway.control(request).await {
        ControlResponse::Whole { status, json } => (status, json),
        _ => panic!("neither text nor events were asked for"),
    }
}

/// An answer, or the text of an error.
fn result(answered: Result<Value, toolyard_proto::CallError>) -> Value {
    answered.unwrap_or_else(|error| json!({ "error": error.message() }))
}

/// The id in the answer of a call that waits.
fn pending(answer: &Value) -> String {
    let text = answer.to_string();
    let (_, rest) = text.split_once("pending as ").unwrap_or_else(|| panic!("it does not wait: {text}"));
    rest.chars().take_while(char::is_ascii_hexdigit).collect()
}

fn for_session(expires: Duration) -> Approval {
    Approval { is_for_session: true, expires, ..Approval::default() }
}

/// All four combinations of an era and a kind.
fn combinations() -> impl Iterator<Item = (Revision, By)> {
    ERAS.into_iter().flat_map(|era| KINDS.into_iter().map(move |by| (era, by)))
}

#[tokio::test(start_paused = true)]
async fn an_accepted_call_is_sent_once_and_a_declined_one_never() {
    for (era, by) in combinations() {
        let world = World::new(era, by, Approval::default());
        let client = world.client("alice").await;
        let asked = world.ask(&client, 5).await;
        let declined = world.decide(&client, &asked, 5, false, "once").await.to_string();
        assert!(!declined.contains("amount\\\":5"), "{}: {declined}", world.described());
        assert_eq!(world.sent(), Vec::<Value>::new(), "{}", world.described());
        let asked = world.ask(&client, 5).await;
        let done = world.decide(&client, &asked, 5, true, "once").await;
        assert!(done.to_string().contains("amount"), "{}: {done}", world.described());
        assert_eq!(world.sent(), [json!({ "amount": 5 })], "{}", world.described());
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_after_a_call_see_no_call_that_waits_for_approval() {
    for (era, by) in combinations() {
        let mut world = World::new(era, by, Approval::default());
        world.gateway.end().await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = seen.clone();
        let after = hook("after", Point::PostToolCall, move |event| {
            noted.lock().push(event.data["result"].clone());
            Verdict::pass()
        });
        world.gateway = gateway_with(&world.folder, &world.double, world.approval, vec![after]);
        let client = world.client("alice").await;
        let asked = world.ask(&client, 5).await;
        assert_eq!(*seen.lock(), Vec::<Value>::new(), "{}", world.described());
        world.decide(&client, &asked, 5, true, "once").await;
        let seen = seen.lock();
        let is_sent = seen.len() == 1 && seen[0].to_string().contains("amount");
        assert!(is_sent, "{}: {seen:?}", world.described());
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_whose_use_cannot_be_stored_is_refused() {
    for by in KINDS {
        let world = World::new(Revision::NEWEST, by, Approval::default());
        let client = world.client("alice").await;
        let asked = world.ask(&client, 5).await;
        // A rename does not replace a folder that is not empty, for any user.
        let file = world.folder.path().join("approvals.json");
        let _ = std::fs::remove_file(&file);
        std::fs::create_dir_all(file.join("in the way")).unwrap();
        let refused = world.decide(&client, &asked, 5, true, "once").await.to_string();
        assert!(refused.contains("cannot be stored"), "{}: {refused}", world.described());
        assert_eq!(world.sent(), Vec::<Value>::new(), "{}", world.described());
        std::fs::remove_dir_all(&file).unwrap();
        let done = world.decide(&client, &asked, 5, true, "once").await;
        assert!(done.to_string().contains("amount"), "{}: {done}", world.described());
        assert_eq!(world.sent(), [json!({ "amount": 5 })], "{}", world.described());
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_does_not_cover_changed_arguments() {
    for (era, by) in combinations() {
        let world = World::new(era, by, for_session(Duration::from_mins(10)));
        let client = world.client("alice").await;
        let asked = world.ask(&client, 5).await;
        if world.is_legacy_client() {
            world.decide(&client, &asked, 5, true, "session").await;
            *client.inbox.reply.lock() = Some(json!({ "action": "decline" }));
            let again = result(client.call("a__pay", json!({ "amount": 6 })).await).to_string();
            assert!(again.contains("was not approved"), "{again}");
            assert_eq!(client.inbox.asked.lock().len(), 2);
            assert_eq!(world.sent(), [json!({ "amount": 5 })]);
            continue;
        }
        let changed = world.decide(&client, &asked, 6, true, "session").await.to_string();
        assert!(changed.contains("input_required") || changed.contains("pending as"), "{changed}");
        assert_eq!(world.sent(), Vec::<Value>::new(), "{}", world.described());
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_does_not_cover_another_principal() {
    for (era, by) in combinations() {
        let world = World::new(era, by, for_session(Duration::from_mins(10)));
        let (alice, bob) = (world.client("alice").await, world.client("bob").await);
        let asked = world.ask(&alice, 5).await;
        if world.is_legacy_client() {
            world.decide(&alice, &asked, 5, true, "session").await;
            *bob.inbox.reply.lock() = Some(json!({ "action": "decline" }));
            let of_bob = result(bob.call("a__pay", json!({ "amount": 5 })).await).to_string();
            assert!(of_bob.contains("was not approved"), "{of_bob}");
            assert_eq!(world.sent().len(), 1);
            continue;
        }
        let of_bob = world.decide(&bob, &asked, 5, true, "session").await.to_string();
        let is_refused = of_bob.contains("belongs to another request") || of_bob.contains("pending as");
        assert!(is_refused, "{}: {of_bob}", world.described());
        assert_eq!(world.sent(), Vec::<Value>::new(), "{}", world.described());
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_for_one_call_is_not_used_twice() {
    for (era, by) in combinations() {
        let world = World::new(era, by, Approval::default());
        let client = world.client("alice").await;
        let asked = world.ask(&client, 5).await;
        world.decide(&client, &asked, 5, true, "once").await;
        if world.is_legacy_client() {
            *client.inbox.reply.lock() = Some(json!({ "action": "cancel" }));
        }
        let replayed = if by == By::Client && !world.is_legacy_client() {
            world.decide(&client, &asked, 5, true, "once").await
        } else {
            result(client.call("a__pay", json!({ "amount": 5 })).await)
        };
        let replayed = replayed.to_string();
        let is_refused =
            ["was used already", "pending as", "was not approved"].iter().any(|why| replayed.contains(why));
        assert!(is_refused, "{}: {replayed}", world.described());
        assert_eq!(world.sent().len(), 1, "{}", world.described());
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_approval_is_worth_nothing() {
    for (era, by) in combinations() {
        let world = World::new(era, by, for_session(Duration::ZERO));
        let client = world.client("alice").await;
        if by == By::Operator {
            let late = result(client.call("a__pay", json!({ "amount": 5 })).await).to_string();
            assert!(late.contains("was not approved in time"), "{}: {late}", world.described());
            assert_eq!(world.sent(), Vec::<Value>::new(), "{}", world.described());
            continue;
        }
        let asked = world.ask(&client, 5).await;
        if world.is_legacy_client() {
            world.decide(&client, &asked, 5, true, "session").await;
            *client.inbox.reply.lock() = Some(json!({ "action": "decline" }));
            let again = result(client.call("a__pay", json!({ "amount": 5 })).await).to_string();
            assert!(again.contains("was not approved"), "the grant has expired: {again}");
            assert_eq!(world.sent().len(), 1);
            continue;
        }
        let late = world.decide(&client, &asked, 5, true, "session").await.to_string();
        assert!(late.contains("has expired"), "{}: {late}", world.described());
        assert_eq!(world.sent(), Vec::<Value>::new(), "{}", world.described());
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_survives_a_restart() {
    for (era, by) in combinations() {
        let mut world = World::new(era, by, for_session(Duration::from_mins(10)));
        let client = world.client("alice").await;
        let asked = world.ask(&client, 5).await;
        if world.is_legacy_client() {
            world.decide(&client, &asked, 5, true, "session").await;
            world.restart().await;
            let client = world.client("alice").await;
            let again = result(client.call("a__pay", json!({ "amount": 5 })).await).to_string();
            assert!(again.contains("amount"), "{again}");
            assert_eq!(client.inbox.asked.lock().len(), 0, "the grant of the session is kept");
            assert_eq!(world.sent().len(), 2);
            continue;
        }
        world.restart().await;
        let client = world.client("alice").await;
        let done = world.decide(&client, &asked, 5, true, "once").await.to_string();
        assert!(done.contains("amount"), "{}: {done}", world.described());
        assert_eq!(world.sent().len(), 1, "{}", world.described());
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_that_a_question_cannot_show_whole_are_left_to_an_operator() {
    for era in ERAS {
        let world = World::new(era, By::Client, Approval::default());
        let client = world.client("alice").await;
        let text = "x".repeat(50_000);
        let arguments = json!({ "amount": 5, "text": text });
        let asked = result(client.call("a__pay", arguments.clone()).await);
        let id = pending(&asked);
        assert_eq!(client.inbox.asked.lock().len(), 0, "no question is asked: {}", world.described());
        let whole = read(&world.gateway, &format!("/approvals/{id}")).await;
        assert_eq!(whole["arguments"], arguments);
        let listed = read(&world.gateway, "/approvals").await["calls"][0].clone();
        assert_eq!((&listed["cut"], &listed["digest"]), (&json!(true), &whole["digest"]));
        assert_eq!(decide(&world.gateway, "/approvals/approve", &json!({ "id": id })).await, StatusCode::OK);
        client.call("a__pay", arguments.clone()).await.unwrap();
        assert_eq!(world.sent(), [arguments]);
        let too_large = json!({ "text": "x".repeat(300_000) });
        let refused = result(client.call("a__pay", too_large).await).to_string();
        assert!(refused.contains("its arguments are too large"), "{refused}");
    }
}

/// A modern upstream that asks two questions, one after the other, and checks that its state comes back.
fn asks_twice() -> Behaviour {
    Arc::new(|request, _| {
        let params: Value = request.params.read().unwrap();
        let asked = |state: &str| {
            let question = json!({ "method": "elicitation/create", "params": { "message": state } });
            json!({ "resultType": "input_required", "requestState": state, "inputRequests": { "q": question } })
        };
        let result = match params["requestState"].as_str() {
            None => asked("first"),
            Some("first") => asked("second"),
            Some("second") => {
                json!({ "resultType": "complete", "content": [{ "type": "text", "text": "paid" }] })
            }
            Some(other) => panic!("a state that is not its own: {other}"),
        };
        Box::pin(async move { Ok(AnswerBody::Whole(raw(result), Revision::NEWEST)) })
    })
}

#[tokio::test(start_paused = true)]
async fn one_approval_is_enough_for_a_modern_upstream_that_asks_twice_afterwards() {
    for (era, by) in combinations() {
        let world = World::with(era, by, Approval::default(), asks_twice());
        let client = world.client("alice").await;
        *client.inbox.reply.lock() = Some(json!({ "action": "accept", "content": { "decision": "once" } }));
        let asked = world.ask(&client, 5).await;
        let mut answer = world.decide(&client, &asked, 5, true, "once").await;
        let mut rounds = 0;
        while answer["resultType"] == "input_required" {
            rounds += 1;
            assert!(
                rounds <= 2 && answer["inputRequests"]["q"].is_object(),
                "{}: {answer}",
                world.described()
            );
            let params = json!({
                "name": "a__pay", "arguments": { "amount": 5 },
                "requestState": answer["requestState"], "inputResponses": { "q": { "action": "accept" } },
            });
            answer = result(client.ask("tools/call", params).await);
        }
        assert!(answer.to_string().contains("paid"), "{}: {answer}", world.described());
        let is_modern = era == Revision::NEWEST;
        assert_eq!(rounds, if is_modern { 2 } else { 0 }, "{}", world.described());
        let asked = client.inbox.asked.lock().len();
        let expected = match (is_modern, by) {
            (true, _) => 0,
            (false, By::Client) => 3,
            (false, By::Operator) => 2,
        };
        assert_eq!(asked, expected, "{}", world.described());
        assert_eq!(world.sent().len(), 3, "{}", world.described());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_approval_holds_no_permit_of_a_limit() {
    let double = Double::with(Revision::NEWEST, &["pay", "free"], echo());
    let approval = Approval { by: By::Operator, wait: Duration::from_mins(1), ..Approval::default() };
    let names = Names { tools: vec!["a:pay".to_owned()], ..Names::default() };
    let rules = vec![toolyard_policy::rules::Rule { names, approval, ..rule(Do::Approve) }];
    let folder = TempDir::new().unwrap();
    let gateway = start(&[("a", &double)], |plan| {
        let settings = ToolSettings { limits: Some(vec!["one".to_owned()]), ..ToolSettings::default() };
        plan.calls.tools = vec![ToolRule { pattern: "a:*".into(), settings, ..ToolRule::default() }];
        plan.calls.limits =
            vec![LimitPlan { name: "one".into(), per: Per::Group, limit: Limit::concurrent(1) }];
        plan.calls.rules = Some(Arc::new(Policy::new(rules, Do::Allow)));
        plan.state_dir = Some(folder.path().to_owned());
    });
    let (waiting, other) =
        (Client::new(&gateway, Revision::NEWEST, ""), Client::new(&gateway, Revision::NEWEST, ""));
    waiting.tools().await;
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let began = tokio::time::Instant::now();
        let answer = result(other.call("a__free", json!({})).await);
        assert!(answer.get("isError").is_none() && answer.get("error").is_none(), "{answer}");
        began.elapsed()
    };
    tokio::select! {
        biased;
        answer = waiting.call("a__pay", json!({})) => panic!("it does not wait: {answer:?}"),
        took = meanwhile => assert!(took < Duration::from_secs(1), "it waited {took:?} for the permit"),
    }
}
