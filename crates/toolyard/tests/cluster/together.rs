//! What nodes have together: limits, and the audit.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::attempt::attempt;
use super::cutter::Cutter;
use super::world::{Setup, World, call, eventually};

const LIMITED: &str =
    "[limits.slow]\nwindow = \"60/10m\"\nqueue = 0\n[tools.\"one:*\"]\nlimits = [\"slow\"]\n";

/// How many calls are let through if all these nodes are called in turn for a while.
fn let_through(world: &World, nodes: &[&str], duration: Duration) -> usize {
    let (start, mut through) = (Instant::now(), 0);
    while start.elapsed() < duration {
        for node in nodes {
            match world.node(node).call("one__pid", &json!({})) {
                Ok(_) => through += 1,
                Err(error) => assert!(error.contains("slow"), "{error}"),
            }
        }
    }
    through
}

#[test]
fn use_of_a_limit_by_other_nodes_counts_after_a_burst() {
    let mut world = World::new();
    world.start_with("a", Setup { upstreams: &["one"], config: LIMITED, ..Setup::default() });
    world.start_with("b", Setup { config: LIMITED, ..Setup::default() });
    world.start_with("c", Setup { config: LIMITED, ..Setup::default() });
    world.wait_for_tool("one__pid");
    for node in ["a", "b", "c"] {
        eventually("three nodes", || {
            (world.node(node).status()["nodes"].as_array()?.len() == 3).then_some(())
        });
    }
    // Each has published several times that it asks for nothing, so each has a third of the limit.
    world.nats.wait_for_messages("toolyard.demand", 9);
    let first = let_through(&world, &["a", "b", "c"], Duration::from_secs(4));
    let later = let_through(&world, &["c"], Duration::from_secs(6));
    println!("{first} calls through three nodes, {later} more through one");
    // Without shares it would be 180. What nodes take in the first second of a burst is known to the others only
    // afterwards; from then on the limit holds. The tests of the shares simulate many such bursts, with the same bound.
    assert!((60..=150).contains(&first), "{first}");
    assert_eq!(later, 0, "what the other nodes have used counts here");
}

#[test]
fn a_burst_at_one_node_reaches_the_limit_exactly_and_a_forwarded_call_counts_once() {
    let mut world = World::new();
    world.start_with("a", Setup { upstreams: &["one"], config: LIMITED, ..Setup::default() });
    world.start_with("b", Setup { config: LIMITED, ..Setup::default() });
    world.start_with("c", Setup { config: LIMITED, ..Setup::default() });
    world.wait_for_tool("one__pid");
    // The node that is called has not the program, so each call is forwarded.
    let mut through = 0;
    eventually("the whole limit at one node", || {
        through += let_through(&world, &["c"], Duration::from_millis(100));
        (through >= 60).then_some(())
    });
    through += let_through(&world, &["c"], Duration::from_secs(4));
    assert_eq!((through, world.calls("one").len()), (60, 60));
}

/// Rules of all nodes ask an operator about one tool.
const HELD: &str = "[[rules]]\ntools = [\"one:add\"]\ndo = \"approve\"\nby = \"operator\"\n";

#[test]
fn a_call_that_waits_at_one_node_is_approved_at_another_and_passes_once() {
    let mut world = World::new();
    world.start_with("a", Setup { upstreams: &["one"], config: HELD, ..Setup::default() });
    world.start_with("b", Setup { config: HELD, ..Setup::default() });
    world.wait_for_tool("one__add");
    let url = world.node("b").url.clone();
    let first = std::thread::spawn(move || call(&url, "one__add", &json!({ "number": 1 })));
    let waiting = eventually("the call at a", || {
        let output = world.node("a").run(&["approve"]);
        let text = String::from_utf8(output.stdout).unwrap();
        text.contains("one:add").then_some(text)
    });
    assert!(waiting.contains("(at the node b)"), "{waiting}");
    let id = waiting.split_whitespace().next().unwrap();
    let output = world.node("a").run(&["approve", id]);
    assert!(output.status.success(), "{output:?}");
    // The call itself may have waited, or has to be made again, as at one gateway.
    if first.join().unwrap().is_err() {
        world.node("b").call("one__add", &json!({ "number": 1 })).unwrap();
    }
    assert_eq!(world.calls("one").len(), 1);
    let again = world.node("a").run(&["approve", id]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("no pending approval"), "{again:?}");
}

