//! Upstreams that are slow, dead, lost and back again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolyard_core::Gateway;
use toolyard_model::LinkEvent;
use toolyard_proto::{CallError, Revision};

use crate::support::{Attempt, Behaviour, Client, Double, gateway, raw, start};

const NEW: Revision = Revision::NEWEST;

async fn about(gateway: &Gateway, id: &str) -> Value {
    let result = Client::new(gateway, NEW, "").call("yard__upstreams", json!({})).await.unwrap();
    let all = result["structuredContent"]["upstreams"].as_array().unwrap().clone();
    all.into_iter().find(|upstream| upstream["id"] == id).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_hanging_upstream_delays_the_first_list_by_less_than_five_seconds_and_no_other() {
    let (good, slow) = (Double::new(NEW, &["t"]), Double::new(NEW, &["t"]));
    slow.attempts.lock().push_back(Attempt::Hangs);
    let client = Client::new(&gateway(&[("good", &good), ("slow", &slow)]), NEW, "");
    let started = Instant::now();
    assert_eq!(client.tools().await, ["good__t"]);
    let waited = started.elapsed();
    assert!((Duration::from_secs(4)..Duration::from_secs(5)).contains(&waited), "{waited:?}");
    assert_eq!(client.tools().await, ["good__t"]);
    assert_eq!(started.elapsed(), waited);
}

#[tokio::test(start_paused = true)]
async fn a_dead_upstream_delays_nothing_and_its_calls_return_the_reason() {
    let (good, dead) = (Double::new(NEW, &["t"]), Double::new(NEW, &["t"]));
    dead.attempts.lock().extend((0..100).map(|_| Attempt::Fails));
    let gateway = gateway(&[("dead", &dead), ("good", &good)]);
    let client = Client::new(&gateway, NEW, "");
    let started = Instant::now();
    assert_eq!(client.tools().await, ["good__t"]);
    assert!(started.elapsed() < Duration::from_secs(1));
    let about = about(&gateway, "dead").await;
    assert_eq!(
        (about["state"].as_str(), about["reason"].as_str()),
        (Some("retrying"), Some("connection refused"))
    );
    tokio::time::sleep(Duration::from_mins(2)).await;
    let tries = dead.connects.load(Ordering::SeqCst);
    assert!((6..=10).contains(&tries), "backs off from 1 s to 30 s, tried {tries} times");
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_cannot_list_its_tools_stays_connected_and_is_asked_again() {
    let double = Double::new(NEW, &["t"]);
    *double.prompts.lock() = vec![json!({ "name": "hello" })];
    double.tools_fail.store(true, Ordering::SeqCst);
    let gateway = gateway(&[("a", &double)]);
    let client = Client::new(&gateway, NEW, "");
    assert!(client.tools().await.is_empty());
    let state = about(&gateway, "a").await;
    assert_eq!(state["state"], "active", "{state}");
    let fault = state["faults"][0].as_str().unwrap();
    assert!(fault.contains("`tools/list` failed") && fault.contains("the database is locked"), "{fault}");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(double.connects.load(Ordering::SeqCst), 1);
    double.tools_fail.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(client.tools().await, ["a__t"]);
    assert_eq!(about(&gateway, "a").await["faults"], json!([]));
    assert_eq!(double.connects.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn tools_of_a_lost_upstream_stay_for_the_grace_and_come_back_with_it() {
    let double = Double::new(NEW, &["t"]);
    let gateway = gateway(&[("a", &double)]);
    let client = Client::new(&gateway, NEW, "");
    assert_eq!(client.tools().await, ["a__t"]);
    double.attempts.lock().extend((0..3).map(|_| Attempt::Fails));
    double.say(LinkEvent::Closed("it exited with status 1".into()));
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(client.tools().await, ["a__t"]);
    let call = tokio::time::timeout(Duration::from_millis(100), client.call("a__t", json!({}))).await;
    assert!(call.is_err(), "a call waits for a server that is known to come back");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(client.tools().await, [] as [&str; 0]);
    assert_eq!(about(&gateway, "a").await["reason"], "connection refused");
    let waited = client.call("a__t", json!({})).await.unwrap();
    assert_eq!(waited["isError"], serde_json::Value::Null, "also for one whose tools have left the lists");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(client.tools().await, ["a__t"]);
    client.call("a__t", json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_five_failures_the_breaker_opens_and_a_minute_later_one_try_closes_it() {
    let double = Double::new(NEW, &["t"]);
    double.attempts.lock().extend((0..6).map(|_| Attempt::Fails));
    let gateway = gateway(&[("a", &double)]);
    let connects = || double.connects.load(std::sync::atomic::Ordering::SeqCst);
    // 1 + 2 + 4 + 8 s, a tenth more at most.
    tokio::time::sleep(Duration::from_secs(17)).await;
    assert_eq!(connects(), 5);
    let dead = about(&gateway, "a").await;
    assert_eq!((&dead["state"], &dead["failures"]), (&json!("dead"), &json!(5)), "{dead}");
    let client = Client::new(&gateway, NEW, "a");
    let refused = client.call("t", json!({})).await;
    assert!(refused.is_err() || refused.is_ok_and(|result| result["isError"] == true));
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(connects(), 5, "no attempt is made while the breaker is open");
    // Half open: one try, which fails, and another minute later one that does not.
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!((connects(), &about(&gateway, "a").await["state"]), (6, &json!("dead")));
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!((connects(), &about(&gateway, "a").await["state"]), (7, &json!("active")));
}

#[tokio::test(start_paused = true)]
async fn a_quick_restart_is_not_seen_in_the_lists() {
    let double = Double::new(NEW, &["t"]);
    let gateway = gateway(&[("a", &double)]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let listener = Client::new(&gateway, NEW, "");
    let listening = tokio::spawn(
        listener.send("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })),
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    double.say(LinkEvent::Closed("restarting".into()));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(listener.inbox.methods(), ["notifications/subscriptions/acknowledged"]);
    client.call("a__t", json!({})).await.unwrap();
    listening.abort();
}

#[tokio::test(start_paused = true)]
async fn stored_definitions_are_listed_at_once_on_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let double = Double::new(NEW, &["t"]);
    let state = |plan: &mut toolyard_core::Plan| plan.state_dir = Some(folder.path().to_owned());
    assert_eq!(Client::new(&start(&[("a", &double)], state), NEW, "").tools().await, ["a__t"]);
    let mut again = Double::new(NEW, &["t", "new"]);
    Arc::get_mut(&mut again).unwrap().fingerprint = double.fingerprint.clone();
    again.attempts.lock().push_back(Attempt::Hangs);
    let started = Instant::now();
    let gateway = start(&[("a", &again)], state);
    assert_eq!(Client::new(&gateway, NEW, "").tools().await, ["a__t"]);
    assert_eq!(Client::new(&gateway, NEW, "a").tools().await, ["t"]);
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn errors_of_callers_are_not_failures_of_the_upstream() {
    let error = raw(json!({ "code": -32602, "message": "no such argument" }));
    let refuses: Behaviour = Arc::new(move |_, _| {
        let error = error.clone();
        Box::pin(async { Err(CallError::reported(error)) })
    });
    let double = Double::with(NEW, &["t"], refuses);
    let gateway = gateway(&[("a", &double)]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    for _ in 0..1000 {
        client.call("a__t", json!({})).await.unwrap_err();
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let about = about(&gateway, "a").await;
    assert_eq!((&about["state"], &about["failures"]), (&json!("active"), &json!(0)), "{about}");
    assert_eq!(double.connects.load(Ordering::SeqCst), 1);
}

/// Ends the connection every time after it has been up for so long; how often it was made within `time`.
async fn starts_within(time: Duration, up: Duration) -> usize {
    let double = Double::new(NEW, &["t"]);
    let gateway = gateway(&[("a", &double)]);
    let began = Instant::now();
    let mut seen = 0;
    while began.elapsed() < time {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let connects = double.connects.load(Ordering::SeqCst);
        if connects > seen && about(&gateway, "a").await["state"] == "active" {
            seen = connects;
            tokio::time::sleep(up).await;
            double.say(LinkEvent::Closed("it exited with status 1".into()));
        }
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn one_that_crashes_soon_after_every_start_is_started_less_and_less() {
    let starts = starts_within(Duration::from_mins(2), Duration::from_secs(1)).await;
    assert!((5..=10).contains(&starts), "started {starts} times");
}

#[tokio::test(start_paused = true)]
async fn one_that_has_been_up_for_a_while_is_started_again_soon() {
    let starts = starts_within(Duration::from_mins(10), Duration::from_secs(30)).await;
    assert!((18..=20).contains(&starts), "started {starts} times");
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_ends_connects_nothing_again() {
    let (quick, slow) = (Double::new(NEW, &["t"]), Double::new(NEW, &["t"]));
    *slow.closing.lock() = Duration::from_secs(5);
    let gateway = gateway(&[("quick", &quick), ("slow", &slow)]);
    assert_eq!(Client::new(&gateway, NEW, "").tools().await, ["quick__t", "slow__t"]);
    gateway.end().await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!((quick.connects.load(Ordering::SeqCst), slow.connects.load(Ordering::SeqCst)), (1, 1));
}

/// A gateway over `all` doubles named `u0`, `u1`, …; every tenth cannot be reached. Gives when the first list
/// came and how many tools it had.
async fn first_list(folder: &std::path::Path, all: &[Arc<Double>], broken: bool) -> (Duration, usize) {
    for double in all.iter().step_by(10).filter(|_| broken) {
        double.attempts.lock().extend((0..1000).map(|_| Attempt::Hangs));
    }
    let ids: Vec<String> = (0..all.len()).map(|n| format!("u{n}")).collect();
    let named: Vec<(&str, &Arc<Double>)> = ids.iter().map(String::as_str).zip(all).collect();
    let started = Instant::now();
    let gateway = start(&named, |plan| plan.state_dir = Some(folder.to_owned()));
    let tools = Client::new(&gateway, NEW, "").tools().await.len();
    let elapsed = started.elapsed();
    // Definitions are written on other threads; what is listed is stored before the next start.
    let stored = || {
        std::fs::read_dir(folder.join("definitions")).map_or(0, |files| {
            files.flatten().filter(|file| file.path().extension().is_some_and(|kind| kind == "json")).count()
        })
    };
    while stored() < tools {
        tokio::task::spawn_blocking(std::thread::yield_now).await.unwrap();
    }
    (elapsed, tools)
}

#[tokio::test(start_paused = true)]
async fn two_hundred_upstreams_of_which_twenty_hang_list_as_fast_as_all_good_ones() {
    let all: Vec<Arc<Double>> = (0..200).map(|_| Double::new(NEW, &["t"])).collect();
    let folder = tempfile::tempdir().unwrap();
    let (never_seen, tools) = first_list(folder.path(), &all, true).await;
    assert!(never_seen < Duration::from_secs(5), "once, for all of them together: {never_seen:?}");
    assert_eq!(tools, 180);
    let folder = tempfile::tempdir().unwrap();
    for double in &all {
        double.attempts.lock().clear();
    }
    let (_, stored) = first_list(folder.path(), &all, false).await;
    let (seen, tools) = first_list(folder.path(), &all, true).await;
    assert_eq!((stored, seen, tools), (200, Duration::ZERO, 200));
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_turns_a_call_away_stays_connected_for_the_others() {
    let busy: Behaviour = Arc::new(|_, _| {
        Box::pin(async { Err(CallError::turned_away(toolyard_proto::Retry::Always, "HTTP 429: slow down")) })
    });
    let double = Double::with(NEW, &["t"], busy);
    let gateway = gateway(&[("a", &double)]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let result = client.call("a__t", json!({})).await.unwrap();
    assert_eq!(result["_meta"]["dev.toolyard/error"]["kind"], "turned-away");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(double.connects.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_at_an_upstream_that_does_not_answer_is_refused_in_time() {
    let silent: Behaviour = Arc::new(|_, _| Box::pin(std::future::pending()));
    let double = Double::with(Revision::NEWEST_LEGACY, &[], silent);
    double.resources.lock().push(json!({ "uri": "test://r", "name": "r" }));
    let client = Client::new(&gateway(&[("a", &double)]), NEW, "a");
    client.names("resources/list", "resources", "uri").await;
    let started = Instant::now();
    let filter = json!({ "notifications": { "resourceSubscriptions": ["test://r"] } });
    let refused = client.ask("subscriptions/listen", filter).await.unwrap_err();
    assert_eq!((refused.label(), started.elapsed()), ("timeout", Duration::from_secs(10)));
}

#[tokio::test(start_paused = true)]
async fn one_request_may_watch_so_many_resources_and_no_more() {
    let double = Double::new(NEW, &[]);
    let client = Client::new(&gateway(&[("a", &double)]), NEW, "a");
    let uris: Vec<String> = (0..=1_000).map(|n| format!("test://{n}")).collect();
    let filter = json!({ "notifications": { "resourceSubscriptions": uris } });
    let refused = client.ask("subscriptions/listen", filter).await.unwrap_err();
    assert!(refused.message().contains("at most 1000 resources"), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_right_after_the_start_waits_for_its_tool() {
    let double = Double::new(NEW, &["t"]);
    let gateway = gateway(&[("a", &double)]);
    Client::new(&gateway, NEW, "").call("a__t", json!({})).await.unwrap();
    let started = Instant::now();
    let unknown = Client::new(&gateway, NEW, "").call("a__x", json!({})).await.unwrap_err();
    assert_eq!(
        (unknown.code(), started.elapsed()),
        (-32602, Duration::from_millis(500)),
        "its lists are read once more, as it announces no changes"
    );
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_cannot_announce_changes_is_asked_now_and_then() {
    for silent in [true, false] {
        let double = Double::new(Revision::V2025_11_25, &["t"]);
        double.silent.store(silent, Ordering::SeqCst);
        let gateway = gateway(&[("a", &double)]);
        let client = Client::new(&gateway, NEW, "");
        assert_eq!(client.tools().await, ["a__t"]);
        let new = json!({ "name": "new", "inputSchema": { "type": "object" } });
        double.tools.lock().push(new);
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert_eq!(client.tools().await, ["a__t"]);
        tokio::time::sleep(Duration::from_secs(50)).await;
        let expected: &[&str] = if silent { &["a__t", "a__new"] } else { &["a__t"] };
        assert_eq!(client.tools().await, expected, "silent: {silent}");
    }
}
