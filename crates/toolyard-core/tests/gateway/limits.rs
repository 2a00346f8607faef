//! Limits on calls: how many run at once, which wait, and what a client learns of it; and deadlines set by a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use toolyard_core::{CallRules, LimitPlan, Per, ToolRule, ToolSettings};
use toolyard_limits::{Limit, Window};
use toolyard_model::AnswerBody;
use toolyard_proto::Revision;

use crate::support::{Behaviour, Client, Double, plan, raw, start};

const NEW: Revision = Revision::NEWEST;

/// How many calls run, how many ran at once at most, and when each began.
#[derive(Default)]
struct Load {
    running: AtomicUsize,
    most: AtomicUsize,
    starts: parking_lot::Mutex<Vec<Instant>>,
}

fn busy(load: &Arc<Load>, takes: Duration) -> Behaviour {
    let load = load.clone();
    Arc::new(move |_, _| {
        let load = load.clone();
        Box::pin(async move {
            load.starts.lock().push(Instant::now());
            let running = load.running.fetch_add(1, Ordering::SeqCst) + 1;
            load.most.fetch_max(running, Ordering::SeqCst);
            sleep(takes).await;
            load.running.fetch_sub(1, Ordering::SeqCst);
            Ok(AnswerBody::ours(raw(json!({ "content": [] }))))
        })
    })
}

fn rules(per: Per, limit: Limit, pattern: &str) -> CallRules {
    let name: Arc<str> = "few".into();
    let settings = ToolSettings { limits: Some(vec!["few".to_owned()]), ..ToolSettings::default() };
    CallRules {
        tools: vec![ToolRule { pattern: pattern.into(), settings, ..ToolRule::default() }],
        limits: vec![LimitPlan { name, per, limit }],
        ..CallRules::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_calls_never_exceed_ten_at_once_nor_thirty_in_any_minute() {
    let load = Arc::new(Load::default());
    let double = Double::with(NEW, &["t"], busy(&load, Duration::from_secs(2)));
    let window = Some(Window { count: 30, per: Duration::from_mins(1) });
    let limit = Limit { window, max_wait: Duration::from_mins(10), ..Limit::concurrent(10) };
    let gateway = start(&[("a", &double)], |plan| {
        plan.calls = rules(Per::Group, limit, "a:*");
        plan.upstreams[0].policy.timeouts.hard = Duration::from_mins(20);
    });
    let clients: Vec<Client> = (0..4).map(|_| Client::new(&gateway, NEW, "")).collect();
    clients[0].tools().await;
    let calls = (0..100).map(|n| clients[n % 4].call("a__t", json!({})));
    let answers = join_all(calls).await;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().get("isError").is_none()));
    assert_eq!(load.most.load(Ordering::SeqCst), 10);
    let starts = load.starts.lock();
    assert_eq!(starts.len(), 100);
    for start in starts.iter() {
        let within = starts.iter().filter(|at| **at >= *start && **at - *start < Duration::from_mins(1));
        assert!(within.count() <= 30);
    }
    assert_eq!((starts[99] - starts[0]).as_secs(), 180, "the last ten start in the fourth minute");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_names_the_limit_and_when_to_try_again() {
    let load = Arc::new(Load::default());
    let double = Double::with(NEW, &["t", "free"], busy(&load, Duration::from_secs(5)));
    let limit = Limit { queue: 0, ..Limit::concurrent(1) };
    let gateway = start(&[("a", &double)], |plan| plan.calls = rules(Per::Group, limit, "a:t"));
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let calls = ["a__t", "a__t", "a__free"].map(|name| client.call(name, json!({})));
    let answers: Vec<Value> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
    let error = &answers[1]["_meta"]["dev.toolyard/error"];
    assert_eq!((&error["kind"], &error["retry"]), (&json!("limit"), &json!("always")));
    assert_eq!(error["retryAfterMs"], json!(100));
    let text = answers[1]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("limit `few` refused a call of a:t: too many calls are waiting"), "{text}");
    assert!(answers[0].get("isError").is_none() && answers[2].get("isError").is_none());
}

