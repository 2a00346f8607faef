//! Upstreams of other nodes: listed and called as if they were here.

use std::time::{Duration, Instant};

use serde_json::json;

use super::world::{World, eventually};

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
fn a_program_in_two_configs_runs_once() {
    let mut world = World::new();
    world.start("a", &["both"], "");
    world.start("b", &["both"], "");
    world.wait_for_tool("both__pid");
    for _ in 0..5 {
        for node in ["a", "b"] {
            world.node(node).call("both__pid", &json!({})).unwrap();
        }
    }
    let calls = world.calls("both");
    assert_eq!(calls.len(), 10);
    assert!(calls.iter().all(|(process, _)| *process == calls[0].0), "{calls:?}");
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

/// The figure is printed; what is asserted leaves room for a machine that is busy with other things.
#[test]
fn a_new_tool_is_soon_seen_at_every_node() {
    let mut world = World::new();
    world.start("a", &["one"], "");
    world.start("b", &[], "");
    world.start("c", &[], "");
    world.wait_for_tool("one__grow");
    let mut times = Vec::new();
    for number in 0..5 {
        let name = format!("new{number}");
        world.node("b").call("one__grow", &json!({ "name": name })).unwrap();
        let start = Instant::now();
        world.wait_for_tool(&format!("one__{name}"));
        times.push(start.elapsed());
    }
    times.sort();
    println!("a new tool is seen at all nodes after {:?} (the third of {times:?})", times[2]);
    assert!(times[2] < Duration::from_secs(5), "{times:?}");
}

/// The figures are printed; what is asserted leaves room for a machine that is busy with other things.
#[test]
fn a_call_to_another_node_costs_little_more_than_one_here() {
    let mut world = World::new();
    world.start("a", &["one"], "");
    world.start("b", &[], "");
    world.wait_for_tool("one__pid");
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..300 {
        for (at, node) in ["a", "b"].iter().enumerate() {
            let start = Instant::now();
            world.node(node).call("one__pid", &json!({})).unwrap();
            times[at].push(start.elapsed());
        }
    }
    let [here, there] = times.map(|mut times: Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    });
    println!("p50 of a call here {here:?}, to another node {there:?}");
    assert!(there < 4 * here + Duration::from_millis(5), "{here:?} {there:?}");
}
