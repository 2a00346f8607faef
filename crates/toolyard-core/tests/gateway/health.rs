//! Whether upstreams answer, by the clock: when they are asked, what silence means, and how they come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use toolyard_core::upstream::health::Health;
use toolyard_core::{Gateway, Plan, WallClock};
use toolyard_model::Answer;
use toolyard_proto::{CallError, Method, Revision};

use crate::support::{Attempt, Behaviour, Client, Double, echo, start};

const NEW: Revision = Revision::NEWEST;
const OLD: Revision = Revision::NEWEST_LEGACY;

/// Makes an upstream silent: altogether, or only to pings.
#[derive(Default)]
pub(crate) struct SilenceSwitch {
    pub(crate) everything: AtomicBool,
    pub(crate) pings: AtomicBool,
    /// The next ping ends in a panic.
    pub(crate) panics: AtomicBool,
}

pub(crate) fn is_ping(method: &Method) -> bool {
    [Method::DISCOVER, Method::PING].contains(method)
}

pub(crate) fn silenceable(revision: Revision) -> (Arc<Double>, Arc<SilenceSwitch>) {
    let silence = Arc::<SilenceSwitch>::default();
    let (own, echo) = (silence.clone(), echo());
    let behaviour: Behaviour = Arc::new(move |request, peer| {
        let is_ping = is_ping(&request.method);
        assert!(!is_ping || !own.panics.swap(false, Ordering::SeqCst), "as the test wants it");
        if own.everything.load(Ordering::SeqCst) || (is_ping && own.pings.load(Ordering::SeqCst)) {
            return Box::pin(std::future::pending::<Answer>());
        }
        echo(request, peer)
    });
    (Double::with(revision, &["t"], behaviour), silence)
}

pub(crate) fn pinged(plan: &mut Plan) {
    for upstream in &mut plan.upstreams {
        upstream.policy.pinged = true;
    }
}

pub(crate) fn health(gateway: &Gateway) -> Health {
    gateway.upstreams()[1].health()
}

pub(crate) fn state(gateway: &Gateway) -> (&'static str, Option<String>) {
    let state = gateway.upstreams()[1].state();
    (state.phase.as_str(), state.reason.map(|reason| reason.to_string()))
}

pub(crate) async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

/// How many pings it was sent.
pub(crate) fn pings(double: &Double) -> usize {
    double.seen.lock().iter().filter(|(method, _)| is_ping(method)).count()
}

#[tokio::test(start_paused = true)]
async fn the_third_miss_makes_it_retry_and_an_answer_makes_it_active() {
    for revision in [NEW, OLD] {
        let (double, silence) = silenceable(revision);
        let gateway = start(&[("a", &double)], pinged);
        let client = Client::new(&gateway, NEW, "");
        client.call("a__t", json!({})).await.unwrap();
        seconds(25).await;
        assert_eq!((pings(&double), state(&gateway).0), (2, "active"), "every ten seconds");
        let known = health(&gateway);
        assert_eq!((known.pings, known.answers, known.missed), (2, 2, 0));
        assert!(known.round_trip.is_some() && known.is_healthy() == Some(true), "{known:?}");
        silence.everything.store(true, Ordering::SeqCst);
        // Asked at 30, 40 and 50 s; given up on 5 s later each time.
        seconds(29).await;
        assert_eq!((state(&gateway).0, health(&gateway).misses), ("active", 2));
        seconds(2).await;
        let (phase, reason) = state(&gateway);
        assert_eq!((phase, health(&gateway).misses), ("retrying", 3));
        assert!(reason.as_deref().unwrap().contains("3 pings"), "{reason:?}");
        let refused = client.call("a__t", json!({})).await.unwrap();
        assert_eq!(refused["_meta"]["dev.toolyard/error"]["kind"], "unavailable", "{refused}");
        silence.everything.store(false, Ordering::SeqCst);
        seconds(10).await;
        let known = health(&gateway);
        assert_eq!((state(&gateway).0, known.misses, known.missed), ("active", 0, 3));
        assert_eq!((known.pings, known.answers), (6, 3), "the figures of all that was asked");
        client.call("a__t", json!({})).await.unwrap();
        assert_eq!(double.connects.load(Ordering::SeqCst), 1, "the link was kept");
    }
}