#[tokio::test(start_paused = true)]
async fn clients_take_turns_and_a_waiting_call_reports_its_place() {
    let load = Arc::new(Load::default());
    let double = Double::with(NEW, &["t"], busy(&load, Duration::from_secs(40)));
    let gateway = start(&[("a", &double)], |plan| {
        plan.calls =
            rules(Per::Upstream, Limit { max_wait: Duration::from_mins(3), ..Limit::concurrent(1) }, "*");
        plan.upstreams[0].policy.timeouts.idle = Duration::from_mins(1);
        plan.upstreams[0].policy.timeouts.hard = Duration::from_mins(9);
    });
    let (greedy, modest) = (Client::new(&gateway, NEW, ""), Client::new(&gateway, NEW, ""));
    greedy.tools().await;
    let ask = async |client: &Client, token: &str| {
        let meta = json!({ "progressToken": token });
        let params = json!({ "name": "a__t", "arguments": {}, "_meta": meta });
        let answer = client.ask("tools/call", params).await.unwrap();
        assert!(answer.get("isError").is_none(), "{answer}");
        Instant::now()
    };
    let (first, second, third, other) =
        tokio::join!(ask(&greedy, "one"), ask(&greedy, "two"), ask(&greedy, "three"), ask(&modest, "other"),);
    assert!(first < second && second < other && other < third, "clients take turns");
    let received = greedy.inbox.received.lock();
    let of = |token: &str| -> Vec<Value> {
        let params = received.iter().map(|one| one.params.as_ref().unwrap().read::<Value>().unwrap());
        params.filter(|params| params["progressToken"] == token).collect()
    };
    assert!(of("one").is_empty());
    let places = of("three");
    assert_eq!(places[0]["message"], "waiting for a limit; 1 call is ahead");
    assert_eq!(places[1]["message"], "waiting for a limit; 2 calls are ahead", "another client came first");
    let progress: Vec<f64> = places.iter().map(|params| params["progress"].as_f64().unwrap()).collect();
    assert!(progress.is_sorted_by(|a, b| a < b) && progress.iter().all(|progress| *progress < 0.0));
}

/// Two limits that let one call run at a time, for `a:t` in this order and for `a:u` in the other.
fn two_limits() -> CallRules {
    let limit = Limit { max_wait: Duration::from_mins(3), ..Limit::concurrent(1) };
    let plan = |name: &str| LimitPlan { name: name.into(), per: Per::Group, limit: limit.clone() };
    let rule = |pattern: &str, limits: [&str; 2]| {
        let limits = Some(limits.map(str::to_owned).to_vec());
        let settings = ToolSettings { limits, ..ToolSettings::default() };
        ToolRule { pattern: pattern.into(), settings, ..ToolRule::default() }
    };
    CallRules {
        tools: vec![rule("a:t", ["one", "two"]), rule("a:u", ["two", "one"])],
        limits: vec![plan("one"), plan("two")],
        ..CallRules::default()
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_two_tools_with_the_same_limits_in_different_orders_do_not_block_each_other() {
    let load = Arc::new(Load::default());
    let double = Double::with(NEW, &["t", "u"], busy(&load, Duration::from_secs(1)));
    let gateway = start(&[("a", &double)], |plan| plan.calls = two_limits());
    let clients: Vec<Client> = (0..4).map(|_| Client::new(&gateway, NEW, "")).collect();
    clients[0].tools().await;
    let begun = Instant::now();
    let calls = (0..12).map(|n| clients[n % 4].call(if n % 2 == 0 { "a__t" } else { "a__u" }, json!({})));
    let answers = join_all(calls).await;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().get("isError").is_none()), "{answers:?}");
    assert_eq!((load.most.load(Ordering::SeqCst), begun.elapsed().as_secs()), (1, 12));
}

