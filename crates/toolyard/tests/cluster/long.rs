//! What takes longer than a minute, or has to wait for a lease to end. Not part of `cargo xtask ci`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use super::nats::Nats;
use super::secure::check;
use super::world::{World, eventually};

/// The lease is the default one, which is made for this.
#[test]
fn a_minute_without_nats_harms_no_call_and_afterwards_all_agree() {
    let mut world = World::new();
    world.start("a", &["one"], "");
    world.start("b", &["two"], "");
    world.wait_for_tool("one__pid");
    world.wait_for_tool("two__pid");
    world.nats.kill(0);
    let start = Instant::now();
    let mut calls = 0;
    while start.elapsed() < Duration::from_secs(62) {
        for node in ["a", "b"] {
            for tool in ["one__pid", "two__pid"] {
                world.node(node).call(tool, &json!({})).unwrap();
                calls += 1;
            }
        }
    }
    println!("{calls} calls without NATS, none failed");
    assert_eq!(world.node("a").status()["connected"], false);
    world.nats.start(0);
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
    let agreed = start.elapsed();
    println!("all agree {agreed:?} after NATS was started again");
    assert!(agreed < Duration::from_secs(10), "{agreed:?}");
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

#[test]
fn three_nats_servers_survive_the_loss_of_one() {
    let mut world = World::over(Nats::three);
    check(&mut world, "replicas = 3");
    for at in 0..3 {
        world.nats.kill(at);
        for node in ["a", "b"] {
            world.node(node).call("one__pid", &json!({})).unwrap();
        }
        world.start(["c", "d", "e"][at], &[], "replicas = 3");
        world.wait_for_tool("one__pid");
        world.nats.start(at);
        for node in ["a", "b"] {
            eventually("a connection to NATS", || {
                (world.node(node).status()["connected"] == true).then_some(())
            });
        }
    }
}
