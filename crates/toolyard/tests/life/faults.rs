//! One gateway with every kind of bad upstream and a good one beside them.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::yard::{Gateway, Yard, command_line, none, soon, within};

/// The tool of an upstream is listed, and its call has the expected result or error.
fn check(gateway: &Gateway, upstream: &str, expected: Result<&str, &str>) {
    let called = Instant::now();
    let (failed, text) = gateway.go(upstream);
    match expected {
        Ok(given) => assert_eq!((failed, text.as_str()), (false, given), "{upstream}"),
        Err(part) => assert!(failed && text.contains(part), "{upstream}: {text}"),
    }
    assert!(called.elapsed() < Duration::from_secs(10), "{upstream}: {:?}", called.elapsed());
    assert_eq!(gateway.go("good"), (false, "well".to_owned()), "after {upstream}");
}

fn ready(yard: &Yard, upstreams: &[&str]) -> Gateway {
    let gateway = yard.start();
    for upstream in upstreams {
        soon(upstream, || {
            let about = gateway.upstream(upstream);
            let is_listed = gateway.tools().contains(&format!("{upstream}__go"));
            if about["state"] == "active" && is_listed { Ok(()) } else { Err(about.to_string()) }
        });
    }
    gateway
}

#[test]
fn an_invalid_answer_fails_only_its_own_call() {
    let yard = Yard::new(&["good", "half", "closes", "dies", "crashes", "twice", "late", "invalid"]);
    let gateway = ready(&yard, &["good", "half", "closes", "dies", "crashes", "twice", "late", "invalid"]);
    check(&gateway, "half", Err("exited with status 5"));
    check(&gateway, "closes", Err("`closes`"));
    check(&gateway, "dies", Err("exited with status 6: stderr: out of cheese"));
    check(&gateway, "crashes", Err("ended by signal SIGKILL"));
    check(&gateway, "twice", Ok("first"));
    check(&gateway, "twice", Ok("first"));
    check(&gateway, "late", Err("late"));
    soon("the late one is well again", || {
        let (failed, text) = gateway.go("late");
        if failed { Err(text) } else { Ok(()) }
    });
    for _ in 0..20 {
        check(&gateway, "invalid", Err("no such argument"));
    }
    let about = gateway.upstream("invalid");
    assert_eq!((&about["state"], &about["failures"]), (&"active".into(), &0.into()), "{about}");
    soon("what died is back", || {
        let states: Vec<_> = ["half", "closes", "dies", "crashes"]
            .iter()
            .map(|id| gateway.upstream(id)["state"].as_str().unwrap().to_owned())
            .collect();
        if states.iter().all(|state| state == "active") { Ok(()) } else { Err(format!("{states:?}")) }
    });
    stop(&yard, gateway);
}

#[test]
fn an_upstream_that_exits_or_hangs_at_the_start_delays_no_other() {
    let yard = Yard::new(&["exits", "hangs", "good"]);
    let gateway = ready(&yard, &["good"]);
    assert_eq!(gateway.go("good"), (false, "well".to_owned()));
    let begun = Instant::now();
    let tools = gateway.tools();
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    assert!(tools.contains(&"good__go".to_owned()) && !tools.contains(&"hangs__go".to_owned()), "{tools:?}");
    let reason = gateway.upstream("exits")["reason"].to_string();
    assert!(reason.contains("status 4") && reason.contains("no such database"), "{reason}");
    stop(&yard, gateway);
}

#[test]
fn the_start_timeout_can_be_set() {
    let yard = Yard::new(&["hangs"]);
    yard.also("connect_timeout = 1\n");
    let gateway = yard.start();
    soon("the reason names the time", || {
        let reason = gateway.upstream("hangs")["reason"].to_string();
        if reason.contains("within 1s") { Ok(()) } else { Err(reason) }
    });
    stop(&yard, gateway);
}

