//! Calls of a pack that take longer than a call may be silent.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use toolyard_core::{Connect, Connected, Gateway, Plan, Timeouts, UpstreamKind, UpstreamPlan};
use toolyard_model::{
    AnswerBody, BoxFuture, ClientKey, Handler, Origin, Peer, Principal, Request, Scope, View,
};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{Id, Method, Raw, Reason, Revision};
use toolyard_tool::{Context, ToolSet, tool};

/// Works for 90 s and reports progress every 25 s.
#[tool]
async fn work(context: &Context) -> &'static str {
    for step in 1..=3_u32 {
        sleep(Duration::from_secs(25)).await;
        context.progress(step, 3_u32);
    }
    sleep(Duration::from_secs(15)).await;
    "worked"
}

/// Works for 90 s without reporting progress.
#[tool]
async fn be_silent() -> &'static str {
    sleep(Duration::from_secs(90)).await;
    "never"
}

#[derive(Debug)]
struct InMemory(Arc<ToolSet>);

impl Connect for InMemory {
    fn connect(&self, _: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        let connected = self.0.connect();
        Box::pin(async { Ok(connected) })
    }
}

async fn call(gateway: &Gateway, tool: &str) -> Value {
    let view = View::parse("worker").unwrap();
    let origin = Origin::new(view, Principal::local(), ClientKey::Connection(1), Revision::NEWEST);
    let params = Raw::from(json!({ "name": tool, "arguments": {} }));
    let request = Request::new(Arc::new(origin), Id::number(1), Method::TOOLS_CALL, params);
    match gateway.handle(request, Peer::none()).await.unwrap() {
        AnswerBody::Whole(result, _) => result.read().unwrap(),
        AnswerBody::Stream(_) => panic!("nothing streams here"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_90_seconds_answers_without_a_progress_token_if_it_makes_progress() {
    let set = Arc::new(ToolSet::new("worker", "1").with::<work>().with::<be_silent>());
    let id = UpstreamId::parse("worker").unwrap();
    let mut upstream = UpstreamPlan::new(id, UpstreamKind::BuiltIn, Arc::new(InMemory(set)));
    upstream.policy.timeouts = Timeouts::LOCAL;
    let scope = Scope::new();
    let gateway = Gateway::start(Plan { upstreams: vec![upstream], ..Plan::default() }, &scope);
    let begun = Instant::now();
    let answer = call(&gateway, "work").await;
    assert_eq!(answer["content"][0]["text"], "worked", "{answer}");
    assert_eq!(begun.elapsed().as_secs(), 90);
    let begun = Instant::now();
    let answer = call(&gateway, "be_silent").await;
    assert_eq!(answer["_meta"]["dev.toolyard/error"]["kind"], "timeout", "{answer}");
    assert_eq!(begun.elapsed(), Timeouts::LOCAL.idle);
    scope.end().await;
}
