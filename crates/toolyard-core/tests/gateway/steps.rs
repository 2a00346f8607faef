//! The steps of a call: what a step can do, which chain a call passes, and what is recorded of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use toolyard_core::pipeline::{Call, ExtraSteps, Next, Step, hold_until_end};
use toolyard_core::{Reloaded, ToolRule, ToolSettings};
use toolyard_model::answer::RelayError;
use toolyard_model::{Answer, AnswerBody, BoxFuture, Handler, Peer, Relay, RelayKind, Request};
use toolyard_proto::Revision;

use crate::support::{Behaviour, Client, Double, gateway, plan, raw, start};

const NEW: Revision = Revision::NEWEST;

/// Runs what the test gives it.
struct Scripted<F>(F);

impl<F: Fn(Call, Next) -> BoxFuture<Answer> + Send + Sync + 'static> Step for Scripted<F> {
    fn run(&self, call: Call, next: Next) -> BoxFuture<Answer> {
        (self.0)(call, next)
    }
}

fn step(run: impl Fn(Call, Next) -> BoxFuture<Answer> + Send + Sync + 'static) -> ExtraSteps {
    ExtraSteps(vec![Arc::new(Scripted(run))])
}

struct Permit(Arc<AtomicUsize>);

impl Permit {
    fn take(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An answer in two pieces.
struct TwoPieces(usize);

impl Body for TwoPieces {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        self.0 += 1;
        let piece = (self.0 <= 2).then(|| Ok(Frame::data(Bytes::from_static(b"x"))));
        std::task::Poll::Ready(piece)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// Streams where it may, and answers whole otherwise.
fn streaming() -> Behaviour {
    Arc::new(|request, _| {
        Box::pin(async move {
            if request.relay {
                return Ok(AnswerBody::Stream(Relay::new(RelayKind::Json, TwoPieces(0))));
            }
            Ok(AnswerBody::ours(raw(json!({ "content": [] }))))
        })
    })
}

async fn relayed(gateway: &toolyard_core::Gateway, client: &Client, name: &str) -> Answer {
    let params = raw(json!({ "name": name, "arguments": {} })).into();
    let request = Request { params, relay: true, ..client.request("tools/call") };
    gateway.handle(request, Peer::none()).await
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_held_until_the_last_byte_of_a_streamed_answer() {
    let held = Arc::new(AtomicUsize::new(0));
    let count = held.clone();
    let steps = step(move |call, next| {
        let permit = Permit::take(&count);
        let answering = next.run(call);
        Box::pin(async move { hold_until_end(answering.await, permit) })
    });
    let double = Double::with(NEW, &["t"], streaming());
    let gateway = start(&[("a", &double)], |plan| plan.steps = steps);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    client.call("a__t", json!({})).await.unwrap();
    assert_eq!(held.load(Ordering::SeqCst), 0, "a whole answer has ended when it is there");
    let Ok(AnswerBody::Stream(mut relay)) = relayed(&gateway, &client, "a__t").await else {
        panic!("it streams")
    };
    for expected in [1, 1, 0] {
        let frame = std::future::poll_fn(|cx| std::pin::Pin::new(&mut relay).poll_frame(cx)).await;
        assert_eq!(held.load(Ordering::SeqCst), expected, "{frame:?}");
    }
    let left = relayed(&gateway, &client, "a__t").await;
    assert_eq!(held.load(Ordering::SeqCst), 1);
    drop(left);
    assert_eq!(held.load(Ordering::SeqCst), 0, "the client left");
}

struct Reader;

impl Step for Reader {
    fn run(&self, call: Call, next: Next) -> BoxFuture<Answer> {
        next.run(call)
    }

    fn needs_whole(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_whole_only_where_a_step_needs_that() {
    let double = Double::with(NEW, &["t"], streaming());
    let with_reader = start(&[("a", &double)], |plan| plan.steps = ExtraSteps(vec![Arc::new(Reader)]));
    let by_call = start(&[("a", &double)], |plan| {
        plan.steps = step(|mut call, next| {
            call.needs_whole = call.entry.as_ref().is_some_and(|entry| &*entry.canonical == "a:t");
            next.run(call)
        });
    });
    for (gateway, whole) in [(gateway(&[("a", &double)]), false), (with_reader, true), (by_call, true)] {
        let client = Client::new(&gateway, NEW, "");
        client.tools().await;
        let answer = relayed(&gateway, &client, "a__t").await.unwrap();
        assert_eq!(matches!(answer, AnswerBody::Whole(..)), whole);
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_can_send_a_call_again_and_knows_its_deadline() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let steps = step(move |call, next| {
        let (again, second) = (call.clone(), next.clone());
        let due = call.deadline.as_ref().map(|deadline| deadline.due().0 - Instant::now());
        noted.lock().push(due);
        let first = next.run(call);
        Box::pin(async move {
            first.await?;
            second.run(again).await
        })
    });
    let double = Double::new(NEW, &["t"]);
    let gateway = start(&[("a", &double)], |plan| plan.steps = steps);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    client.call("a__t", json!({})).await.unwrap();
    assert_eq!(*seen.lock(), [Some(Duration::from_secs(30))]);
    assert_eq!(double.seen.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn another_timeout_is_in_force_after_a_reload_without_a_new_connection() {
    let silent: Behaviour = Arc::new(|_, _| Box::pin(std::future::pending()));
    let double = Double::with(NEW, &["t", "slow", "slower"], silent);
    let gateway = gateway(&[("a", &double)]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let takes = async |name: &str| {
        let started = Instant::now();
        client.call(name, json!({})).await.unwrap();
        started.elapsed().as_secs()
    };
    assert_eq!(takes("a__t").await, 30);
    let mut other = plan(&[("a", &double)]);
    other.upstreams[0].policy.timeouts.idle = Duration::from_secs(7);
    let rule = |pattern: &str, seconds| {
        let settings =
            ToolSettings { timeout: Some(Duration::from_secs(seconds)), ..ToolSettings::default() };
        ToolRule { pattern: pattern.into(), settings, ..ToolRule::default() }
    };
    other.calls.tools = vec![rule("*slow*", 50), rule("a:slow", 60)];
    assert_eq!(gateway.reload(other), Reloaded { changed: vec!["a".to_owned()], ..Reloaded::default() });
    assert_eq!((takes("a__t").await, takes("a__slow").await, takes("a__slower").await), (7, 60, 50));
    assert_eq!(double.connects.load(Ordering::SeqCst), 1);
}

async fn records(gateway: &toolyard_core::Gateway) -> Vec<(String, String, Value)> {
    let report = crate::api::get(gateway, "/report").await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let calls = report["calls"].as_array().unwrap().iter().rev();
    calls.map(|call| (text(&call["method"]), text(&call["status"]), call["tool"].clone())).collect()
}

#[tokio::test(start_paused = true)]
async fn every_refusal_leaves_a_record_whatever_the_method() {
    let gateway = gateway(&[("a", &Double::new(NEW, &["t"]))]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    for (method, params) in [
        ("tools/call", json!({ "name": "a__t" })),
        ("tools/call", json!({ "name": "nope" })),
        ("prompts/get", json!({ "name": "nope" })),
        ("resources/read", json!({ "uri": "file:///nope?token=secret" })),
        ("completion/complete", json!({ "ref": { "type": "ref/nope" } })),
        ("tools/list", json!({ "cursor": "nope" })),
        ("x/y", json!({})),
        ("ping", json!({})),
    ] {
        let _ = client.ask(method, params).await;
    }
    let expected = [
        ("tools/call", "ok", json!("a:t")),
        ("tools/call", "refused", json!("nope")),
        ("prompts/get", "refused", json!("nope")),
        ("resources/read", "refused", json!("file:///nope")),
        ("completion/complete", "refused", json!(null)),
        ("tools/list", "refused", json!(null)),
        ("x/y", "refused", json!(null)),
        ("ping", "refused", json!(null)),
    ];
    let expected = expected.map(|(method, status, name)| (method.to_owned(), status.to_owned(), name));
    assert_eq!(records(&gateway).await, expected);
}
