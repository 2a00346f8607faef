//! Two hundred upstreams: twenty that send nothing any more, beside a hundred and eighty good ones.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::gateway::{Gateway, Home, eventually};
use crate::{Server, http, yard};

const GOOD: usize = 180;
const BROKEN: usize = 20;
/// A first list may wait so long for upstreams never seen before; the rest is for a busy machine.
const FIRST_LIST: Duration = Duration::from_secs(5);
const BUSY: Duration = Duration::from_secs(5);
/// How often each is started, and how much longer the one with broken upstreams may take.
const ROUNDS: usize = 5;
const RATIO: f64 = 3.0;

/// Upstreams of one kind, all at one address.
fn sections(kind: &str, count: usize, address: &str) -> String {
    let section = |at| format!("[upstreams.{kind}{at}]\nurl = \"tcp://{address}\"\nera = \"legacy\"\n");
    (0..count).map(section).collect()
}

/// A home whose upstreams have all been seen.
fn home_with(config: &str, count: usize) -> Home {
    let home = Home::new();
    home.write("config.toml", config);
    let gateway = home.start(&["--config", "config.toml"]);
    eventually("all upstreams", || (list(&gateway).0 == count).then_some(()));
    stop(gateway);
    home
}

/// A start with stored definitions: until it listens, and until it has listed all of them.
fn start_and_list(home: &Home, count: usize) -> [Duration; 2] {
    let begun = Instant::now();
    let gateway = home.start(&["--config", "config.toml"]);
    let started = begun.elapsed();
    let (listed, time) = list(&gateway);
    assert_eq!(listed, count, "what they offered is known");
    stop(gateway);
    [started, time]
}

fn median(times: &[[Duration; 2]], which: usize) -> f64 {
    let mut times: Vec<Duration> = times.iter().map(|times| times[which]).collect();
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

/// How many upstreams show their tool, and how long the list took.
fn list(gateway: &Gateway) -> (usize, Duration) {
    let begun = Instant::now();
    let names = http::read(http::modern(&gateway.url, "tools/list", json!({}))).tool_names();
    (names.iter().filter(|name| name.ends_with("__go")).count(), begun.elapsed())
}

/// How many of the broken are in that state.
fn in_state(gateway: &Gateway, state: &str) -> usize {
    let all = yard(&gateway.url, "upstreams");
    let all = all["upstreams"].as_array().unwrap().iter();
    all.filter(|about| about["id"].as_str().unwrap().starts_with("broken") && about["state"] == state).count()
}

fn stop(gateway: Gateway) {
    gateway.signal(Signal::SIGTERM);
    assert!(gateway.wait().0.success());
}

#[test]
fn twenty_silent_upstreams_of_two_hundred_delay_no_list() {
    let (good, broken) = (Server::start(), Server::start());
    let config = sections("good", GOOD, &good.address) + &sections("broken", BROKEN, &broken.address);
    let home = home_with(&config, GOOD + BROKEN);
    // At the same address, a server that accepts connections and sends nothing.
    let address = broken.address.clone();
    drop(broken);
    let _silent = TcpListener::bind(&address).unwrap();
    let gateway = home.start(&["--config", "config.toml"]);
    let (count, time) = list(&gateway);
    assert_eq!(count, GOOD + BROKEN, "what they offered is known");
    assert_eq!(in_state(&gateway, "connecting"), BROKEN, "the list has not waited for them");
    println!("with stored definitions the first list took {time:?}");
    assert!(time < FIRST_LIST, "{time:?}");
    eventually("all good ones", || {
        let call = json!({ "name": "good7__go", "arguments": {} });
        let message = http::read(http::modern(&gateway.url, "tools/call", call)).message();
        (message["result"]["content"][0]["text"] == "well").then_some(())
    });
    stop(gateway);
    std::fs::remove_dir_all(home.path("state")).unwrap();
    let gateway = home.start(&["--config", "config.toml"]);
    let (count, time) = list(&gateway);
    println!("without them it took {time:?} and showed {count}");
    assert!(time < FIRST_LIST + BUSY, "{time:?}");
    assert_eq!(in_state(&gateway, "active"), 0);
    eventually("the good ones", || (list(&gateway).0 == GOOD).then_some(()));
    stop(gateway);
}

#[test]
fn twenty_broken_upstreams_do_not_slow_down_the_start() {
    let (good, broken) = (Server::start(), Server::start());
    let some_good = sections("good", GOOD, &good.address);
    let fewer = home_with(&some_good, GOOD);
    let more = home_with(&(some_good + &sections("broken", BROKEN, &broken.address)), GOOD + BROKEN);
    // From now on they refuse connections, and every other round they accept them and send nothing.
    let address = broken.address.clone();
    drop(broken);
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let silent = (round % 2 == 0).then(|| TcpListener::bind(&address).unwrap());
        times[0].push(start_and_list(&fewer, GOOD));
        times[1].push(start_and_list(&more, GOOD + BROKEN));
        drop(silent);
    }
    for (which, what) in ["start", "first list"].into_iter().enumerate() {
        let [fewer, more] = times.each_ref().map(|times| median(times, which));
        let ratio = more / fewer;
        println!(
            "{what}: {:.1} ms with 180 good ones, {:.1} ms with 20 broken ones more, {ratio:.2} times",
            fewer * 1e3,
            more * 1e3
        );
        assert!(ratio < RATIO, "{what}: {ratio}");
    }
}
