//! Twenty apps and ten instances that are started, killed, restarted and replaced at random, while eight
//! clients call them. Every request gets one answer, from the app it was sent to, and in the end everything is as
//! it was at the start.
//!
//! `TOOLYARD_CHURN_SECONDS=120` makes it longer, `TOOLYARD_CHURN_SEED` repeats a run as far as chance allows.

mod cast;
mod caller;
mod chance;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Agent, Yard, eventually_within};
use caller::{Caller, Tally};
use cast::Cast;
use chance::Chance;

const CLIENTS: u64 = 8;
/// How long it may take until all apps and instances are back, on a busy machine.
const SETTLED: Duration = Duration::from_mins(1);
/// The shortest time between two announcements: changes within it are gathered.
const DEBOUNCE: Duration = Duration::from_millis(500);
/// A run this long also waits until idle connections are closed, and may leave nothing.
const LONG: u64 = 60;
const UNUSED: Duration = Duration::from_secs(80);

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Tasks and open files of the gateway.
fn weight(yard: &Yard, agent: &mut Agent) -> (u64, usize) {
    let status = agent.call("yard__status", &json!({}))["structuredContent"].take();
    let files = std::fs::read_dir(format!("/proc/{}/fd", yard.pid())).unwrap().count();
    (status["tasks"].as_u64().unwrap(), files)
}

#[test]
fn churn_loses_no_answer_mixes_none_up_and_leaves_nothing() {
    let seconds = from_env("TOOLYARD_CHURN_SECONDS").unwrap_or(10);
    let seed = from_env("TOOLYARD_CHURN_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("churn for {seconds} s, TOOLYARD_CHURN_SEED={seed}");
    let yard = Yard::start("");
    let cast = Arc::new(Cast::start(&yard));
    let mut agent = yard.agent();
    eventually_within(SETTLED, "all of them at the start", || cast.is_complete(&mut agent));
    let before = weight(&yard, &mut agent);
    let mut listener = yard.agent().shake_hands();
    let began = Instant::now();
    let tally = churn(&yard, &cast, seconds, seed);
    let changes = listener.changes_within(Duration::ZERO);
    let most = began.elapsed().as_millis() / DEBOUNCE.as_millis() + 2;
    eventually_within(SETTLED, "all of them at the end", || cast.is_complete(&mut agent));
    eprintln!("{tally:?}, {} deaths, {changes} announcements", cast.deaths());
    assert!(u128::try_from(changes).unwrap() <= most, "{changes} announcements, {most} at most");
    assert!(tally.good > tally.calls() / 2, "{tally:?}");
    quiet(&mut listener);
    listener.leave();
    let is_long = seconds >= LONG;
    if is_long {
        std::thread::sleep(UNUSED);
    }
    back_to(before, if is_long { 4 } else { 40 }, &yard, &mut agent);
}

/// Runs everything at once; returns the results of all calls.
fn churn(yard: &Yard, cast: &Arc<Cast>, seconds: u64, seed: u64) -> Tally {
    let over = Arc::new(AtomicBool::new(false));
    let clients = (0..CLIENTS).map(|number| {
        let caller = Caller::new(yard, cast.clone(), number, seed);
        let over = over.clone();
        std::thread::spawn(move || caller.run(&over))
    });
    let clients: Vec<_> = clients.collect();
    let (mut chance, until) = (Chance::new(seed), Instant::now() + Duration::from_secs(seconds));
    while Instant::now() < until {
        cast.something_happens(yard, &mut chance);
        std::thread::sleep(Duration::from_millis(chance.below(200)));
    }
    cast.all_are_alive(yard);
    over.store(true, Ordering::SeqCst);
    clients.into_iter().map(|client| client.join().unwrap()).fold(Tally::default(), Tally::and)
}

/// Once nothing happens, nothing is announced.
fn quiet(listener: &mut Agent) {
    let settled = listener.changes_within(2 * DEBOUNCE);
    let later = listener.changes_within(4 * DEBOUNCE);
    assert!(later - settled <= 3, "{} announcements in a quiet time", later - settled);
}

fn back_to(before: (u64, usize), slack: usize, yard: &Yard, agent: &mut Agent) {
    let mut after = before;
    let slack_of_tasks = u64::try_from(slack).unwrap();
    eventually_within(SETTLED, "nothing more than at the start", || {
        after = weight(yard, agent);
        let is_back = after.0 <= before.0 + slack_of_tasks && after.1 <= before.1 + slack;
        if !is_back {
            std::thread::sleep(Duration::from_millis(500));
            eprintln!("tasks and files: {before:?} at the start, {after:?} now");
        }
        is_back.then_some(())
    });
    eprintln!("tasks and files: {before:?} at the start, {after:?} at the end");
}
