//! A server that is killed again and again while clients call it: calls wait until it is back. Only calls that are
//! made or under way in the moment of a kill fail.
//!
//! `TOOLYARD_KILL_SECONDS=180` makes it longer: 79 kills.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::gateway::{Home, eventually};
use crate::{http, program};

/// Between two kills.
const PAUSE: Duration = Duration::from_millis(2_280);
const CALLERS: usize = 3;
/// A call that takes longer has waited without success.
const LONGEST: Duration = Duration::from_secs(20);

/// The end of a call: `answered`, or the kind of its error; and how long it took.
fn call(url: &str) -> (String, Duration) {
    let begun = Instant::now();
    let call = json!({ "name": "mortal__go", "arguments": {} });
    let message = http::read(http::modern(url, "tools/call", call)).message();
    let kind = message["result"]["_meta"]["dev.toolyard/error"]["kind"].as_str();
    let outcome = match kind {
        Some(kind) => kind.to_owned(),
        None if message["result"]["content"][0]["text"] == "well" => "answered".to_owned(),
        None => message.to_string(),
    };
    (outcome, begun.elapsed())
}

#[test]
fn calls_wait_for_a_server_that_is_killed_again_and_again() {
    let seconds = std::env::var("TOOLYARD_KILL_SECONDS").ok().and_then(|text| text.parse().ok());
    let home = Home::new();
    let run = format!("echo $$ > pid; exec {} good legacy stdio", program());
    home.write(
        "config.toml",
        &format!("[upstreams.mortal]\ncommand = \"sh\"\nargs = [\"-c\", {run:?}]\nera = \"legacy\"\n"),
    );
    let gateway = home.start(&["--config", "config.toml"]);
    eventually("the server", || (call(&gateway.url).0 == "answered").then_some(()));
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(15));
    let (done, url) = (AtomicBool::new(false), gateway.url.as_str());
    let (kills, outcomes, slowest) = thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                scope.spawn(|| {
                    let (mut outcomes, mut slowest) = (BTreeMap::<String, usize>::new(), Duration::ZERO);
                    while !done.load(Ordering::Relaxed) {
                        let (outcome, took) = call(url);
                        *outcomes.entry(outcome).or_default() += 1;
                        slowest = slowest.max(took);
                    }
                    (outcomes, slowest)
                })
            })
            .collect();
        let mut victims = Vec::new();
        while Instant::now() < end {
            // The shape of the load: kills at an even pace, each of another process.
            thread::sleep(PAUSE);
            let victim = eventually("another process", || {
                let id: i32 = std::fs::read_to_string(home.path("pid")).ok()?.trim().parse().ok()?;
                (!victims.contains(&id)).then_some(id)
            });
            kill(Pid::from_raw(victim), Signal::SIGKILL).unwrap();
            victims.push(victim);
        }
        done.store(true, Ordering::Relaxed);
        let (mut all, mut slowest) = (BTreeMap::<String, usize>::new(), Duration::ZERO);
        for caller in callers {
            let (outcomes, longest) = caller.join().unwrap();
            for (outcome, count) in outcomes {
                *all.entry(outcome).or_default() += count;
            }
            slowest = slowest.max(longest);
        }
        (victims.len(), all, slowest)
    });
    println!("{kills} kills; {outcomes:?}; the slowest call took {slowest:?}");
    let [answered, lost, unavailable] =
        ["answered", "lost", "unavailable"].map(|kind| outcomes.get(kind).copied().unwrap_or_default());
    assert_eq!(outcomes.values().sum::<usize>(), answered + lost + unavailable, "{outcomes:?}");
    // A call that is sent in the moment of a kill is `unavailable` if the end of the connection is known already.
    assert!(
        lost + unavailable <= kills * CALLERS,
        "a kill may fail only one call of each client: {outcomes:?}"
    );
    assert!(answered > lost && slowest < LONGEST, "{outcomes:?}, {slowest:?}");
}
