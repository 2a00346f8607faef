//! Nodes that are stopped or killed.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::apps::Mortal;
use super::attempt::attempt;
use super::http::{legacy, open_session, read};
use super::nats::free_port;
use super::sign_ins::Protected;
use super::tenures::{check_tenures, now, tenures};
use super::wire::Wire;
use super::world::{Setup, World, eventually};

#[test]
fn a_killed_owner_is_replaced_and_its_fencing_number_is_smaller() {
    let mut world = World::new();
    world.start("a", &["both"], "");
    world.wait_for_tool("both__pid");
    world.start("b", &["both"], "");
    world.start("c", &[], "");
    world.wait_for_tool("both__pid");
    let before = world.node("c").call("both__pid", &json!({})).unwrap();
    let kills = vec![("a", now())];
    world.kill("a");
    let after = eventually("another owner", || {
        world.node("c").call("both__pid", &json!({})).ok().filter(|after| *after != before)
    });
    assert_eq!(world.node("b").call("both__pid", &json!({})), Ok(after));
    let all = tenures(&world, &["a", "b"], &kills);
    check_tenures(&all);
    let nodes: Vec<&str> = all["both"].iter().map(|tenure| tenure.node).collect();
    assert_eq!(nodes, ["a", "b"]);
}

#[test]
fn a_stopped_owner_is_replaced_long_before_its_lease_would_end() {
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
    let took = start.elapsed();
    println!("taken over {took:?} after the owner stopped");
    assert!(took < Duration::from_mins(2), "{took:?}");
}

#[test]
fn a_restart_of_nats_hides_no_upstream_and_ends_no_session() {
    let mut world = World::new();
    world.start("a", &["one"], "");
    world.start("b", &[], "");
    world.wait_for_tool("one__pid");
    let session = open_session(&world.node("a").url);
    let url = world.node("b").url.clone();
    let look = |world: &World| {
        assert!(world.node("b").tools().contains(&"one__pid".to_owned()));
        let reply = read(legacy(&url, &session, "tools/list", &json!({})));
        assert_eq!(reply.status, 200, "{}", reply.body);
    };
    let is_connected = |world: &World| world.node("b").status()["connected"] == true;
    for _ in 0..5 {
        world.nats.kill(0);
        eventually("the loss of NATS at b", || {
            look(&world);
            (!is_connected(&world)).then_some(())
        });
        world.nats.start(0);
        eventually("NATS at b again", || {
            look(&world);
            let status = world.node("b").status();
            (status["connected"] == true && status["inSync"] == true).then_some(())
        });
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            look(&world);
        }
    }
}

#[test]
fn what_changes_while_nats_is_away_is_seen_afterwards() {
    let mut world = World::new();
    let (port, config) = (free_port(), "[audit]\nenabled = true\n");
    let setup = Setup { upstreams: &["one"], cluster: "audit = true", config, ..Setup::default() };
    world.start_with("a", Setup { apps: Some(port), ..setup });
    world.start("b", &[], "");
    world.wait_for_tool("one__grow");
    world.nats.kill(0);
    eventually("the loss of NATS", || (world.node("a").status()["connected"] == false).then_some(()));
    let clock = Mortal::app(port, "Clock");
    eventually("the new app at its node", || {
        world.node("a").tools().contains(&"Clock__who".to_owned()).then_some(())
    });
    world.node("b").call("one__grow", &json!({ "name": "more" })).unwrap();
    for _ in 0..5 {
        world.node("a").call("one__pid", &json!({})).unwrap();
    }
    world.nats.start(0);
    for tool in ["Clock__who", "one__more"] {
        world.wait_for_tool(tool);
    }
    let answer = world.node("b").call("Clock__who", &json!({ "word": "hi" }));
    assert_eq!(answer, Ok(format!("Clock {} hi", clock.pid())));
    eventually("the records of calls without NATS", || {
        let records = world.audit("a");
        let is_ended = |record: &&Value| {
            record["what"] == "ended" && record["method"] == "tools/call" && record["node"] == "a"
        };
        (records.iter().filter(is_ended).count() == 5).then_some(())
    });
}

