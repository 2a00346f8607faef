//! A tool of a pack that calls other tools for its caller: in the caller's view, with the caller's answers, and never
//! deeper or longer than the caller's own call.

use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolyard_core::event::{Event, Sink, Sinks, What};
use toolyard_core::ledger::{Captured, OpenCall, Record};
use toolyard_core::status::Stderr;
use toolyard_core::{Connect, Connected, Plan, ProfilePlan, UpstreamKind, UpstreamPlan};
use toolyard_model::{
    Answer, AnswerBody, BoxFuture, ClientKey, Handler, Origin, Peer, Principal, Request, View,
};
use toolyard_proto::modern::{RequestMeta, stamp_request};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{CallError, Id, Method, Raw, Reason, Revision};
use toolyard_serve::Options;
use toolyard_testkit::client::Client;
use toolyard_testkit::script::Manner;
use toolyard_tool::host::Gateway;
use toolyard_tool::{Context, Host, Pack, ToolError, ToolSet, tool};

use crate::world::{Reach, World, until};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Path {
    /// The tools to call one after the other, each from the one before it.
    path: Vec<String>,
}

/// Calls the first tool of a path, with the rest of the path.
async fn hop(context: &Context, args: Path) -> Result<String, ToolError> {
    let (first, rest) = args.path.split_first().ok_or_else(|| ToolError::new("the path is empty"))?;
    let answer = context.tools()?.call(first, json!({ "path": rest, "text": "echoed" })).await?;
    Ok(answer.into_result()?.text())
}

/// Calls another tool.
#[tool]
async fn one(context: &Context, args: Path) -> Result<String, ToolError> {
    hop(context, args).await
}

/// Calls another tool.
#[tool]
async fn two(context: &Context, args: Path) -> Result<String, ToolError> {
    hop(context, args).await
}

/// Calls another tool.
#[tool]
async fn three(context: &Context, args: Path) -> Result<String, ToolError> {
    hop(context, args).await
}

/// Calls another tool.
#[tool]
async fn four(context: &Context, args: Path) -> Result<String, ToolError> {
    hop(context, args).await
}

#[derive(Deserialize, JsonSchema)]
struct Words {
    words: String,
}

/// The names of the tools that the caller sees.
#[tool]
async fn names(context: &Context, args: Words) -> Result<Vec<String>, ToolError> {
    let tools = context.tools()?;
    let found = if args.words.is_empty() { tools.list().await? } else { tools.search(&args.words).await? };
    Ok(found.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect())
}

/// The gateway, which is made after its packs.
#[derive(Default)]
struct Later(OnceLock<Weak<dyn Handler>>);

impl Gateway for Later {
    fn handle(&self, request: Request, peer: Peer) -> BoxFuture<Answer> {
        self.0.get().and_then(Weak::upgrade).unwrap().handle(request, peer)
    }
}

#[derive(Debug)]
struct InMemory(Arc<ToolSet>);

impl Connect for InMemory {
    fn connect(&self, _: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        let connected = self.0.connect();
        Box::pin(async { Ok(connected) })
    }
}

/// The records of all calls that have ended.
#[derive(Clone, Default)]
struct Records(Arc<Mutex<Vec<Value>>>);

impl Sink for Records {
    fn take(&self, _: &Event) {}

    fn call_ended(&self, call: &Arc<OpenCall>, record: &Record, _: Option<&Captured>) {
        let (trace, record) = (call.trace, Arc::new(record.clone()));
        let event = Event { at: SystemTime::now(), what: What::CallEnded { trace, record } };
        self.0.lock().push(event.to_json(Stderr::Shown));
    }
}

struct Nested {
    world: World,
    records: Records,
    /// Keeps the gateway reachable for the pack.
    _handler: Arc<dyn Handler>,
}