#[tokio::test(start_paused = true)]
async fn tools_of_one_that_does_not_answer_leave_after_the_grace_and_come_back_with_it() {
    let (double, silence) = silenceable(NEW);
    let gateway = start(&[("a", &double)], pinged);
    let client = Client::new(&gateway, NEW, "");
    assert_eq!(client.tools().await, ["a__t"]);
    silence.everything.store(true, Ordering::SeqCst);
    seconds(42).await;
    assert_eq!((state(&gateway).0, client.tools().await), ("retrying", vec!["a__t".to_owned()]));
    seconds(5).await;
    assert_eq!(client.tools().await, [] as [&str; 0]);
    silence.everything.store(false, Ordering::SeqCst);
    seconds(10).await;
    assert_eq!(client.tools().await, ["a__t"]);
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_stays_silent_is_reconnected() {
    let (double, silence) = silenceable(NEW);
    let gateway = start(&[("a", &double)], pinged);
    seconds(15).await;
    silence.everything.store(true, Ordering::SeqCst);
    // The third miss at 45 s, the sixth at 75 s, another attempt a second later.
    seconds(54).await;
    assert_eq!((state(&gateway).0, double.connects.load(Ordering::SeqCst)), ("retrying", 1));
    silence.everything.store(false, Ordering::SeqCst);
    seconds(4).await;
    assert_eq!((state(&gateway).0, double.connects.load(Ordering::SeqCst)), ("active", 1), "just in time");
    silence.everything.store(true, Ordering::SeqCst);
    seconds(70).await;
    assert_eq!(double.connects.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn silence_during_a_call_is_not_a_miss_until_a_call_was_given_up() {
    let (double, silence) = silenceable(NEW);
    let gateway = start(&[("a", &double)], |plan| {
        pinged(plan);
        plan.upstreams[0].policy.timeouts.idle = Duration::from_secs(100);
    });
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    silence.everything.store(true, Ordering::SeqCst);
    let call = tokio::spawn(client.send("tools/call", json!({ "name": "a__t" })));
    let second = tokio::spawn({
        let late = client.send("tools/call", json!({ "name": "a__t" }));
        async move {
            seconds(90).await;
            late.await
        }
    });
    seconds(98).await;
    assert_eq!((state(&gateway).0, health(&gateway).misses), ("active", 0), "it may be at work");
    // The first call is given up at 100 s; the second is under way, and that is not an excuse any more.
    seconds(30).await;
    assert_eq!(state(&gateway).0, "retrying");
    call.abort();
    second.abort();
}

#[tokio::test(start_paused = true)]
async fn one_that_never_answers_pings_is_not_judged_by_them() {
    let (double, silence) = silenceable(OLD);
    silence.pings.store(true, Ordering::SeqCst);
    let gateway = start(&[("a", &double)], pinged);
    let client = Client::new(&gateway, NEW, "");
    seconds(300).await;
    assert_eq!((state(&gateway).0, double.connects.load(Ordering::SeqCst)), ("active", 1));
    assert!(health(&gateway).missed > 20, "it is still asked");
    client.call("a__t", json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_error_is_an_answer() {
    let refuses: Behaviour = Arc::new(|request, _| {
        let error = crate::support::raw(json!({ "code": -32601, "message": request.method.as_str() }));
        Box::pin(async { Err(CallError::reported(error)) })
    });
    let double = Double::with(OLD, &["t"], refuses);
    let gateway = start(&[("a", &double)], pinged);
    seconds(65).await;
    let known = health(&gateway);
    assert_eq!((known.answers, known.missed, state(&gateway).0), (6, 0, "active"));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_not_to_be_pinged_is_not() {
    let (double, _) = silenceable(NEW);
    let gateway = start(&[("a", &double)], |_| {});
    seconds(120).await;
    assert_eq!((pings(&double), health(&gateway)), (0, Health::default()));
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_it_is_asked_costs_the_connection_and_not_the_supervisor() {
    let (double, silence) = silenceable(NEW);
    let gateway = start(&[("a", &double)], pinged);
    seconds(5).await;
    silence.panics.store(true, Ordering::SeqCst);
    seconds(10).await;
    assert_eq!((state(&gateway).0, double.connects.load(Ordering::SeqCst)), ("active", 2));
    Client::new(&gateway, NEW, "").call("a__t", json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_results_of_pings_are_reported() {
    let (double, _) = silenceable(NEW);
    let gateway = start(&[("a", &double)], pinged);
    let client = Client::new(&gateway, NEW, "");
    seconds(25).await;
    let listed = client.call("yard__upstreams", json!({})).await.unwrap();
    let health: &Value = &listed["structuredContent"]["upstreams"][1]["health"];
    assert_eq!(
        (&health["pings"], &health["missesInARow"], &health["healthy"]),
        (&json!(2), &json!(0), &json!(true))
    );
    assert!(health["roundTripMs"].is_number() && health["lastAnswer"].is_string(), "{health}");
}

#[tokio::test(start_paused = true)]
async fn after_a_jump_of_the_clock_every_link_is_looked_at_at_once() {
    let (active, _) = silenceable(NEW);
    let (older, _) = silenceable(OLD);
    let dead = Double::new(NEW, &["t"]);
    dead.attempts.lock().extend((0..5).map(|_| Attempt::Fails));
    let jumped = Arc::new(AtomicU64::new(0));
    let (began, jump) = (tokio::time::Instant::now(), jumped.clone());
    let wall =
        move || SystemTime::UNIX_EPOCH + began.elapsed() + Duration::from_secs(jump.load(Ordering::SeqCst));
    let all = [("a", &active), ("b", &older), ("dead", &dead)];
    let gateway = start(&all, |plan| plan.wall = WallClock::new(wall));
    seconds(21).await;
    let phase = |at: usize| gateway.upstreams()[at].state().phase.as_str();
    assert_eq!((phase(1), phase(2), phase(3)), ("active", "active", "dead"));
    assert_eq!((pings(&active), pings(&older), dead.connects.load(Ordering::SeqCst)), (0, 0, 5));
    // Back and forth by a little, as clocks are set.
    jumped.store(20, Ordering::SeqCst);
    seconds(6).await;
    jumped.store(0, Ordering::SeqCst);
    seconds(6).await;
    assert_eq!((pings(&active), pings(&older), phase(3)), (0, 0, "dead"));
    jumped.store(180, Ordering::SeqCst);
    seconds(6).await;
    assert_eq!((pings(&active), pings(&older)), (1, 1));
    assert_eq!(
        (phase(1), phase(2), phase(3)),
        ("active", "active", "active"),
        "what was given up is tried too"
    );
    seconds(60).await;
    assert_eq!((pings(&active), pings(&older)), (1, 1), "once");
}

#[tokio::test(start_paused = true)]
async fn a_link_that_died_in_its_sleep_is_noticed_after_the_jump() {
    let (double, silence) = silenceable(NEW);
    let jumped = Arc::new(AtomicU64::new(0));
    let (began, jump) = (tokio::time::Instant::now(), jumped.clone());
    let wall =
        move || SystemTime::UNIX_EPOCH + began.elapsed() + Duration::from_secs(jump.load(Ordering::SeqCst));
    let gateway = start(&[("a", &double)], |plan| plan.wall = WallClock::new(wall));
    seconds(12).await;
    silence.everything.store(true, Ordering::SeqCst);
    jumped.store(180, Ordering::SeqCst);
    // Looked at within 5 s, and asked three times.
    seconds(31).await;
    assert_eq!((state(&gateway).0, health(&gateway).misses), ("retrying", 3));
    silence.everything.store(false, Ordering::SeqCst);
    seconds(11).await;
    assert_eq!(state(&gateway).0, "active");
}