#[tokio::test(start_paused = true)]
async fn progress_rises_while_a_call_waits_for_one_limit_after_the_other() {
    let load = Arc::new(Load::default());
    let double = Double::with(NEW, &["t", "u"], busy(&load, Duration::from_secs(5)));
    let mut calls = two_limits();
    // `a:u` has the second limit only, so `a:t` waits for the first and then for the second.
    calls.tools[1].settings.limits = Some(vec!["two".to_owned()]);
    let gateway = start(&[("a", &double)], |plan| plan.calls = calls);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let waiting = async {
        sleep(Duration::from_secs(1)).await;
        let meta = json!({ "progressToken": "p" });
        client.ask("tools/call", json!({ "name": "a__t", "arguments": {}, "_meta": meta })).await.unwrap()
    };
    let others = ["a__t", "a__u", "a__u", "a__u"].map(|name| client.call(name, json!({})));
    let (answer, _) = tokio::join!(waiting, join_all(others));
    assert!(answer.get("isError").is_none(), "{answer}");
    let received = client.inbox.received.lock();
    let progress = received.iter().map(|one| one.params.as_ref().unwrap().read::<Value>().unwrap());
    let progress: Vec<f64> = progress.map(|params| params["progress"].as_f64().unwrap()).collect();
    let restarts = progress.iter().filter(|progress| **progress <= -1.0).count();
    assert!(progress.is_sorted_by(|a, b| a < b) && restarts == 1 && progress.len() > 5, "{progress:?}");
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_credential_take_turns_by_the_program_that_sends_them() {
    let load = Arc::new(Load::default());
    let double = Double::with(NEW, &["t"], busy(&load, Duration::from_secs(1)));
    let gateway = start(&[("a", &double)], |plan| {
        plan.calls = rules(Per::Group, Limit { queue: 20, ..Limit::concurrent(1) }, "a:*");
    });
    Client::alone(&gateway, "").tools().await;
    let ask = async |name: Option<&str>| {
        // Each request is on its own, as those of a client with a connection for each call are.
        let client = name.map_or_else(|| Client::alone(&gateway, ""), |name| Client::stating(&gateway, name));
        let answer = client.call("a__t", json!({})).await.unwrap();
        (answer.get("isError").is_none(), Instant::now())
    };
    let greedy = join_all((0..21).map(|_| ask(Some("greedy"))));
    let (greedy, modest, unnamed) =
        tokio::join!(greedy, join_all([ask(Some("modest"))]), join_all([ask(None), ask(None)]));
    let begun = greedy[0].1;
    assert_eq!((modest[0].1 - begun).as_secs(), 2, "after one more call of the greedy program");
    assert_eq!((unnamed[0].1 - begun).as_secs(), 3);
    assert_eq!((unnamed[1].1 - begun).as_secs(), 5, "those that state nothing take turns as one client");
    let refused = greedy.iter().filter(|(is_answered, _)| !is_answered).count();
    assert_eq!(refused, 3, "the full queue makes room for the others");
    assert!([&modest[..], &unnamed[..]].concat().iter().all(|(is_answered, _)| *is_answered));
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_a_reload_does_not_change_goes_on_counting() {
    let load = Arc::new(Load::default());
    let double = Double::with(NEW, &["t", "u"], busy(&load, Duration::from_secs(5)));
    let calls = rules(Per::Group, Limit { queue: 0, ..Limit::concurrent(1) }, "a:*");
    let gateway = start(&[("a", &double)], |plan| plan.calls = calls.clone());
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let mut other = plan(&[("a", &double)]);
    other.calls = calls;
    other.calls.tools[0].settings.timeout = Some(Duration::from_secs(9));
    let reloaded = async {
        sleep(Duration::from_secs(1)).await;
        gateway.reload(other);
        client.call("a__u", json!({})).await.unwrap()
    };
    let (first, second) = tokio::join!(client.call("a__t", json!({})), reloaded);
    assert!(first.unwrap().get("isError").is_none(), "a call under way is not affected");
    assert_eq!(second["_meta"]["dev.toolyard/error"]["kind"], "limit");
}

#[tokio::test(start_paused = true)]
async fn principals_and_models_have_limits_of_their_own() {
    for per in [Per::Principal, Per::Model] {
        let load = Arc::new(Load::default());
        let double = Double::with(NEW, &["t"], busy(&load, Duration::from_secs(1)));
        let limit = Limit { queue: 0, ..Limit::concurrent(1) };
        let gateway = start(&[("a", &double)], |plan| plan.calls = rules(per, limit, "*"));
        let ann = Client::named(&gateway, NEW, "", "ann");
        let bob = Client::named(&gateway, NEW, "", "bob");
        ann.tools().await;
        let calls = [(&ann, "big"), (&bob, "small"), (&bob, "small")];
        let calls = calls.map(|(client, model)| client.call("a__t", json!({ "model": model })));
        let refused =
            join_all(calls).await.into_iter().map(|answer| answer.unwrap().get("isError").is_some());
        assert_eq!(refused.collect::<Vec<_>>(), [false, false, true], "{per:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn tools_have_limits_of_their_own() {
    let load = Arc::new(Load::default());
    let double = Double::with(NEW, &["t", "u"], busy(&load, Duration::from_secs(1)));
    let limit = Limit { queue: 0, ..Limit::concurrent(1) };
    let gateway = start(&[("a", &double), ("b", &double)], |plan| plan.calls = rules(Per::Tool, limit, "*"));
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let calls = ["a__t", "a__u", "b__t", "a__t", "b__t"].map(|tool| client.call(tool, json!({})));
    let refused = join_all(calls).await.into_iter().map(|answer| answer.unwrap().get("isError").is_some());
    assert_eq!(refused.collect::<Vec<_>>(), [false, false, false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn a_call_may_shorten_its_deadline_but_not_lengthen_it() {
    let silent: Behaviour = Arc::new(|_, _| Box::pin(std::future::pending()));
    let double = Double::with(NEW, &["t"], silent);
    let gateway = start(&[("a", &double)], |_| {});
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    for (wanted, expected) in [(json!(1500), 1500), (json!(90_000), 30_000), (json!("soon"), 30_000)] {
        let started = Instant::now();
        let meta = json!({ "dev.toolyard/timeoutMs": wanted });
        let params = json!({ "name": "a__t", "arguments": {}, "_meta": meta });
        let answer = client.ask("tools/call", params).await.unwrap();
        assert_eq!(answer["_meta"]["dev.toolyard/error"]["kind"], "timeout");
        assert_eq!(started.elapsed().as_millis(), expected);
    }
}