impl Nested {
    async fn open(server: Revision) -> Self {
        let gateway = Arc::new(Later::default());
        let host = Host::builder("relay").gateway(gateway.clone()).build();
        let pack = Pack::with_host("relay", "Calls.", |_: Nothing, _| {
            let set = ToolSet::new("relay", "1").with::<one>().with::<two>().with::<three>().with::<four>();
            set.with::<names>()
        });
        let set = Arc::new(pack.tools_in(json!({}), host).unwrap());
        let records = Records::default();
        let sinks = Sinks(vec![Arc::new(records.clone())]);
        let id = UpstreamId::parse("relay").unwrap();
        let relay = UpstreamPlan::new(id, UpstreamKind::BuiltIn, Arc::new(InMemory(set)));
        let narrow = ProfilePlan {
            name: "narrow".into(),
            upstreams: Some(vec!["relay".into()]),
            ..ProfilePlan::default()
        };
        let adjust = |mut plan: Plan| {
            plan.upstreams.push(relay);
            Plan { profiles: vec![narrow], sinks, ..plan }
        };
        let world = World::planned(server, Manner::Full, Reach::Http, Options::default(), adjust).await;
        let handler: Arc<dyn Handler> = Arc::new(world.gateway.clone());
        gateway.0.set(Arc::downgrade(&handler)).unwrap();
        Self { world, records, _handler: handler }
    }

    async fn call(&self, client: &Client, tool: &str, path: &[&str]) -> Value {
        let params = json!({ "name": tool, "arguments": { "path": path } });
        let params = params_of(client.origin(), params);
        client.call(&self.world.gateway, "tools/call", params).await.unwrap()
    }
}

fn params_of(origin: &Origin, params: Value) -> Value {
    if !origin.revision.is_modern() {
        return params;
    }
    let meta = RequestMeta {
        revision: origin.revision,
        capabilities: origin.capabilities.clone(),
        client_info: None,
        log_level: None,
    };
    stamp_request(Some(&Raw::from(params)), &meta).read().unwrap()
}

