//! What counts against an upstream and what does not: a network that is down, an invalid answer,
//! an earlier connection, a client that has disconnected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio::sync::Notify;
use toolyard_core::{Gateway, WallClock};
use toolyard_model::{ClientKey, Handler as _};
use toolyard_proto::{CallError, Revision};

use crate::health::{health, is_ping, pinged, pings, seconds, silenceable, state};
use crate::support::{Behaviour, Client, Double, echo, start};

const NEW: Revision = Revision::NEWEST;

/// An upstream whose pings fail in this way while the flag is set.
fn failing(error: impl Fn() -> CallError + Send + Sync + 'static) -> (Arc<Double>, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(false));
    let (own, echo) = (fails.clone(), echo());
    let behaviour: Behaviour = Arc::new(move |request, peer| {
        if is_ping(&request.method) && own.load(Ordering::SeqCst) {
            let error = error();
            return Box::pin(async { Err(error) });
        }
        echo(request, peer)
    });
    (Double::with(NEW, &["t"], behaviour), fails)
}

fn connects(double: &Double) -> usize {
    double.connects.load(Ordering::SeqCst)
}

/// A gateway whose machine sleeps for three minutes when the function is called.
fn asleep(double: &Arc<Double>) -> (Gateway, impl Fn()) {
    let jumped = Arc::new(AtomicU64::new(0));
    let (began, jump) = (tokio::time::Instant::now(), jumped.clone());
    let wall =
        move || SystemTime::UNIX_EPOCH + began.elapsed() + Duration::from_secs(jump.load(Ordering::SeqCst));
    let gateway = start(&[("a", double)], |plan| plan.wall = WallClock::new(wall));
    (gateway, move || jumped.store(180, Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn a_server_that_no_network_leads_to_after_sleep_is_asked_again_and_not_let_go() {
    let (double, away) = failing(|| CallError::unreachable("network is unreachable"));
    let (gateway, sleep) = asleep(&double);
    seconds(12).await;
    away.store(true, Ordering::SeqCst);
    sleep();
    // Looked at within 5 s: one miss means nothing yet.
    seconds(6).await;
    assert_eq!((state(&gateway).0, health(&gateway).misses, connects(&double)), ("active", 1, 1));
    seconds(25).await;
    let (phase, reason) = state(&gateway);
    assert_eq!((phase, reason.as_deref()), ("retrying", Some("network is unreachable")));
    away.store(false, Ordering::SeqCst);
    seconds(11).await;
    assert_eq!((state(&gateway).0, connects(&double)), ("active", 1), "on the link that it had");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_connections_after_sleep_is_reconnected() {
    let (double, shut) = failing(|| CallError::unavailable("connection refused"));
    let (gateway, sleep) = asleep(&double);
    seconds(12).await;
    shut.store(true, Ordering::SeqCst);
    sleep();
    seconds(7).await;
    assert_eq!((state(&gateway).0, connects(&double)), ("active", 2));
}

#[tokio::test(start_paused = true)]
async fn a_network_that_stays_away_ends_the_link_after_twice_the_misses() {
    let (double, away) = failing(|| CallError::unreachable("no such host"));
    let gateway = start(&[("a", &double)], pinged);
    seconds(15).await;
    away.store(true, Ordering::SeqCst);
    seconds(40).await;
    assert_eq!((state(&gateway).0, connects(&double)), ("retrying", 1));
    seconds(30).await;
    assert_eq!(connects(&double), 2);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_the_protocol_is_an_answer() {
    let (double, breaks) = failing(|| CallError::bad_answer("that is not JSON"));
    breaks.store(true, Ordering::SeqCst);
    let gateway = start(&[("a", &double)], pinged);
    seconds(65).await;
    let known = health(&gateway);
    assert_eq!((known.answers, known.missed, state(&gateway).0), (6, 0, "active"));
    assert_eq!(connects(&double), 1);
}

#[tokio::test(start_paused = true)]
async fn misses_of_an_earlier_connection_do_not_count_for_the_next() {
    let (double, silence) = silenceable(NEW);
    let gateway = start(&[("a", &double)], pinged);
    seconds(12).await;
    silence.pings.store(true, Ordering::SeqCst);
    seconds(25).await;
    assert_eq!((state(&gateway).0, health(&gateway).misses), ("active", 2));
    double.hang_up("it was restarted");
    seconds(3).await;
    let known = health(&gateway);
    assert_eq!((state(&gateway).0, known.misses, known.last_error), ("active", 0, None));
    seconds(25).await;
    assert_eq!((state(&gateway).0, health(&gateway).misses), ("active", 2), "they are counted from zero");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_lost_with_its_connection_casts_no_doubt_on_the_next() {
    let (gate, echo) = (Arc::new(Notify::new()), echo());
    let own = gate.clone();
    let behaviour: Behaviour = Arc::new(move |request, peer| {
        let gate = own.clone();
        match request.params.member("name").and_then(|name| name.as_string()).as_deref() {
            Some("held") => Box::pin(async move {
                gate.notified().await;
                Err(CallError::lost("its connection is gone"))
            }),
            _ => echo(request, peer),
        }
    });
    let double = Double::with(NEW, &["held"], behaviour);
    let gateway = start(&[("a", &double)], |_| {});
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let call = tokio::spawn(client.send("tools/call", json!({ "name": "a__held", "arguments": {} })));
    seconds(1).await;
    double.hang_up("it was restarted");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(state(&gateway).0, "retrying");
    gate.notify_one();
    call.await.unwrap().unwrap();
    seconds(10).await;
    assert_eq!((state(&gateway).0, connects(&double), pings(&double)), ("active", 2, 0));
}

/// Whether the calls of a client are counted.
async fn is_counted(gateway: &Gateway, client: &Client) -> bool {
    let ClientKey::Connection(number) = client.key() else { panic!("a connection") };
    let report = crate::api::get(gateway, "/report").await;
    let clients = report["clients"].as_array().unwrap();
    clients.iter().any(|one| one["client"] == format!("connection-{number}"))
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_after_its_client_has_left_does_not_bring_the_client_back() {
    let (double, silence) = silenceable(NEW);
    let gateway = start(&[("a", &double)], |_| {});
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    silence.everything.store(true, Ordering::SeqCst);
    let call = tokio::spawn(client.send("tools/call", json!({ "name": "a__t", "arguments": {} })));
    seconds(1).await;
    assert!(is_counted(&gateway, &client).await);
    gateway.ended(client.key());
    assert!(!is_counted(&gateway, &client).await);
    // It times out.
    seconds(60).await;
    call.await.unwrap().unwrap();
    assert!(!is_counted(&gateway, &client).await);
}
