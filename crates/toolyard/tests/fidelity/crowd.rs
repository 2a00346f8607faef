//! A thousand calls at once, by clients of both eras, to three upstreams that answer in another order than
//! they were asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;
use tokio::task::JoinSet;

use super::fixture::{fixture_child, serve_fixture};
use super::gateway::{Gateway, Reach};
use super::wire::{Client, Era, Exchange, Request};

const CALLS: u64 = 1_000;
const UPSTREAMS: [&str; 3] = ["new", "old", "child"];
/// Long enough for all calls to be on their way before the first is answered.
const FIRST_ANSWER_MS: u64 = 5_000;
/// The answers come within this time, mixed.
const SPREAD_MS: u64 = 1_000;
/// Each call holds a connection here, and one or two in the gateway.
const OPEN_FILES: u64 = 8_192;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_at_once_get_each_its_own_answer() {
    allow_open_files();
    let (_new, new) = serve_fixture("modern");
    let (_old, old) = serve_fixture("legacy");
    let reaches = [new, old, fixture_child("both")];
    let upstreams: Vec<_> = UPSTREAMS.into_iter().zip(reaches).map(|(id, reach)| (id, reach, "")).collect();
    let gateway = Gateway::before(&upstreams);
    let everything = Reach::Url(gateway.everything());
    let (mut modern, _) = Client::open(&everything, Era::Modern).await;
    let (legacy, _) = Client::open(&everything, Era::Legacy).await;
    modern.exchange(&Request::new("first", "tools/list", json!({}))).await;
    let crowd = Arc::new(Crowd::default());
    let mut calls = JoinSet::new();
    for number in 0..CALLS {
        // Modern requests may all have the same id, those of a session may not.
        let client = if number % 2 == 0 { modern.beside(0) } else { legacy.beside(number * 10) };
        calls.spawn(crowd.clone().call(client, number));
    }
    let answered: Vec<(u64, Exchange)> = calls.join_all().await;
    for (number, exchange) in &answered {
        check(*number, exchange);
    }
    let order: Vec<u64> = answered.iter().map(|(number, _)| *number).collect();
    assert!(!order.is_sorted(), "nothing was mixed up, so nothing is shown");
    assert_eq!(crowd.most.load(Ordering::SeqCst), usize::try_from(CALLS).unwrap(), "they were not at once");
}

/// How many calls are under way, and how many were at most.
#[derive(Default)]
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Crowd {
    async fn call(self: Arc<Self>, mut client: Client, number: u64) -> (u64, Exchange) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let exchange = client.exchange(&request(number)).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        (number, exchange)
    }
}

fn request(number: u64) -> Request {
    let upstream = UPSTREAMS[usize::try_from(number).unwrap() % UPSTREAMS.len()];
    let delay = FIRST_ANSWER_MS + number * 7_919 % SPREAD_MS;
    let arguments = json!({ "text": text(number), "delayMs": delay });
    let params = json!({ "name": format!("{upstream}__test_echo"), "arguments": arguments });
    Request::new(text(number), "tools/call", params)
}

fn text(number: u64) -> String {
    format!("call number {number}")
}

/// The id was checked when the answer arrived.
fn check(number: u64, exchange: &Exchange) {
    assert_eq!(exchange.result()["content"], json!([{ "type": "text", "text": text(number) }]));
    assert!(exchange.notifications.is_empty() && exchange.asked.is_empty(), "{number}: {exchange:?}");
}

/// Inherited by programs that are started from here.
fn allow_open_files() {
    let (now, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if now < OPEN_FILES {
        setrlimit(Resource::RLIMIT_NOFILE, OPEN_FILES.min(most), most).unwrap();
    }
}
