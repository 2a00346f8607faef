//! What takes longer than a minute, or has to wait for a lease to end. Not part of `cargo xtask ci`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use super::apps::Mortal;
use super::attempt::attempt;
use super::churn::churn;
use super::http::{legacy, open_session, read};
use super::nats::{Nats, free_port};
use super::secure::check;
use super::tenures::{check_tenures, now, tenures};
use super::wire::Wire;
use super::world::{Setup, World, eventually};

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
    for tool in ["one__pid", "two__pid"] {
        world.wait_for_tool(tool);
    }
    let owners = eventually("the same owners at all nodes", || {
        let [a, b, c] = ["a", "b", "c"].map(|node| world.node(node).status()["owners"].clone());
        (a == b && b == c).then_some(a)
    });
    let agreed = start.elapsed();
    let owner = |id: &str| {
        let owners = owners.as_array().unwrap();
        owners.iter().find(|owner| owner["id"] == id).map(|owner| owner["node"].clone())
    };
    assert_eq!((owner("one"), owner("two")), (Some(json!("a")), Some(json!("b"))), "{owners}");
    for node in ["a", "b", "c"] {
        for tool in ["one__pid", "two__pid"] {
            world.node(node).call(tool, &json!({})).unwrap();
        }
    }
    println!("all agree {agreed:?} after NATS was started again");
    assert!(agreed < Duration::from_secs(10), "{agreed:?}");
}

/// A client that adds one number after the other through a node, until the test ends it.
fn adder(port: u16, next: &Arc<AtomicU64>, is_over: &Arc<AtomicBool>) -> JoinHandle<Vec<Added>> {
    let (next, is_over) = (next.clone(), is_over.clone());
    std::thread::spawn(move || {
        let mut all = Vec::new();
        while !is_over.load(Ordering::SeqCst) {
            let number = next.fetch_add(1, Ordering::SeqCst);
            let begin = now();
            let answer = attempt(port, "both__add", &json!({ "number": number })).expect("an answer");
            all.push(Added { number, begin, end: now(), answer });
        }
        all
    })
}

#[derive(Debug)]
struct Added {
    number: u64,
    begin: f64,
    end: f64,
    answer: Result<String, String>,
}