#[test]
fn a_suspended_nats_server_harms_no_call_and_moves_no_program() {
    let mut world = World::new();
    world.start("a", &["both"], "");
    world.wait_for_tool("both__pid");
    world.start("b", &["both"], "");
    world.wait_for_tool("both__pid");
    let before = world.node("a").call("both__pid", &json!({})).unwrap();
    let call = |world: &World| {
        for node in ["a", "b"] {
            assert_eq!(world.node(node).call("both__pid", &json!({})), Ok(before.clone()));
            assert!(world.node(node).tools().contains(&"both__pid".to_owned()));
        }
    };
    world.nats.signal(0, Signal::SIGSTOP);
    for node in ["a", "b"] {
        eventually("the silence of NATS", || {
            call(&world);
            (world.node(node).status()["connected"] == false).then_some(())
        });
    }
    world.node("a").call("both__grow", &json!({ "name": "more" })).unwrap();
    // What nodes sent meanwhile is carried out only now.
    world.nats.signal(0, Signal::SIGCONT);
    for node in ["a", "b"] {
        eventually("NATS again", || {
            call(&world);
            let status = world.node(node).status();
            (status["connected"] == true && status["inSync"] == true).then_some(())
        });
    }
    world.wait_for_tool("both__more");
    world.start("c", &["both"], "");
    world.wait_for_tool("both__pid");
    assert_eq!(world.node("c").call("both__pid", &json!({})), Ok(before.clone()));
    assert_eq!(world.starts("both").len(), 1);
    check_tenures(&tenures(&world, &["a", "b", "c"], &Vec::new()));
}

/// The state of an upstream at a node, and the reason.
fn state_of(world: &World, node: &str, id: &str) -> (Value, String) {
    let output = world.node(node).run(&["list", "--json"]);
    let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let server = list.as_array().unwrap().iter().find(|server| server["id"] == id);
    let live = server.map_or(Value::Null, |server| server["live"].clone());
    (live["state"].clone(), live["reason"].to_string())
}

#[test]
fn upstreams_of_a_node_that_cannot_be_reached_at_all_are_retrying_until_it_can_be_reached() {
    let mut world = World::new();
    let wires = [("a", "one"), ("b", "two")].map(|(node, upstream)| {
        let (real, shown) = (free_port(), free_port());
        // The lease is long, so that no program is stopped.
        let cluster =
            format!("listen = \"127.0.0.1:{real}\"\nadvertise = \"127.0.0.1:{shown}\"\nlease = \"1h\"");
        world.start(node, &[upstream], &cluster);
        Wire::between(shown, real)
    });
    let (own, others) = ([("a", "one"), ("b", "two")], [("a", "two"), ("b", "one")]);
    let call = |world: &World, node: &str, id: &str| world.node(node).call(&format!("{id}__pid"), &json!({}));
    for tool in ["one__pid", "two__pid"] {
        world.wait_for_tool(tool);
    }
    for (node, id) in others {
        call(&world, node, id).unwrap();
    }
    world.nats.kill(0);
    wires.iter().for_each(Wire::cut);
    let cut = Instant::now();
    for (node, id) in others {
        eventually("an upstream of the other node is retrying", || {
            for (node, id) in own {
                call(&world, node, id).unwrap();
            }
            (state_of(&world, node, id).0 == "retrying").then_some(())
        });
        println!(
            "{id} at {node} is retrying {:?} after the cut: {}",
            cut.elapsed(),
            state_of(&world, node, id).1
        );
        let refused = call(&world, node, id).unwrap_err();
        assert!(refused.contains(id), "{refused}");
    }
    assert!(own.iter().all(|(node, id)| state_of(&world, node, id).0 == "active"));
    wires.iter().for_each(Wire::restore);
    world.nats.start(0);
    for (node, id) in others {
        eventually("it is active again", || (state_of(&world, node, id).0 == "active").then_some(()));
        call(&world, node, id).unwrap();
    }
    assert_eq!(["one", "two"].map(|id| world.starts(id).len()), [1, 1], "no program was harmed");
}

#[test]
fn calls_go_through_nats_when_a_direct_connection_that_worked_is_lost() {
    let mut world = World::new();
    let (real, shown) = (free_port(), free_port());
    let wire = Wire::between(shown, real);
    let cluster = format!("listen = \"127.0.0.1:{real}\"\nadvertise = \"127.0.0.1:{shown}\"");
    world.start("a", &["one"], &cluster);
    world.start("b", &[], "");
    world.wait_for_tool("one__pid");
    let link = || {
        let status = world.node("b").status();
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["node"] == "a").unwrap()["link"]["by"].clone()
    };
    let call = || world.node("b").call("one__pid", &json!({}));
    call().unwrap();
    assert_eq!(link(), "direct");
    wire.cut();
    eventually("a call through NATS", || call().ok().filter(|_| link() == "nats"));
    for _ in 0..5 {
        call().unwrap();
    }
    assert_eq!(world.starts("one").len(), 1, "the program was not harmed");
}

