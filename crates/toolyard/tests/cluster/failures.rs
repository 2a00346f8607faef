//! Nodes that are stopped or killed.

use std::collections::BTreeMap;
use std::time::Instant;

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

/// The numbers by which a node has owned each upstream.
pub(crate) fn fences(log: &str) -> BTreeMap<String, Vec<u64>> {
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
