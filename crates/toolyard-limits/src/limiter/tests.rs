//! The limiter in virtual time.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use tokio::task::JoinSet;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn client(name: &str) -> Arc<str> {
    name.into()
}

#[tokio::test(start_paused = true)]
async fn a_hundred_calls_never_exceed_ten_at_once_nor_thirty_a_minute() {
    let slots = Limiter::new(Limit { max_wait: 1000 * SECOND, ..Limit::concurrent(10) });
    let window = Limiter::new(Limit { max_wait: 1000 * SECOND, ..Limit::window(30, 60 * SECOND) });
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut calls = JoinSet::new();
    for n in 0..100 {
        let (slots, window, running, most) = (slots.clone(), window.clone(), running.clone(), most.clone());
        calls.spawn(async move {
            let client = client(&format!("client {}", n % 4));
            let _slot = slots.acquire(&client, |_| {}).await.unwrap();
            let _start = window.acquire(&client, |_| {}).await.unwrap();
            let started = Instant::now();
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(3 * SECOND).await;
            running.fetch_sub(1, Ordering::SeqCst);
            started
        });
    }
    let mut starts = calls.join_all().await;
    starts.sort_unstable();
    assert_eq!(most.load(Ordering::SeqCst), 10);
    for (at, start) in starts.iter().enumerate() {
        let within = starts[at..].iter().filter(|later| **later - *start < 60 * SECOND).count();
        assert!(within <= 30, "{within} starts within a minute of start {at}");
    }
    assert_eq!(starts.last().unwrap().duration_since(starts[0]), 180 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn waits_are_exact() {
    let limiter = Limiter::new(Limit::window(1, 10 * SECOND));
    let begin = Instant::now();
    for n in 0..4_u32 {
        drop(limiter.acquire(&client("a"), |_| {}).await.unwrap());
        assert_eq!(begin.elapsed(), 10 * SECOND * n);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_with_one_call_does_not_wait_behind_all_calls_of_another() {
    let limiter = Limiter::new(Limit::concurrent(1));
    let order = Arc::new(Mutex::new(Vec::new()));
    let held = limiter.acquire(&client("greedy"), |_| {}).await.unwrap();
    let mut calls = JoinSet::new();
    for name in ["greedy", "greedy", "greedy", "greedy", "modest"] {
        let (limiter, order) = (limiter.clone(), order.clone());
        calls.spawn(async move {
            let _permit = limiter.acquire(&client(name), |_| {}).await.unwrap();
            order.lock().push(name);
            tokio::time::sleep(SECOND).await;
        });
        tokio::task::yield_now().await;
    }
    drop(held);
    calls.join_all().await;
    assert_eq!(*order.lock(), ["greedy", "modest", "greedy", "greedy", "greedy"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_too_long_is_refused_with_a_hint() {
    let limiter = Limiter::new(Limit { max_wait: 5 * SECOND, ..Limit::concurrent(1) });
    let _held = limiter.acquire(&client("a"), |_| {}).await.unwrap();
    let begin = Instant::now();
    let refusal = limiter.acquire(&client("b"), |_| {}).await.unwrap_err();
    assert!(matches!(refusal, Refusal::WaitedTooLong { .. }));
    assert!(refusal.retry_after() > Duration::ZERO);
    assert_eq!(begin.elapsed(), 5 * SECOND);
    assert_eq!(limiter.usage(), Usage { running: 1, waiting: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_reports_its_place_every_second() {
    let limiter = Limiter::new(Limit::concurrent(1));
    let held = limiter.acquire(&client("a"), |_| {}).await.unwrap();
    let first = limiter.clone();
    let mut calls = JoinSet::new();
    let ahead = calls.spawn(async move {
        let permit = first.acquire(&client("b"), |_| {}).await.unwrap();
        tokio::time::sleep(3600 * SECOND).await;
        drop(permit);
    });
    tokio::task::yield_now().await;
    let reports = Arc::new(Mutex::new(Vec::new()));
    let (second, seen) = (limiter.clone(), reports.clone());
    calls.spawn(async move {
        let _permit = second.acquire(&client("c"), |place| seen.lock().push(place)).await;
    });
    tokio::time::sleep(Duration::from_millis(1500)).await;
    drop(held);
    tokio::time::sleep(SECOND).await;
    assert_eq!(*reports.lock(), [1, 1, 0]);
    ahead.abort();
    while calls.join_next().await.is_some() {}
    assert_eq!(limiter.usage(), Usage { running: 0, waiting: 0 });
}

#[tokio::test(start_paused = true)]
async fn dropping_a_waiting_call_gives_its_place_to_the_next() {
    let limiter = Limiter::new(Limit::concurrent(1));
    let held = limiter.acquire(&client("a"), |_| {}).await.unwrap();
    let (gives_up, stays) = (limiter.clone(), limiter.clone());
    let mut calls = JoinSet::new();
    let gives_up = calls.spawn(async move { gives_up.acquire(&client("b"), |_| {}).await.map(drop) });
    tokio::task::yield_now().await;
    calls.spawn(async move { stays.acquire(&client("c"), |_| {}).await.map(drop) });
    tokio::task::yield_now().await;
    assert_eq!(limiter.usage().waiting, 2);
    gives_up.abort();
    assert!(calls.join_next().await.unwrap().unwrap_err().is_cancelled());
    drop(held);
    calls.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(limiter.usage(), Usage { running: 0, waiting: 0 });
}

/// A call that begins to wait, without being polled any further.
fn waiting(limiter: &Limiter, name: &str) -> Pin<Box<dyn Future<Output = Result<Permit, Refusal>>>> {
    let (limiter, name) = (limiter.clone(), client(name));
    let mut call: Pin<Box<dyn Future<Output = _>>> =
        Box::pin(async move { limiter.acquire(&name, |_| {}).await });
    let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    call
}

#[tokio::test(start_paused = true)]
async fn a_displaced_call_that_is_dropped_before_it_learns_that_gives_back_no_permit() {
    let limiter = Limiter::new(Limit { queue: 2, ..Limit::concurrent(1) });
    let held = limiter.acquire(&client("a"), |_| {}).await.unwrap();
    let (_first, displaced) = (waiting(&limiter, "greedy"), waiting(&limiter, "greedy"));
    let _modest = waiting(&limiter, "modest");
    assert_eq!(limiter.usage(), Usage { running: 1, waiting: 2 });
    drop(displaced);
    assert_eq!(limiter.usage(), Usage { running: 1, waiting: 2 }, "the held permit still counts");
    drop(held);
    assert_eq!(limiter.usage(), Usage { running: 1, waiting: 1 });
}

#[tokio::test(start_paused = true)]
async fn a_started_call_that_is_dropped_before_it_learns_that_gives_its_permit_to_the_next() {
    let limiter = Limiter::new(Limit::concurrent(1));
    let held = limiter.acquire(&client("a"), |_| {}).await.unwrap();
    let (started, _next) = (waiting(&limiter, "b"), waiting(&limiter, "c"));
    drop(held);
    assert_eq!(limiter.usage(), Usage { running: 1, waiting: 1 });
    drop(started);
    assert_eq!(limiter.usage(), Usage { running: 1, waiting: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_one_client_starves_no_other_and_every_refusal_has_a_hint() {
    let limiter = Limiter::new(Limit { queue: 20, max_wait: 600 * SECOND, ..Limit::concurrent(8) });
    let mut calls = JoinSet::new();
    for n in 0..2000_usize {
        let limiter = limiter.clone();
        // Half of all calls come from one client, the rest from 31 others.
        let name = if n % 2 == 0 { "flood".to_owned() } else { format!("client {}", n % 31) };
        calls.spawn(async move {
            tokio::time::sleep(Duration::from_millis(50 * n as u64)).await;
            let outcome = match limiter.acquire(&client(&name), |_| {}).await {
                Ok(_permit) => {
                    tokio::time::sleep(SECOND).await;
                    true
                }
                Err(refusal) => {
                    assert!(refusal.retry_after() > Duration::ZERO);
                    false
                }
            };
            (name, outcome)
        });
    }
    let mut served: BTreeMap<String, usize> = BTreeMap::new();
    for (name, was_served) in calls.join_all().await {
        *served.entry(name).or_default() += usize::from(was_served);
    }
    assert_eq!(served.len(), 32);
    assert!(served.values().all(|count| *count > 0), "{served:?}");
    assert_eq!(limiter.usage(), Usage { running: 0, waiting: 0 });
}