#[test]
fn a_call_that_a_killed_owner_was_carrying_out_is_reported_as_such_and_not_repeated() {
    let mut world = World::new();
    world.start("a", &["both"], "");
    world.wait_for_tool("both__hold");
    world.start("b", &["both"], "");
    world.wait_for_tool("both__hold");
    let port = world.node("b").port();
    let call = std::thread::spawn(move || attempt(port, "both__hold", &json!({ "held": true })));
    let held =
        |world: &World| world.calls("both").iter().filter(|(_, arguments)| arguments["held"] == true).count();
    eventually("the call at the program", || (held(&world) == 1).then_some(()));
    world.kill("a");
    let failure = call.join().unwrap().unwrap().unwrap_err();
    assert!(failure.contains("the call may have been carried out"), "{failure}");
    eventually("another owner", || world.node("b").call("both__pid", &json!({})).ok());
    assert_eq!(held(&world), 1);
}

#[test]
fn a_node_that_starts_without_nats_serves_all_but_its_programs_and_these_when_nats_is_there() {
    let mut world = World::new();
    world.nats.kill(0);
    let (port, hosted) = (free_port(), Protected::open(&world));
    let setup = Setup { upstreams: &["one"], config: &hosted.config, apps: Some(port), ..Setup::default() };
    world.start_with("a", setup);
    let clock = Mortal::app(port, "Clock");
    let node = world.node("a");
    eventually("its server", || node.call("hosted__hello", &json!({})).ok());
    let app = eventually("its app", || node.call("Clock__who", &json!({ "word": "hi" })).ok());
    assert_eq!(app, format!("Clock {} hi", clock.pid()));
    eventually("why its program waits", || {
        state_of(&world, "a", "one").1.contains("has no owner in the cluster yet").then_some(())
    });
    assert!(world.starts("one").is_empty());
    world.nats.start(0);
    eventually("its program", || world.node("a").call("one__pid", &json!({})).ok());
}

#[test]
fn when_nats_has_lost_its_data_nodes_publish_and_claim_everything_again() {
    let mut world = World::new();
    world.start("a", &["one"], "");
    world.start("b", &["two"], "");
    let tools = ["one__pid", "two__pid"];
    for tool in tools {
        world.wait_for_tool(tool);
    }
    world.nats.lose(0);
    for node in ["a", "b"] {
        eventually("the loss of NATS", || (world.node(node).status()["connected"] == false).then_some(()));
    }
    world.nats.start(0);
    // This node learns of the others only by what they publish again.
    world.start("c", &[], "");
    for tool in tools {
        world.wait_for_tool(tool);
        for node in ["a", "b", "c"] {
            eventually(tool, || world.node(node).call(tool, &json!({})).ok());
        }
    }
    let owners = world.node("c").status()["owners"].clone();
    let owner = |id: &str| {
        let owner = owners.as_array().unwrap().iter().find(|owner| owner["id"] == id);
        owner.map(|owner| owner["node"].clone())
    };
    assert_eq!((owner("one"), owner("two")), (Some(json!("a")), Some(json!("b"))), "{owners}");
}

#[test]
fn a_second_node_with_the_same_name_stays_out_of_the_cluster_until_the_first_one_is_gone() {
    let mut world = World::new();
    world.start("a", &["one"], "");
    world.start("b", &[], "");
    world.wait_for_tool("one__pid");
    let session = open_session(&world.node("a").url);
    let url = world.node("b").url.clone();
    world.start("twin", &["two"], "node = \"a\"");
    eventually("the refusal", || {
        let status = world.node("twin").status();
        status["problem"].as_str()?.contains("has the name `a`").then_some(())
    });
    let doctor = String::from_utf8(world.node("twin").run(&["doctor"]).stdout).unwrap();
    assert!(doctor.contains("set another `node` in [cluster]"), "{doctor}");
    assert!(!world.node("b").tools().contains(&"two__pid".to_owned()));
    assert_eq!(world.node("b").status()["nodes"].as_array().unwrap().len(), 2);
    let reply = read(legacy(&url, &session, "tools/list", &json!({})));
    assert_eq!(reply.status, 200, "{}", reply.body);
    world.stop("a");
    world.wait_for_tool("two__pid");
    world.node("b").call("two__pid", &json!({})).unwrap();
}
