//! Starting and stopping processes: how many at a time, when, and what calls do meanwhile.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolyard_core::upstream::state::Phase;
use toolyard_core::{Connect, Connected, Gateway, Plan, UpstreamPlan};
use toolyard_model::{BoxFuture, Scope};
use toolyard_proto::{Reason, Revision};

use crate::support::{Attempt, Client, Double, plan};

const NEW: Revision = Revision::NEWEST;

/// A double that takes its time to start, as a process does.
#[derive(Clone)]
struct Process {
    inner: Arc<dyn Connect>,
    takes: Duration,
    /// How many processes start now, and how many did at most.
    starting: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("process")
    }
}

impl Connect for Process {
    fn connect(&self, known: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        let this = self.clone();
        Box::pin(async move {
            let now = this.starting.fetch_add(1, Ordering::SeqCst) + 1;
            this.most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(this.takes).await;
            this.starting.fetch_sub(1, Ordering::SeqCst);
            this.inner.connect(known).await
        })
    }

    fn starts_process(&self) -> bool {
        true
    }
}

/// The plan of a double that starts as a process.
fn process(id: &str, double: &Arc<Double>, takes: u64) -> UpstreamPlan {
    let mut plan = plan(&[(id, double)]).upstreams.remove(0);
    let inner = plan.connect.clone();
    let (starting, most) = (Arc::default(), Arc::default());
    plan.connect = Arc::new(Process { inner, takes: Duration::from_secs(takes), starting, most });
    plan
}

fn start(upstreams: Vec<UpstreamPlan>, adjust: impl FnOnce(&mut Plan)) -> Gateway {
    let mut plan = Plan { upstreams, ..Plan::default() };
    adjust(&mut plan);
    Gateway::start(plan, &Scope::new())
}

fn phase(gateway: &Gateway, id: &str) -> Phase {
    gateway.upstreams().iter().find(|one| one.id().as_str() == id).unwrap().state().phase
}