#[test]
fn an_approval_outlives_the_node_of_its_call_and_is_used_once() {
    let mut world = World::new();
    world.start_with("a", Setup { upstreams: &["one"], config: HELD, ..Setup::default() });
    world.start_with("b", Setup { config: HELD, ..Setup::default() });
    world.start_with("c", Setup { config: HELD, ..Setup::default() });
    world.wait_for_tool("one__add");
    let port = world.node("b").port();
    let first = std::thread::spawn(move || attempt(port, "one__add", &json!({ "number": 1 })));
    eventually("the call in the store", || {
        world.nats.messages("KV_toolyard_approvals").filter(|count| *count > 0)
    });
    world.kill("b");
    assert_eq!(first.join().unwrap(), None, "the call ends with its node");
    let waiting = eventually("the call at c, after its node is gone", || {
        let output = world.node("c").run(&["approve"]);
        let text = String::from_utf8(output.stdout).unwrap();
        text.contains("one:add").then_some(text)
    });
    let id = waiting.split_whitespace().next().unwrap();
    let output = world.node("c").run(&["approve", id]);
    assert!(output.status.success(), "{output:?}");
    eventually("the grant at a", || {
        let answer = attempt(world.node("a").port(), "one__add", &json!({ "number": 1 }))?;
        answer.ok()
    });
    assert_eq!(world.calls("one").len(), 1);
    for node in ["a", "c"] {
        let again = world.node(node).run(&["approve"]);
        let text = String::from_utf8(again.stdout).unwrap();
        assert!(!text.contains(id), "{node}: {text}");
    }
    // The rule asks again, so the grant was for one call.
    let refused = world.node("c").call("one__add", &json!({ "number": 1 }));
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(world.calls("one").len(), 1);
}

/// The same, with approvals for all equal calls. A call does not wait for long.
const HELD_FOR_LONG: &str = "[[rules]]\ntools = [\"one:add\"]\ndo = \"approve\"\nby = \"operator\"\nremember = \"session\"\nwait = \"100ms\"\n";

#[test]
fn an_approval_of_all_equal_calls_of_a_client_without_a_session_is_valid_at_all_nodes() {
    let mut world = World::new();
    world.start_with("a", Setup { upstreams: &["one"], config: HELD_FOR_LONG, ..Setup::default() });
    world.start_with("b", Setup { config: HELD_FOR_LONG, ..Setup::default() });
    world.start_with("c", Setup { config: HELD_FOR_LONG, ..Setup::default() });
    world.wait_for_tool("one__add");
    let add = |node: &str, number: u64| world.node(node).call("one__add", &json!({ "number": number }));
    let refused = add("b", 1).unwrap_err();
    let id = refused.split_once("pending as ").unwrap().1.split_whitespace().next().unwrap();
    let id = id.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    eventually("the call at a", || {
        let output = world.node("a").run(&["approve"]);
        String::from_utf8(output.stdout).unwrap().contains(id).then_some(())
    });
    let output = world.node("a").run(&["approve", id]);
    assert!(output.status.success(), "{output:?}");
    for node in ["b", "c", "a"] {
        eventually(&format!("the grant at {node}"), || add(node, 1).ok());
    }
    for node in ["a", "b", "c", "a", "b", "c"] {
        add(node, 1).unwrap_or_else(|error| panic!("again at {node}: {error}"));
    }
    assert_eq!(world.calls("one").len(), 9);
    assert!(add("c", 2).is_err(), "other arguments need an approval of their own");
}

#[test]
fn a_changed_definition_is_held_at_a_node_that_never_saw_it_before_and_approved_once() {
    let config = "[pins]\ndefault = \"hold\"\n";
    let setup = Setup { upstreams: &["both"], config, ..Setup::default() };
    let mut world = World::new();
    world.start_with("a", setup);
    world.wait_for_tool("both__pid");
    eventually("the record", || world.nats.messages("KV_toolyard_pins").filter(|count| *count > 0));
    world.stop("a");
    world.describe("both", "Now does something else.");
    // This node has no record of its own.
    world.start_with("c", setup);
    let held = |world: &World, node: &str| {
        let output = world.node(node).run(&["approve"]);
        String::from_utf8(output.stdout).unwrap().contains("both:pid")
    };
    eventually("the changed tool is held at c", || held(&world, "c").then_some(()));
    assert!(!world.node("c").tools().contains(&"both__pid".to_owned()));
    let output = world.node("c").run(&["approve", "both"]);
    assert!(output.status.success(), "{output:?}");
    world.wait_for_tool("both__pid");
    world.start_with("b", setup);
    eventually("the approval at b", || {
        world.node("b").tools().contains(&"both__pid".to_owned()).then_some(())
    });
    assert!(!held(&world, "b"));
    world.stop("c");
    eventually("the program at b", || world.node("b").call("both__pid", &json!({})).ok());
    assert!(!held(&world, "b"), "what was approved at c is accepted at b");
}

