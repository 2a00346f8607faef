//! Runs the workers, or waits for an endpoint to become ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::args::Plan;
use crate::client::Client;
use crate::tally::Tally;

/// Between two attempts to reach an endpoint that is not there yet.
const READY_PAUSE: Duration = Duration::from_millis(2);
/// After an error, so that a server that refuses everything is not flooded.
const ERROR_PAUSE: Duration = Duration::from_millis(10);

pub(crate) struct Report {
    pub(crate) json: Value,
    pub(crate) succeeded: bool,
}

pub(crate) async fn run(plan: Arc<Plan>) -> Report {
    match plan.ready {
        Some(limit) => wait_until_ready(&plan, limit).await,
        None => measure(plan).await,
    }
}

async fn wait_until_ready(plan: &Plan, limit: Duration) -> Report {
    let begin = Instant::now();
    let mut last_error = String::new();
    while begin.elapsed() < limit {
        let mut client = Client::new(plan, 0);
        let attempt = timeout(plan.timeout.min(limit), async {
            client.start().await?;
            client.operate().await
        });
        match attempt.await {
            Ok(Ok(())) => {
                let ready_ms = begin.elapsed().as_secs_f64() * 1000.0;
                client.stop().await;
                return Report {
                    json: json!({ "label": plan.label, "ready_ms": ready_ms }),
                    succeeded: true,
                };
            }
            Ok(Err(error)) => last_error = error,
            Err(_) => "timeout".clone_into(&mut last_error),
        }
        sleep(READY_PAUSE).await;
    }
    Report { json: json!({ "label": plan.label, "ready_ms": null, "error": last_error }), succeeded: false }
}

async fn measure(plan: Arc<Plan>) -> Report {
    let begin = Instant::now() + plan.warmup;
    let budget = Arc::new(Budget { left: plan.requests.map(|requests| AtomicU64::new(requests.get())) });
    let mut workers = JoinSet::new();
    for number in 0..plan.workers as u64 {
        let (plan, budget) = (plan.clone(), budget.clone());
        workers.spawn(async move { work(&plan, &budget, (number + 1) << 32, begin).await });
    }
    let mut tally = Tally::default();
    while let Some(worker) = workers.join_next().await {
        match worker {
            Ok(of_worker) => tally.add(of_worker),
            Err(error) => tally.error(&format!("a worker failed: {error}")),
        }
    }
    let succeeded = tally.is_good();
    Report { json: tally.json(&plan, begin), succeeded }
}

async fn work(plan: &Plan, budget: &Budget, first_id: u64, begin: Instant) -> Tally {
    let end = begin + plan.duration;
    let mut tally = Tally::default();
    let mut client = Client::new(plan, first_id);
    let mut started = false;
    while Instant::now() < end {
        let sent = Instant::now();
        if sent >= begin && started && !budget.take() {
            break;
        }
        let bytes = client.bytes;
        let done = timeout(plan.timeout, async {
            if started { client.operate().await } else { client.start().await }
        });
        match done.await.unwrap_or_else(|_| Err("timeout".to_owned())) {
            Ok(()) if !started => started = true,
            Ok(()) if sent < begin => tally.warm_up(),
            Ok(()) => tally.answer(client.answered - sent, client.bytes - bytes, client.answered),
            Err(error) => {
                tally.error(&error);
                client.forget();
                started = false;
                sleep(ERROR_PAUSE).await;
            }
        }
    }
    client.stop().await;
    tally
}

/// How many requests may still be sent, if that is limited.
struct Budget {
    left: Option<AtomicU64>,
}

impl Budget {
    fn take(&self) -> bool {
        let take_one = |left: u64| left.checked_sub(1);
        self.left
            .as_ref()
            .is_none_or(|left| left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one).is_ok())
    }
}
