//! Figures of a release build, on a machine that does nothing else: `cargo xtask cluster --figures` runs these tests and
//! no others. Each fails if its figure is missed, and appends it to the file that `TOOLYARD_FIGURES` names, one line for
//! each: what was measured, the figure, the goal, and whether it was met.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;

use super::apps::Mortal;
use super::nats::free_port;
use super::testkit;
use super::world::{Setup, World};

const ROUNDS: usize = 11;
const CALLS: usize = 300;
/// How much longer a call to another node may take than one here, in hundredths.
const DEAREST: u128 = 180;
/// How soon every node shows a change.
const SEEN: Duration = Duration::from_secs(1);

/// A client that keeps its connection.
struct KeepAlive {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
}

impl KeepAlive {
    fn new(url: &str, tool: &str) -> Self {
        let address = url.trim_start_matches("http://").split('/').next().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
        let params = json!({ "name": tool, "arguments": {}, "_meta": meta });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
             mcp-method: tools/call\r\nmcp-name: {tool}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        Self { stream: BufReader::new(stream), request: request.into_bytes() }
    }

    /// How long one call takes.
    fn call(&mut self) -> Duration {
        let start = Instant::now();
        self.stream.get_mut().write_all(&self.request).unwrap();
        let (mut length, mut is_chunked) = (0, false);
        loop {
            let line = self.line();
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
            is_chunked |= lower == "transfer-encoding: chunked";
            if line.is_empty() {
                break;
            }
        }
        let body = if is_chunked { self.chunks() } else { self.bytes(length) };
        let took = start.elapsed();
        assert!(String::from_utf8_lossy(&body).contains("content"), "{}", String::from_utf8_lossy(&body));
        took
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.stream.read_line(&mut line).unwrap(), 0, "the connection was closed");
        line.trim_end().to_owned()
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut whole = Vec::new();
        loop {
            let length = usize::from_str_radix(&self.line(), 16).unwrap();
            whole.extend(self.bytes(length));
            self.line();
            if length == 0 {
                return whole;
            }
        }
    }
}

fn note(what: &str, figure: &str, goal: &str, is_met: bool) {
    println!("{what}: {figure} (goal: {goal})");
    let Some(path) = std::env::var_os("TOOLYARD_FIGURES") else { return };
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    let verdict = if is_met { "met" } else { "missed" };
    writeln!(file, "{what}\t{figure}\t{goal}\t{verdict}").unwrap();
}

fn median<T: Ord + Copy>(values: &mut [T]) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

/// The medians of all rounds: p50 here, p50 to another node, and how much longer that is in hundredths. Calls take
/// turns, so that what else the machine does concerns both.
fn compare(world: &World, tool: &str) -> (Duration, Duration, u128) {
    let mut clients = ["a", "b"].map(|node| KeepAlive::new(&world.node(node).url, tool));
    let (mut here, mut there, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..CALLS {
            for (client, times) in clients.iter_mut().zip(&mut times) {
                times.push(client.call());
            }
        }
        let [own, other] = times.map(|mut times| median(&mut times));
        // The first one warms up.
        if round > 0 {
            here.push(own);
            there.push(other);
            ratios.push(100 * other.as_nanos() / own.as_nanos());
        }
    }
    (median(&mut here), median(&mut there), median(&mut ratios))
}

#[test]
fn a_call_to_another_node_costs_little_more_than_one_here() {
    let mut world = World::new();
    let script: PathBuf = testkit::build("script");
    let fast = format!("[upstreams.fast]\ncommand = \"{}\"\nargs = [\"2025-11-25\"]\n", script.display());
    world.start_with("a", Setup { upstreams: &["one"], config: &fast, ..Setup::default() });
    world.start("b", &[], "");
    world.wait_for_tool("one__pid");
    world.wait_for_tool("fast__echo");
    let mut missed = Vec::new();
    for (tool, what) in [("one__pid", "a program in Python"), ("fast__echo", "a program in Rust")] {
        let (here, there, hundredths) = compare(&world, tool);
        let ratio = |hundredths: u128| format!("{}.{:02} x", hundredths / 100, hundredths % 100);
        let figure = format!("{} ({here:?} here, {there:?} there)", ratio(hundredths));
        let is_met = hundredths <= DEAREST;
        let goal = format!("at most {}", ratio(DEAREST));
        note(&format!("p50 of a call to another node, {what}"), &figure, &goal, is_met);
        if !is_met {
            missed.push(format!("{what}: {hundredths} %"));
        }
    }
    assert!(missed.is_empty(), "more than {DEAREST} % of a call here: {missed:?}");
}

#[test]
fn a_change_of_the_catalog_is_seen_at_every_node_within_a_second() {
    let mut world = World::new();
    let port = free_port();
    world.start_with("a", Setup { upstreams: &["one"], apps: Some(port), ..Setup::default() });
    world.start("b", &[], "");
    world.start("c", &[], "");
    world.wait_for_tool("one__grow");
    // Builds the app, so that it is not part of what is measured.
    drop(Mortal::app(port, "Warm"));
    let (mut tools, mut apps) = (Vec::new(), Vec::new());
    for number in 0..9 {
        // Changes that follow each other at once are gathered; this one is alone.
        std::thread::sleep(Duration::from_secs(1));
        let name = format!("new{number}");
        world.node("b").call("one__grow", &json!({ "name": name })).unwrap();
        let start = Instant::now();
        world.wait_for_tool(&format!("one__{name}"));
        tools.push(start.elapsed());
        std::thread::sleep(Duration::from_secs(1));
        let start = Instant::now();
        let _app = Mortal::app(port, &format!("Late{number}"));
        world.wait_for_tool(&format!("Late{number}__who"));
        apps.push(start.elapsed());
    }
    for (what, times) in [("a new tool", &mut tools), ("a new app", &mut apps)] {
        times.sort_unstable();
        let figure = format!("{:?} at most, {:?} the median", times[8], times[4]);
        note(&format!("{what} is seen at all nodes"), &figure, &format!("within {SEEN:?}"), times[8] < SEEN);
    }
    assert!(tools[8] < SEEN && apps[8] < SEEN, "{tools:?} {apps:?}");
}