#[tokio::test(start_paused = true)]
async fn many_slow_processes_start_a_few_at_a_time_and_each_once() {
    let doubles: Vec<Arc<Double>> = (0..37).map(|_| Double::new(NEW, &["t"])).collect();
    let (starting, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let upstreams = doubles.iter().enumerate().map(|(at, double)| {
        let mut plan = plan(&[(&format!("s{at}"), double)]).upstreams.remove(0);
        let (inner, takes) = (plan.connect.clone(), Duration::from_secs(12));
        plan.connect = Arc::new(Process { inner, takes, starting: starting.clone(), most: most.clone() });
        plan
    });
    let begun = Instant::now();
    let gateway = start(upstreams.collect(), |plan| plan.pace.starts_at_once = 4);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let states: Vec<_> = gateway.upstreams().iter().map(|upstream| upstream.state()).collect();
    assert_eq!(states.iter().filter(|state| state.phase == Phase::Starting).count(), 4);
    let waiting = states.iter().filter(|state| state.phase == Phase::Discovered);
    let reasons: Vec<String> =
        waiting.filter_map(|state| state.reason.as_ref().map(ToString::to_string)).collect();
    assert_eq!(reasons.len(), 33);
    assert_eq!(reasons[0], "it waits for its turn to start");
    let client = Client::new(&gateway, NEW, "");
    while client.tools().await.len() < 37 {
        assert!(begun.elapsed() < Duration::from_mins(3), "{:?}", client.tools().await.len());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(most.load(Ordering::SeqCst), 4);
    assert!(doubles.iter().all(|double| double.connects.load(Ordering::SeqCst) == 1));
}

/// The kind of a failed call, and its text.
fn failure(answer: &Value) -> (String, String) {
    let kind = answer["_meta"]["dev.toolyard/error"]["kind"].as_str().unwrap_or("none").to_owned();
    (kind, answer["content"][0]["text"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_server_that_is_known_to_come_back() {
    let double = Double::new(NEW, &["t"]);
    let gateway = start(vec![process("a", &double, 3)], |_| {});
    let client = Client::new(&gateway, NEW, "");
    tokio::time::sleep(Duration::from_secs(5)).await;
    client.call("a__t", json!({})).await.unwrap();
    for _ in 0..5 {
        double.hang_up("killed");
        tokio::time::sleep(Duration::from_millis(10)).await;
        let answer = client.call("a__t", json!({})).await.unwrap();
        assert_eq!(failure(&answer).0, "none", "{answer}");
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    // A server that does not come up any more is not waited for without end.
    double.attempts.lock().extend((0..20).map(|_| Attempt::Fails));
    double.hang_up("killed");
    tokio::time::sleep(Duration::from_mins(2)).await;
    let begun = Instant::now();
    let answer = client.call("a__t", json!({})).await.unwrap();
    assert_eq!(failure(&answer).0, "unavailable", "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(31), "{:?}", begun.elapsed());
}

/// Killed every 2.3 s, as in a trial of three minutes with 79 kills: it is never up for long.
#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_server_that_is_killed_again_and_again_soon_after_its_start() {
    let double = Double::new(NEW, &["t"]);
    let gateway = start(vec![process("a", &double, 0)], |_| {});
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    for kill in 0..79 {
        double.hang_up("killed");
        tokio::time::sleep(Duration::from_millis(10)).await;
        let begun = Instant::now();
        let answer = client.call("a__t", json!({})).await.unwrap();
        assert_eq!(failure(&answer).0, "none", "kill {kill}: {answer}");
        assert!(begun.elapsed() < Duration::from_secs(2), "kill {kill}: {:?}", begun.elapsed());
        tokio::time::sleep(Duration::from_millis(800)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lists_its_tools_and_crashes_is_started_less_and_less_but_calls_wait_for_it() {
    let double = Double::new(NEW, &["t"]);
    let gateway = start(vec![process("a", &double, 0)], |_| {});
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    for crash in 0..5 {
        while phase(&gateway, "a") != Phase::Active {
            assert_ne!(phase(&gateway, "a"), Phase::Dead, "crash {crash}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        double.hang_up("it exited with status 1");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // After five crashes, the wait is 16 s, spread by half.
    let begun = Instant::now();
    let answer = client.call("a__t", json!({})).await.unwrap();
    assert_eq!(failure(&answer).0, "none", "{answer}");
    let waited = begun.elapsed();
    assert!((Duration::from_secs(7)..Duration::from_secs(25)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_time_is_over_names_what_it_waited_for() {
    let double = Double::new(NEW, &["t"]);
    let folder = tempfile::tempdir().unwrap();
    let first = start(vec![process("a", &double, 1)], |plan| plan.state_dir = Some(folder.path().into()));
    Client::new(&first, NEW, "").tools().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    first.end().await;
    let gateway = start(vec![process("a", &double, 80)], |plan| plan.state_dir = Some(folder.path().into()));
    let answer = Client::new(&gateway, NEW, "").call("a__t", json!({})).await.unwrap();
    let (kind, text) = failure(&answer);
    assert_eq!(kind, "unavailable", "{answer}");
    assert!(text.contains("has been starting for"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_lazy_server_with_stored_definitions_is_started_by_its_first_call_and_stopped_when_idle() {
    let double = Double::new(NEW, &["t"]);
    let folder = tempfile::tempdir().unwrap();
    let begin = || {
        let mut upstream = process("a", &double, 2);
        upstream.policy.start.lazy = true;
        upstream.policy.start.stop_when_idle = Some(Duration::ZERO);
        start(vec![upstream], |plan| plan.state_dir = Some(folder.path().into()))
    };
    let first = begin();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(double.connects.load(Ordering::SeqCst), 1, "without definitions it is started at once");
    first.end().await;
    let gateway = begin();
    let client = Client::new(&gateway, NEW, "");
    assert_eq!(client.tools().await, ["a__t"]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!((phase(&gateway, "a"), double.connects.load(Ordering::SeqCst)), (Phase::Idle, 1));
    client.call("a__t", json!({})).await.unwrap();
    assert_eq!(double.connects.load(Ordering::SeqCst), 2);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(phase(&gateway, "a"), Phase::Idle);
    assert_eq!(client.tools().await, ["a__t"]);
    client.call("a__t", json!({})).await.unwrap();
    assert_eq!(double.connects.load(Ordering::SeqCst), 3);
}