#[test]
fn the_audit_of_all_nodes_is_in_one_stream_once() {
    let mut world = World::new();
    let config = "[audit]\nenabled = true\n";
    world.start_with("a", Setup { upstreams: &["one"], cluster: "audit = true", config, ..Setup::default() });
    world.start_with("b", Setup { cluster: "audit = true", config, ..Setup::default() });
    world.start_with("laptop", Setup { config, ..Setup::default() });
    world.wait_for_tool("one__pid");
    for node in ["a", "b", "laptop"] {
        for _ in 0..5 {
            world.node(node).call("one__pid", &json!({})).unwrap();
        }
    }
    let count = |records: &[Value], node: &str| {
        records.iter().filter(|record| record["node"] == node && record["method"] == "tools/call").count()
    };
    let is_ended = |record: &Value| record["what"] == "ended";
    // A kill loses records that are not safe yet.
    eventually("the first records of b", || {
        let mut records = world.audit("a");
        records.retain(is_ended);
        (count(&records, "b") == 5).then_some(())
    });
    // A node that is killed goes on where the stream is.
    world.kill("b");
    world.start_with("b", Setup { cluster: "audit = true", config, ..Setup::default() });
    world.wait_for_tool("one__pid");
    for _ in 0..5 {
        world.node("b").call("one__pid", &json!({})).unwrap();
    }
    let records = eventually("the records of both nodes", || {
        let mut records = world.audit("a");
        records.retain(is_ended);
        (count(&records, "a") >= 5 && count(&records, "b") >= 10).then_some(records)
    });
    assert_eq!((count(&records, "a"), count(&records, "b"), count(&records, "laptop")), (5, 10, 0));
    assert!(world.node("a").status()["auditCopied"].as_u64().unwrap() >= 5);
    for stored in world.nats.stored("toolyard_audit") {
        let text = String::from_utf8(stored).unwrap();
        assert!(!text.contains("tools/call"), "NATS can read a record: {text}");
    }
    assert!(world.node("laptop").status()["auditCopied"].is_null());
}

/// Waits until so many more calls were answered.
fn wait_for_calls(answered: &AtomicUsize, more: usize) {
    let goal = answered.load(Ordering::SeqCst) + more;
    eventually("more calls", || (answered.load(Ordering::SeqCst) >= goal).then_some(()));
}

#[test]
fn nats_that_is_lost_under_load_leaves_no_gap_and_no_record_twice_in_the_copy() {
    let mut world = World::new();
    let cutter = Cutter::before(&world.nats.url(0));
    let cluster = format!("nats = \"{}\"\naudit = true", cutter.url);
    let config = "[audit]\nenabled = true\n";
    world.start_with("a", Setup { upstreams: &["one"], cluster: &cluster, config, ..Setup::default() });
    world.wait_for_tool("one__pid");
    let (url, answered, is_over) = (world.node("a").url.clone(), AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                // A failed test ends, too.
                while !is_over.load(Ordering::SeqCst) && answered.load(Ordering::SeqCst) < 50_000 {
                    call(&url, "one__pid", &json!({})).unwrap();
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for _ in 0..2 {
            world.nats.kill(0);
            wait_for_calls(&answered, 300);
            // It is lost again at the beginning of what was recorded in the meantime.
            cutter.arm();
            world.nats.start(0);
            cutter.wait();
        }
        is_over.store(true, Ordering::SeqCst);
    });
    world.node("a").call("one__add", &json!({ "number": 1 })).unwrap();
    let is_last = |record: &Value| record["what"] == "ended" && record["tool"] == "one:add";
    let records = eventually("the last record", || {
        let records = world.audit("a");
        records.iter().any(is_last).then_some(records)
    });
    let numbers: Vec<i64> = records.iter().map(|record| record["id"].as_i64().unwrap()).collect();
    let wrong = (1..).zip(&numbers).find(|(expected, number)| expected != *number);
    assert_eq!(wrong, None, "expected, and found; of {} records", numbers.len());
    println!("{} calls, {} records", answered.into_inner(), numbers.len());
}
