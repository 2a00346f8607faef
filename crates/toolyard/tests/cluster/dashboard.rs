//! The cluster's page of the dashboard, as far as it depends on the gateway: every field that its script reads is in the
//! answers of the control API.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::world::{Node, World, eventually};

/// Asks the control API over the local socket, as the user that runs the gateway.
fn get(node: &Node, path: &str) -> Value {
    let socket = socket(node.folder()).expect("a node has a local socket");
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET /api/v1{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{text}");
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{text}"))
}

fn socket(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries.into_iter().find_map(|path| match path.file_name() {
        Some(name) if name == "mcp.sock" => Some(path),
        _ if path.is_dir() => socket(&path),
        _ => None,
    })
}

/// The fields that the script reads of a variable.
fn read_of(variable: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolyard-dashboard/assets/cluster.js");
    let script = std::fs::read_to_string(path).unwrap();
    let name = |rest: &str| rest.chars().take_while(char::is_ascii_alphanumeric).collect::<String>();
    let begins = |at: usize| !script[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '.');
    let uses = script.match_indices(variable).filter(|(at, _)| begins(*at));
    let rest = |(at, _): (usize, &str)| script[at + variable.len()..].strip_prefix('.').map(name);
    // `nodes.map` and the like are of lists.
    uses.filter_map(rest).collect()
}

fn check(object: &Value, variable: &str, at_least: usize) {
    let read = read_of(variable);
    assert!(read.len() >= at_least, "the script of the page has changed: {read:?}");
    let missing: Vec<&String> = read.iter().filter(|field| object.get(field.as_str()).is_none()).collect();
    assert!(missing.is_empty(), "the page reads {missing:?} of {variable}, which is {object}");
}

#[test]
fn the_cluster_page_of_the_dashboard_finds_every_field_that_it_reads() {
    let mut world = World::new();
    world.start("a", &["one"], "");
    world.start("b", &[], "");
    world.wait_for_tool("one__pid");
    world.node("b").call("one__pid", &json!({})).unwrap();
    assert_eq!(get(world.node("b"), "/cluster/membership"), json!({ "isMember": true }));
    let status = eventually("both nodes", || {
        let status = get(world.node("b"), "/cluster");
        (status["nodes"].as_array()?.len() == 2).then_some(status)
    });
    check(&status, "status", 6);
    for node in status["nodes"].as_array().unwrap() {
        check(node, "node", 8);
    }
    let other = status["nodes"].as_array().unwrap().iter().find(|node| node["self"] == false).unwrap();
    check(&other["link"], "node.link", 3);
    assert_eq!(other["link"]["by"], "direct", "{other}");
    check(&status["owners"][0], "owner", 5);
}