#[test]
fn the_start_timeout_counts_from_the_turn_of_a_server() {
    let at_a_time = 2 * std::thread::available_parallelism().unwrap().get();
    let held: Vec<String> = (0..at_a_time).map(|number| format!("held{number}")).collect();
    let yard = Yard::new(&held.iter().map(String::as_str).collect::<Vec<_>>());
    let gateway = yard.start();
    soon("all turns are taken", || {
        let mut states = held.iter().map(|id| gateway.upstream(id)["state"].clone());
        if states.all(|state| state == "starting") { Ok(()) } else { Err("a server has no turn".to_owned()) }
    });
    let args = "command = \"sh\"\nargs = [\"upstream.sh\", \"good\"]\nera = \"legacy\"\n";
    yard.also(&format!("[upstreams.late]\n{args}start_timeout = 3\n"));
    let late = || {
        let all = gateway.call("yard__upstreams", &json!({}))["structuredContent"]["upstreams"].clone();
        all.as_array().unwrap().iter().find(|upstream| upstream["id"] == "late").cloned()
    };
    let waits = "it waits for its turn to start";
    soon("it waits", || late().filter(|late| late["reason"] == waits).ok_or_else(|| format!("{:?}", late())));
    let longer = Instant::now() + Duration::from_secs(4);
    while Instant::now() < longer {
        let late = late().unwrap();
        assert_eq!((&late["state"], &late["reason"]), (&"discovered".into(), &waits.into()), "{late}");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::write(yard.folder().join("release"), "").unwrap();
    let started = soon("it has started", || {
        late().filter(|late| late["state"] == "active").ok_or_else(|| format!("{:?}", late()))
    });
    assert_eq!(started["failures"], 0, "{started}");
    stop(&yard, gateway);
}

#[test]
fn floods_are_bounded_and_delay_no_other_upstream() {
    let yard = Yard::new(&["good", "loud", "flood"]);
    let gateway = ready(&yard, &["good", "loud", "flood"]);
    let before = memory(gateway.id());
    for _ in 0..3 {
        check(&gateway, "loud", Ok("hello"));
        check(&gateway, "flood", Ok("dry"));
    }
    let grown = memory(gateway.id()).saturating_sub(before);
    assert!(grown < 30_000, "{grown} kB more");
    let log = stop(&yard, gateway);
    assert!(log.len() < 400_000, "{} bytes", log.len());
    assert!(log.contains("upstream=loud") && log.lines().all(|line| line.len() < 2200), "{log}");
}

#[test]
fn a_server_that_will_not_stop_is_killed_with_its_children() {
    let yard = Yard::new(&["stays", "forks", "hangs", "good"]);
    let gateway = ready(&yard, &["stays", "forks", "good"]);
    stop(&yard, gateway);
}

#[test]
fn stopping_the_guard_does_not_free_its_children() {
    let yard = Yard::new(&["forks", "good"]);
    let gateway = ready(&yard, &["forks", "good"]);
    for process in yard.processes() {
        if command_line(process.id).starts_with("toolyard guard") {
            process.signal(Signal::SIGSTOP);
        }
    }
    stop(&yard, gateway);
}

#[test]
fn a_program_that_cannot_be_started_has_the_same_error_as_without_a_guard() {
    let yard = Yard::new(&["good"]);
    yard.also("[upstreams.missing]\ncommand = \"no-such-program\"\n");
    yard.also("[upstreams.locked]\ncommand = \"./config.toml\"\n");
    let gateway = ready(&yard, &["good"]);
    for (upstream, expected) in [
        ("missing", "program `no-such-program` was not found"),
        ("locked", "program `./config.toml` may not be run"),
    ] {
        soon(upstream, || {
            let about = gateway.upstream(upstream);
            let is_named = about["reason"].as_str().is_some_and(|reason| reason.starts_with(expected));
            if is_named { Ok(()) } else { Err(about.to_string()) }
        });
    }
}

/// Sends TERM to the gateway: it and everything below it is gone in time. Returns its log.
fn stop(yard: &Yard, gateway: Gateway) -> String {
    gateway.signal(Signal::SIGTERM);
    let signalled = Instant::now();
    let log = gateway.wait();
    assert!(signalled.elapsed() < Duration::from_secs(8), "{:?}", signalled.elapsed());
    within(Duration::from_secs(2), "no process left", || none(&yard.left_of(&yard.processes())));
    log
}

/// Resident, in kB.
fn memory(process: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