#[test]
fn calls_in_flight_at_a_suspended_owner_are_carried_out_once_at_most() {
    let mut world = World::new();
    let ports = [free_port(), free_port()];
    for (at, node) in ["a", "b"].into_iter().enumerate() {
        let setup =
            Setup { upstreams: &["both"], cluster: "lease = \"30s\"", port: ports[at], ..Setup::default() };
        world.start_with(node, setup);
        world.wait_for_tool("both__pid");
    }
    let before = world.node("b").call("both__pid", &json!({})).unwrap();
    let (next, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    // Two clients of the owner, and four of the other node, all along.
    let adders = [0, 0, 1, 1, 1, 1].map(|at| adder(ports[at], &next, &is_over));
    eventually("100 numbers before the stop", || (next.load(Ordering::SeqCst) > 100).then_some(()));
    world.node("a").signal(Signal::SIGSTOP);
    let stopped = now();
    let after = eventually("another owner", || {
        attempt(ports[1], "both__pid", &json!({}))?.ok().filter(|after| *after != before)
    });
    world.node("a").signal(Signal::SIGCONT);
    let continued = now();
    eventually("the new owner at a", || {
        (attempt(ports[0], "both__pid", &json!({}))? == Ok(after.clone())).then_some(())
    });
    is_over.store(true, Ordering::SeqCst);
    let added: Vec<Added> = adders.into_iter().flat_map(|adder| adder.join().unwrap()).collect();
    let in_flight = added.iter().filter(|one| one.begin < stopped && one.end > stopped).count();
    let refused = added.iter().filter(|one| one.answer.is_err()).count();
    println!(
        "{} numbers, {in_flight} of them in flight when the owner was stopped, {refused} refused; {:.1} s until another owner",
        added.len(),
        continued - stopped
    );
    assert!(in_flight >= 6, "each client had a call in flight: {in_flight}");
    let mut carried_out = BTreeMap::new();
    for (process, arguments) in world.calls("both") {
        let Some(number) = arguments["number"].as_u64() else { continue };
        assert_eq!(carried_out.insert(number, process.to_string()), None, "{number} was added twice");
    }
    for one in added {
        let process = carried_out.get(&one.number);
        if one.begin > continued {
            assert!(process.is_none_or(|process| *process == after), "the old owner served {one:?}");
        }
        if let Ok(answer) = &one.answer {
            assert_eq!(process, Some(answer), "{one:?}");
        }
    }
}

#[test]
fn an_owner_that_cannot_renew_stops_its_program_before_the_lease_ends() {
    const LEASE: f64 = 30.0;
    let mut world = World::new();
    let port = free_port();
    let setup =
        Setup { upstreams: &["both"], cluster: "lease = \"30s\"", apps: Some(port), ..Setup::default() };
    world.start_with("a", setup);
    world.wait_for_tool("both__pid");
    world.start("b", &["both"], "lease = \"30s\"");
    let clock = Mortal::app(port, "Clock");
    world.wait_for_tool("both__pid");
    world.wait_for_tool("Clock__who");
    let before = world.node("b").call("both__pid", &json!({})).unwrap();
    world.nats.kill(0);
    // No renewal was sent later than this.
    let killed = now();
    let is_running = || Path::new("/proc").join(&before).exists();
    let (mut last, mut refusals) = (killed, Vec::new());
    while now() < killed + LEASE + 10.0 {
        for node in ["a", "b"] {
            match world.node(node).call("both__pid", &json!({})) {
                Ok(process) => {
                    assert_eq!(process, before, "nothing changes its owner without NATS");
                    last = now();
                }
                Err(error) => refusals.push((now(), error)),
            }
        }
        if is_running() {
            assert!(now() < killed + LEASE, "the program runs longer than the lease");
        }
        // An app is where it is connected, whether its node has a lease or not.
        let answer = world.node("a").call("Clock__who", &json!({ "word": "hi" }));
        assert_eq!(answer, Ok(format!("Clock {} hi", clock.pid())));
    }
    println!(
        "the last call was answered {:.1} s after NATS was killed, the first refused after {:.1} s",
        last - killed,
        refusals[0].0 - killed
    );
    assert!(last > killed + LEASE / 2.0 && last < killed + LEASE, "{}", last - killed);
    assert!(refusals.iter().any(|(_, error)| error.contains("lease in the cluster")), "{:?}", refusals[0]);
    assert!(!is_running());
    world.nats.start(0);
    for node in ["a", "b"] {
        let again = eventually("the program again", || world.node(node).call("both__pid", &json!({})).ok());
        assert_ne!(again, before);
    }
    let all = tenures(&world, &["a", "b"], &Vec::new());
    check_tenures(&all);
    let end = all["both"][0].end.unwrap();
    assert!(end < killed + LEASE, "{:?}", all["both"]);
}

#[test]
fn without_nats_for_longer_than_a_lease_nodes_keep_what_they_reach_directly() {
    let lease = "lease = \"30s\"";
    let mut world = World::new();
    let port = free_port();
    world.start_with("a", Setup { cluster: lease, apps: Some(port), ..Setup::default() });
    world.start("b", &[], lease);
    let clock = Mortal::app(port, "Clock");
    world.wait_for_tool("Clock__who");
    let session = open_session(&world.node("a").url);
    world.nats.kill(0);
    let killed = Instant::now();
    let url = world.node("b").url.clone();
    // Much longer than the lease, so that no renewal that is on its way can help.
    while killed.elapsed() < Duration::from_secs(40) {
        assert!(world.node("b").tools().contains(&"Clock__who".to_owned()), "after {:?}", killed.elapsed());
        let answer = world.node("b").call("Clock__who", &json!({ "word": "hi" }));
        assert_eq!(answer, Ok(format!("Clock {} hi", clock.pid())), "after {:?}", killed.elapsed());
        let reply = read(legacy(&url, &session, "tools/list", &json!({})));
        assert_eq!(reply.status, 200, "after {:?}: {}", killed.elapsed(), reply.body);
    }
    assert_eq!(world.node("b").status()["inSync"], false);
    // A node that ends meanwhile is not taken for alive when NATS is back.
    world.kill("a");
    world.nats.start(0);
    eventually("the end of a at b", || {
        (!world.node("b").tools().contains(&"Clock__who".to_owned())).then_some(())
    });
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

#[test]
fn churn_over_three_nats_servers_that_are_killed_too() {
    churn(World::over(Nats::three), "replicas = 3", 30);
}

#[test]
fn a_node_that_was_reached_through_nats_is_reached_directly_as_soon_as_that_is_possible() {
    let mut world = World::new();
    let (real, shown) = (free_port(), free_port());
    let wire = Wire::between(shown, real);
    let cluster = format!("listen = \"127.0.0.1:{real}\"\nadvertise = \"127.0.0.1:{shown}\"");
    world.start("a", &["one"], &cluster);
    world.start("b", &[], "");
    world.wait_for_tool("one__pid");
    let session = open_session(&world.node("a").url);
    let url = world.node("b").url.clone();
    // A call and a request of a session; each may be lost with its connection.
    let way = || {
        let reply = read(legacy(&url, &session, "tools/list", &json!({})));
        world.node("b").call("one__pid", &json!({})).ok().filter(|_| reply.status == 200)?;
        let status = world.node("b").status();
        let nodes = status["nodes"].as_array().unwrap();
        Some(nodes.iter().find(|node| node["node"] == "a").unwrap()["link"]["by"].clone())
    };
    let wait_for = |by: &str| eventually(by, || way().filter(|way| way == by).map(drop));
    wait_for("direct");
    wire.cut();
    wait_for("nats");
    wire.restore();
    wait_for("direct");
}