fn client(revision: Revision) -> Client {
    let answer = json!({ "action": "accept", "content": { "name": "Ann" } });
    Client::new(revision, json!({ "elicitation": {} })).answering("elicitation/create", answer)
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

const ERAS: [Revision; 2] = [Revision::V2025_11_25, Revision::NEWEST];
/// How soon the inner call must end after the client has cancelled the outer one.
const CANCELLED_WITHIN: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_nested_call_answers_and_asks_in_every_pairing_of_eras_and_both_calls_are_recorded() {
    for server in ERAS {
        let nested = Nested::open(server).await;
        for revision in ERAS {
            let client = client(revision);
            let result = nested.call(&client, "relay__one", &["script__echo"]).await;
            assert_eq!(text(&result), "echoed", "{revision:?} {server:?}: {result}");
            let result = nested.call(&client, "relay__one", &["script__elicit"]).await;
            assert_eq!(text(&result), "Ann", "{revision:?} {server:?}: {result}");
            assert_eq!(client.asks().len(), 1, "the caller was asked");

            let records = std::mem::take(&mut *nested.records.0.lock());
            let outer: Vec<&Value> = records.iter().filter(|record| record["upstream"] == "relay").collect();
            let inner: Vec<&Value> = records.iter().filter(|record| record["upstream"] == "script").collect();
            assert_eq!(outer.len(), 2, "{records:?}");
            assert!(outer.iter().all(|record| record["parent"].is_null()), "{records:?}");
            let is_linked = |record: &&Value| outer.iter().any(|outer| outer["call"] == record["parent"]);
            assert!(inner.len() >= 2 && inner.iter().all(is_linked), "{records:?}");
        }
    }
}

#[tokio::test]
async fn progress_of_a_nested_call_reaches_the_caller() {
    for server in ERAS {
        let nested = Nested::open(server).await;
        for revision in ERAS {
            let client = client(revision);
            let arguments = json!({ "path": ["script__progress"] });
            let params =
                json!({ "name": "relay__one", "arguments": arguments, "_meta": { "progressToken": 7 } });
            let params = params_of(client.origin(), params);
            client.call(&nested.world.gateway, "tools/call", params).await.unwrap();
            let sent = client.notifications();
            let progress: Vec<&Value> =
                sent.iter().filter(|sent| sent[0] == "notifications/progress").collect();
            assert!(!progress.is_empty(), "{revision:?}: {sent:?}");
            assert!(progress.iter().all(|sent| sent[1]["progressToken"] == 7), "{progress:?}");
        }
    }
}

#[tokio::test]
async fn a_tool_never_calls_itself_and_nesting_is_bounded_in_every_pairing_of_eras() {
    for server in ERAS {
        let nested = Nested::open(server).await;
        for (answers, revision) in ERAS.into_iter().enumerate() {
            let (pairing, client) = (format!("{revision:?} {server:?}"), client(revision));
            let call = async |path: &[&str]| nested.call(&client, "relay__one", path).await;
            let refused = call(&["relay__one", "script__echo"]).await;
            assert!(text(&refused).contains("must not call itself"), "{pairing}: {refused}");
            let refused = call(&["relay__two", "relay__one", "script__echo"]).await;
            assert!(text(&refused).contains("must not call itself"), "{pairing}: {refused}");
            let answered = call(&["relay__two", "relay__three", "script__echo"]).await;
            assert_eq!(text(&answered), "echoed", "{pairing}: {answered}");
            let refused = call(&["relay__two", "relay__three", "relay__four", "script__echo"]).await;
            assert!(text(&refused).contains("3 levels deep"), "{pairing}: {refused}");
            assert_eq!(nested.world.server.called("echo"), answers + 1, "{pairing}");
        }
    }
}

#[tokio::test]
async fn a_nested_call_sees_only_the_view_of_its_caller_in_every_pairing_of_eras() {
    for server in ERAS {
        let nested = Nested::open(server).await;
        for revision in ERAS {
            nested_calls_stay_in_the_view(&nested, revision).await;
        }
    }
}

async fn nested_calls_stay_in_the_view(nested: &Nested, revision: Revision) {
    let call = async |view: &str, tool: &str, arguments: Value| {
        let view = View::parse(view).unwrap();
        let origin = Arc::new(Origin::new(view, Principal::local(), ClientKey::Connection(1), revision));
        let params = params_of(&origin, json!({ "name": tool, "arguments": arguments }));
        let request = Request::new(origin, Id::number(1), Method::TOOLS_CALL, params);
        match nested.world.gateway.handle(request, Peer::none()).await {
            Ok(AnswerBody::Whole(result, _)) => result.read::<Value>().unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let words = |words: &str| json!({ "words": words });
    let all = call("", "relay__names", words("")).await.to_string();
    assert!(all.contains("script__echo") && all.contains("relay__one"), "{all}");
    let found = call("", "relay__names", words("echo")).await;
    assert_eq!(found["structuredContent"]["result"], json!(["script__echo"]), "{found}");
    let narrow = call("p/narrow", "relay__names", words("")).await.to_string();
    assert!(!narrow.contains("script__") && narrow.contains("relay__one"), "{narrow}");
    let refused = call("p/narrow", "relay__one", json!({ "path": ["script__echo"] })).await;
    assert!(text(&refused).contains("unknown tool `script__echo`"), "{refused}");
}

/// A modern client closes its stream, a legacy one sends `notifications/cancelled`.
#[tokio::test]
async fn cancelling_a_call_cancels_the_call_inside_it_within_a_second_in_every_pairing_of_eras() {
    for server in ERAS {
        let nested = Nested::open(server).await;
        for (before, revision) in ERAS.into_iter().enumerate() {
            let pairing = format!("{revision:?} {server:?}");
            let client = nested.world.client_at("/mcp", revision).await;
            let params = json!({ "name": "relay__one", "arguments": { "path": ["script__slow"] } });
            let call = client.begin("tools/call", params, json!({})).await.unwrap();
            until("the inner call runs", || nested.world.server.called("slow") == before + 1).await;
            assert_eq!(nested.world.server.cancelled(), before, "{pairing}");
            client.cancel(call).await.unwrap();
            let cancelled =
                until("the server is cancelled", || nested.world.server.cancelled() == before + 1);
            tokio::time::timeout(CANCELLED_WITHIN, cancelled).await.expect(&pairing);
        }
    }
}

#[tokio::test]
async fn a_pack_that_is_served_alone_reports_that_it_needs_a_gateway() {
    let set = ToolSet::new("relay", "1").with::<one>();
    let client = client(Revision::NEWEST);
    let params = params_of(client.origin(), json!({ "name": "one", "arguments": { "path": ["x"] } }));
    let result: Result<Value, CallError> = client.call(&set, "tools/call", params).await;
    assert!(text(&result.unwrap()).contains("it is served without one"));
}
