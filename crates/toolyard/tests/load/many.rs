//! Two hundred upstreams, twenty of which say nothing any more.

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

fn config(good: &str, broken: &str) -> String {
    let section = |id: String, address: &str| {
        format!("[upstreams.{id}]\nurl = \"tcp://{address}\"\nera = \"legacy\"\n")
    };
    let mut config: String = (0..GOOD).map(|at| section(format!("good{at}"), good)).collect();
    config.extend((0..BROKEN).map(|at| section(format!("broken{at}"), broken)));
    config
}

/// How many upstreams show their tool, and how long it took to say so.
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
fn twenty_of_two_hundred_that_say_nothing_delay_no_list() {
    let (good, broken) = (Server::start(), Server::start());
    let home = Home::new();
    home.write("config.toml", &config(&good.address, &broken.address));
    let gateway = home.start(&["--config", "config.toml"]);
    eventually("all two hundred", || (list(&gateway).0 == GOOD + BROKEN).then_some(()));
    stop(gateway);
    // At the same address, somebody who takes connections and says nothing.
    let address = broken.address.clone();
    drop(broken);
    let _silent = TcpListener::bind(&address).unwrap();
    let gateway = home.start(&["--config", "config.toml"]);
    let (count, time) = list(&gateway);
    assert_eq!(count, GOOD + BROKEN, "what they offered is known");
    assert_eq!(in_state(&gateway, "connecting"), BROKEN, "nobody has waited for them");
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
