//! Nodes and NATS that are stopped, killed or suspended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use super::world::{World, eventually};

#[test]
fn a_killed_owner_is_replaced_and_its_fencing_number_is_smaller() {
    let mut world = World::new();
    world.start("a", &["both"], "");
    world.wait_for_tool("both__pid");
    world.start("b", &["both"], "");
    world.start("c", &[], "");
    world.wait_for_tool("both__pid");
    let before = world.node("c").call("both__pid", &json!({})).unwrap();
    let log = world.node("a").log();
    world.kill("a");
    let after = eventually("another owner", || {
        world.node("c").call("both__pid", &json!({})).ok().filter(|after| *after != before)
    });
    assert_eq!(world.node("b").call("both__pid", &json!({})), Ok(after));
    let (old, new) = (fences(&log), fences(&world.node("b").log()));
    assert!(old["both"].iter().max() < new["both"].iter().min(), "{old:?} {new:?}");
}

#[test]
fn a_stopped_owner_leaves_at_once() {
    let mut world = World::new();
    world.start("a", &["both"], "lease = \"1h\"");
    world.wait_for_tool("both__pid");
    world.start("b", &["both"], "lease = \"1h\"");
    world.wait_for_tool("both__pid");
    let before = world.node("b").call("both__pid", &json!({})).unwrap();
    world.stop("a");
    let start = Instant::now();
    eventually("another owner", || {
        world.node("b").call("both__pid", &json!({})).ok().filter(|after| *after != before)
    });
    println!("taken over {:?} after the owner stopped", start.elapsed());
}

/// Shorter than the outage of a minute that the default lease is made for, to keep the test short.
#[test]
fn without_nats_calls_continue_and_afterwards_all_nodes_agree() {
    let mut world = World::new();
    world.start("a", &["one"], "");
    world.start("b", &["two"], "");
    world.wait_for_tool("one__pid");
    world.wait_for_tool("two__pid");
    world.kill_nats();
    let start = Instant::now();
    let mut calls = 0;
    while start.elapsed() < Duration::from_secs(20) {
        for node in ["a", "b"] {
            for tool in ["one__pid", "two__pid"] {
                world.node(node).call(tool, &json!({})).unwrap();
                calls += 1;
            }
        }
    }
    println!("{calls} calls without NATS, none failed");
    assert_eq!(world.node("a").status()["connected"], false);
    world.start_nats();
    let start = Instant::now();
    world.start("c", &[], "");
    for node in ["a", "b", "c"] {
        eventually("three nodes", || {
            let status = world.node(node).status();
            let alive =
                status["nodes"].as_array().unwrap().iter().filter(|node| node["alive"] == true).count();
            (status["connected"] == true && alive == 3).then_some(())
        });
    }
    world.wait_for_tool("one__pid");
    println!("all agree {:?} after NATS was started again", start.elapsed());
}

#[test]
fn a_suspended_owner_does_not_serve_when_it_continues() {
    let mut world = World::new();
    world.start("a", &["both"], "lease = \"30s\"");
    world.wait_for_tool("both__pid");
    world.start("b", &["both"], "lease = \"30s\"");
    world.wait_for_tool("both__pid");
    let before = world.node("b").call("both__pid", &json!({})).unwrap();
    world.node("a").signal(Signal::SIGSTOP);
    let after = eventually("another owner", || {
        world.node("b").call("both__pid", &json!({})).ok().filter(|after| *after != before)
    });
    world.node("a").signal(Signal::SIGCONT);
    for number in 0..20 {
        // A call that is refused is not carried out; one that is answered is answered by the new owner.
        let answer = world.node("a").call("both__add", &json!({ "number": number }));
        assert!(answer.as_ref().is_err() || answer == Ok(after.clone()), "{answer:?}");
    }
    eventually("the new owner at a", || {
        (world.node("a").call("both__pid", &json!({})) == Ok(after.clone())).then_some(())
    });
    let mut seen = BTreeSet::new();
    for (process, arguments) in world.calls("both") {
        if let Some(number) = arguments["number"].as_u64() {
            assert!(seen.insert(number), "call {number} was carried out twice");
            assert_eq!(process.to_string(), after);
        }
    }
}

/// The numbers by which a node has owned each upstream.
fn fences(log: &str) -> BTreeMap<String, Vec<u64>> {
    let mut fences: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in log.lines().filter(|line| line.contains("this node owns an upstream")) {
        let field = |name: &str| {
            let (_, rest) = line.split_once(&format!("{name}=")).unwrap();
            rest.split(' ').next().unwrap().trim_matches('"').to_owned()
        };
        fences.entry(field("id")).or_default().push(field("fence").parse().unwrap());
    }
    fences
}
