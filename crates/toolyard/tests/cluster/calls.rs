//! Upstreams of other nodes: listed and called as if they were here.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::world::{Setup, World, eventually};

#[test]
fn every_node_lists_and_calls_the_upstreams_of_all() {
    let mut world = World::new();
    world.start("a", &["one"], "");
    world.start("b", &["two"], "");
    world.start("c", &[], "");
    for tool in ["one__pid", "two__pid"] {
        world.wait_for_tool(tool);
        let answers: Vec<String> =
            ["a", "b", "c"].map(|node| world.node(node).call(tool, &json!({})).unwrap()).into();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "one process answers: {answers:?}");
    }
    let status = world.node("c").status();
    let owners = status["owners"].as_array().unwrap();
    let owner = |id: &str| owners.iter().find(|owner| owner["id"] == id).unwrap()["node"].clone();
    assert_eq!((owner("one"), owner("two")), (json!("a"), json!("b")));
    assert_eq!((status["connected"].clone(), status["nodes"].as_array().unwrap().len()), (json!(true), 3));
}

#[test]
fn a_program_in_three_configs_is_started_once() {
    let mut world = World::new();
    // All of them claim it at the same moment.
    world.nats.kill(0);
    for node in ["a", "b", "c"] {
        world.start(node, &["both"], "");
    }
    world.nats.start(0);
    world.wait_for_tool("both__pid");
    for _ in 0..5 {
        for node in ["a", "b", "c"] {
            world.node(node).call("both__pid", &json!({})).unwrap();
        }
    }
    let calls = world.calls("both");
    assert_eq!(calls.len(), 15);
    assert!(calls.iter().all(|(process, _)| *process == calls[0].0), "{calls:?}");
    assert_eq!(world.starts("both"), [calls[0].0], "a node that lost the claim started the program, too");
}

#[test]
fn unexported_tools_are_hidden_from_other_nodes() {
    let mut world = World::new();
    world.start("a", &["public", "private"], "export = [\"public\"]");
    world.start("b", &[], "");
    eventually("the public one at b", || {
        world.node("b").tools().contains(&"public__pid".to_owned()).then_some(())
    });
    assert!(!world.node("b").tools().contains(&"private__pid".to_owned()));
    assert!(world.node("a").tools().contains(&"private__pid".to_owned()));
}

#[test]
fn a_new_tool_is_seen_at_every_node_within_seconds() {
    let mut world = World::new();
    world.start("a", &["one"], "");
    world.start("b", &[], "");
    world.start("c", &[], "");
    world.wait_for_tool("one__grow");
    for name in ["first", "second"] {
        let start = Instant::now();
        world.node("b").call("one__grow", &json!({ "name": name })).unwrap();
        world.wait_for_tool(&format!("one__{name}"));
        // Usually a quarter of a second; `figures` measures it.
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

/// How the config of another node compares, as a node reports it.
fn config_of(world: &World, node: &str, other: &str) -> Option<bool> {
    let status = world.node(node).status();
    let nodes = status["nodes"].as_array()?;
    nodes.iter().find(|node| node["node"] == other)?["sameConfig"].as_bool()
}

#[test]
fn a_node_with_another_config_is_reported_as_different() {
    let mut world = World::new();
    world.start("a", &["both"], "");
    world.start("b", &["both"], "");
    world.start("c", &["both", "more"], "");
    world.wait_for_tool("both__pid");
    let same = eventually("b at a", || config_of(&world, "a", "b"));
    let different = eventually("c at a", || config_of(&world, "a", "c"));
    assert_eq!((same, different), (true, false));
    let table = String::from_utf8(world.node("a").run(&["cluster", "status"]).stdout).unwrap();
    let line = |node: &str| table.lines().find(|line| line.starts_with(node)).unwrap().to_owned();
    assert!(line("b ").ends_with("same") && line("c ").ends_with("differs"), "{table}");
    let findings = String::from_utf8(world.node("a").run(&["doctor"]).stdout).unwrap();
    assert!(findings.contains("connected to NATS, with 2 other nodes"), "{findings}");
    assert!(findings.contains("node c has other upstreams, profiles or rules"), "{findings}");
    assert!(!findings.contains("node b"), "{findings}");
}

#[test]
fn the_state_of_an_upstream_crosses_to_nodes_that_do_not_have_it() {
    let mut world = World::new();
    let config = "[upstreams.broken]\ncommand = \"false\"\n";
    world.start_with("a", Setup { config, ..Setup::default() });
    world.start("b", &[], "");
    let state = |node: &str| {
        let output = world.node(node).run(&["list", "--json"]);
        let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let broken = list.as_array().unwrap().iter().find(|server| server["id"] == "broken")?;
        Some((broken["live"]["state"].clone(), broken["live"]["reason"].to_string()))
    };
    eventually("the state at b", || {
        let (phase, reason) = state("b")?;
        let is_failure = phase == "retrying" || phase == "dead";
        (is_failure && state("a")?.0 == phase && reason.contains("(at the node `a`)")).then_some(())
    });
}
