//! One table of calls, at every door and through the gateway. Each gets a library of its own, made alike.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{Client, Program, listening};
use crate::services::{self, ID, keys};

/// A tenth of a second of silence.
pub(crate) fn wav() -> Vec<u8> {
    let samples = vec![0_u8; 882 * 2];
    let size = u32::try_from(samples.len()).unwrap();
    let mut bytes = b"RIFF".to_vec();
    bytes.extend((36 + size).to_le_bytes());
    bytes.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    bytes.extend(8820_u32.to_le_bytes());
    bytes.extend(17_640_u32.to_le_bytes());
    bytes.extend(b"\x02\0\x10\0data");
    bytes.extend(size.to_le_bytes());
    bytes.extend(samples);
    bytes
}

/// Ten seconds that sound different all the time, at a rate that needs no work.
#[expect(clippy::cast_possible_truncation, reason = "samples of 16 bits")]
fn tune() -> Vec<u8> {
    let at = |n: u32| (f64::from(n) * f64::from(200 + 90 * (n / 4_000)) * 5.7e-4).sin() * 12_000.0;
    let samples: Vec<u8> = (0..110_250).flat_map(|n| (at(n) as i16).to_le_bytes()).collect();
    let size = u32::try_from(samples.len()).unwrap();
    let mut bytes = wav()[..44].to_vec();
    bytes[4..8].copy_from_slice(&(36 + size).to_le_bytes());
    bytes[24..28].copy_from_slice(&11_025_u32.to_le_bytes());
    bytes[28..32].copy_from_slice(&22_050_u32.to_le_bytes());
    bytes[40..44].copy_from_slice(&size.to_le_bytes());
    bytes.extend(samples);
    bytes
}

/// In this order, since some change the library. Every tool works at least once; how some fail is there as well.
fn calls() -> Vec<(&'static str, Value)> {
    let plan = json!([{ "op": "mkdir", "path": "X" }, { "op": "move", "from": "a.wav", "to": "X/a.wav" }]);
    vec![
        ("fs_list_dir", json!({ "path": ".", "recursive_depth": -1, "detailed": true })),
        ("fs_scan_audio", json!({ "root": ".", "max_results": 1 })),
        ("fs_hash", json!({ "path": "a.wav" })),
        ("find_duplicates", json!({ "root": "." })),
        ("find_duplicates", json!({ "root": ".", "acoustic": true })),
        ("write_metadata", json!({ "path": "a.wav", "title": "A", "artist": "X", "track": 1 })),
        (
            "write_metadata_batch",
            json!({ "writes": [{ "path": "b.wav", "title": "B" }, { "path": "none", "title": "C" }] }),
        ),
        ("read_metadata", json!({ "path": "a.wav", "include_properties": true })),
        ("read_metadata_batch", json!({ "paths": ["a.wav", "../x"] })),
        ("embed_cover", json!({ "path": "a.wav", "image_bytes_base64": "/9j/4AAQ" })),
        ("embed_cover", json!({ "path": "a.wav" })),
        ("extract_picture", json!({ "path": "a.wav", "to": "front" })),
        (
            "apply_naming_scheme",
            json!({ "template": "{artist}/{track:02d} {title}", "metadata": { "artist": "AC/DC", "track": 1, "title": "T" } }),
        ),
        ("inventory_divergences", json!({ "root": ".", "path_template": "{title}" })),
        ("apply_plan", json!({ "operations": plan, "dry_run": true })),
        ("undo_plan", json!({})),
        ("apply_plan", json!({ "operations": plan })),
        ("plan_list", json!({})),
        ("undo_plan", json!({})),
        ("manifest_read", json!({ "id": "none" })),
        ("manifest_write", json!({ "id": "note", "content": { "left": ["b.wav"] } })),
        ("manifest_read", json!({ "id": "note" })),
        ("manifest_list", json!({})),
        ("manifest_write", json!({ "id": ".bad", "content": 1 })),
        ("fs_mkdir", json!({ "path": "m/n" })),
        ("fs_move", json!({ "from": "b.wav", "to": "m/n/b.wav" })),
        ("fs_rename", json!({ "from": "m/n/b.wav", "to": "m/n/c.wav" })),
        ("fs_delete", json!({ "path": "m", "recursive": true })),
        ("mb_artist_search", json!({ "search_type": "artist", "query": "radiohead" })),
        ("mb_artist_search", json!({ "search_type": "artist", "query": "" })),
        ("mb_release_search", json!({ "search_type": "release", "query": "ok computer" })),
        ("mb_recording_search", json!({ "search_type": "recording", "query": "karma police" })),
        ("mb_work_search", json!({ "query": "yesterday" })),
        ("mb_label_search", json!({ "query": "parlophone" })),
        ("mb_advanced_search", json!({ "entity": "artist", "query": "artist:radiohead" })),
        ("mb_match_from_tags", json!({ "title": "Karma Police", "artist": "Radiohead" })),
        ("mb_get_relations", json!({ "entity_type": "artist", "mbid": ID })),
        ("mb_get_relations", json!({ "entity_type": "label", "mbid": ID })),
        ("mb_cover_download", json!({ "mbid": ID, "path": "." })),
        ("mb_identify_record", json!({ "file_path": "tune.wav" })),
    ]
}

/// A home with a library in it, and the flags that name it.
fn home(services: &str) -> (TempDir, Vec<String>) {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("library");
    fs::create_dir(&root).unwrap();
    for (name, content) in [("a.wav", wav()), ("b.wav", wav()), ("tune.wav", tune())] {
        fs::write(root.join(name), content).unwrap();
    }
    let flags = ["--unproven-writes", "true", "--root", &root.display().to_string()];
    let mut flags = flags.map(ToOwned::to_owned).to_vec();
    for (key, value) in keys(services) {
        flags.extend([format!("--{key}"), value]);
    }
    (home, flags)
}

fn alone<'a>(flags: &'a [String], door: &[&'a str]) -> Vec<&'a str> {
    [&["pack", "music"], flags.iter().map(String::as_str).collect::<Vec<_>>().as_slice(), door].concat()
}

/// The result without the protocol's own stamps, and without what is different each time.
fn unstamped(mut result: Value) -> Value {
    for stamp in ["resultType", "ttlMs", "cacheScope", "_meta"] {
        result.as_object_mut().unwrap().remove(stamp);
    }
    serde_json::from_str(&masked(&result.to_string())).unwrap()
}

/// Names of plans and moments are masked, digit by digit.
pub(crate) fn masked(text: &str) -> String {
    let mut masked = text.to_owned();
    for (shape, mask) in [("plan-00000000000000-xxxxxx", "PLAN"), ("0000-00-00T00:00:00Z", "MOMENT")] {
        let fits = |at: usize| {
            let found = masked.as_bytes().get(at..at + shape.len())?;
            let is = |(found, shape): (&u8, u8)| match shape {
                b'0' => found.is_ascii_digit(),
                b'x' => found.is_ascii_hexdigit(),
                shape => *found == shape,
            };
            found.iter().zip(shape.bytes()).all(is).then_some(at)
        };
        let places: Vec<usize> = (0..masked.len()).filter_map(fits).collect();
        for at in places.into_iter().rev() {
            masked.replace_range(at..at + shape.len(), mask);
        }
    }
    masked
}

/// The answers at one door.
struct Answers {
    tools: Value,
    answers: Vec<Value>,
}

fn answers(mut call: impl FnMut(&str, &Value) -> Value) -> Vec<Value> {
    calls().iter().map(|(tool, arguments)| unstamped(call(tool, arguments))).collect()
}

/// One request of a modern client.
fn post(url: &str, method: &str, name: Option<&str>, mut params: Value) -> Value {
    let (address, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let name = name.map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /{path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n{name}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let body = reply.split_once("\r\n\r\n").unwrap().1;
    let event =
        body.lines().filter_map(|line| line.strip_prefix("data: ")).rfind(|data| data.starts_with('{'));
    let message: Value = serde_json::from_str(event.unwrap_or(body)).unwrap_or_else(|_| panic!("{reply}"));
    assert!(message["error"].is_null(), "{message}");
    message["result"].clone()
}

fn gateway(home: &Path, services: &str) -> (Program, String) {
    let keys = keys(services).map(|(key, value)| format!("{key} = \"{value}\"\n"));
    let config = format!("[packs.music]\nroot = \"library\"\nunproven_writes = true\n{}", keys.concat());
    fs::write(home.join("config.toml"), config).unwrap();
    let state = home.join("state").display().to_string();
    let words = ["serve", "--config", "config.toml", "--listen", "127.0.0.1:0", "--state-dir", &state];
    let (program, url) = listening(home, &words);
    (program, format!("{url}/mcp"))
}

fn at_stdio(services: &str) -> Answers {
    let (kept, flags) = home(services);
    answers_of(Client::stdio(kept.path(), &alone(&flags, &[])).0)
}

fn at_tcp(services: &str) -> Answers {
    let (kept, flags) = home(services);
    let (program, url) = listening(kept.path(), &alone(&flags, &["--tcp", "127.0.0.1:0"]));
    answers_of(Client::tcp(url.trim_start_matches("tcp://"), program))
}

fn at_the_unix_socket(services: &str) -> Answers {
    let (kept, flags) = home(services);
    let socket = kept.path().join("m.sock");
    let (program, _) = listening(kept.path(), &alone(&flags, &["--unix", socket.to_str().unwrap()]));
    answers_of(Client::unix(&socket, program))
}

fn answers_of(mut client: Client) -> Answers {
    let tools = client.request("tools/list", &json!({}))["tools"].clone();
    Answers { tools, answers: answers(|tool, arguments| client.call(tool, arguments)) }
}

fn at_http(services: &str) -> Answers {
    let (kept, flags) = home(services);
    let (_program, url) = listening(kept.path(), &alone(&flags, &["--http", "127.0.0.1:0"]));
    posted(&url, "")
}

/// In the view of everything, where each tool has the name of the pack before its own.
fn at_the_gateway(services: &str) -> Answers {
    let (kept, _) = home(services);
    let (_program, url) = gateway(kept.path(), services);
    let mut seen = posted(&url, "music__");
    let tools = seen.tools.as_array_mut().unwrap();
    tools.retain(|tool| tool["name"].as_str().unwrap().starts_with("music__"));
    for tool in tools {
        tool["name"] = tool["name"].as_str().unwrap()["music__".len()..].into();
    }
    seen
}

/// In the view of the pack alone.
fn at_the_gateway_alone(services: &str) -> Answers {
    let (kept, _) = home(services);
    let (_program, url) = gateway(kept.path(), services);
    posted(&format!("{url}/music"), "")
}

fn posted(url: &str, prefix: &str) -> Answers {
    let tools = post(url, "tools/list", None, json!({}))["tools"].clone();
    let answers = answers(|tool, arguments| {
        let shown = format!("{prefix}{tool}");
        post(url, "tools/call", Some(&shown), json!({ "name": shown, "arguments": arguments }))
    });
    Answers { tools, answers }
}

/// Every tool has worked once, and every structured answer matches its schema.
fn check_answers(seen: &Answers) {
    let mut worked = BTreeSet::new();
    for ((tool, arguments), answer) in calls().iter().zip(&seen.answers) {
        if answer["isError"] == true {
            continue;
        }
        worked.insert(*tool);
        let tools = seen.tools.as_array().unwrap();
        let definition = tools.iter().find(|definition| definition["name"] == *tool).unwrap();
        let schema = jsonschema::validator_for(&definition["outputSchema"]).unwrap();
        let content = &answer["structuredContent"];
        let problems: Vec<String> = schema.iter_errors(content).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{tool} {arguments}: {problems:?} in {content}");
    }
    let all: BTreeSet<&str> =
        seen.tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(worked, all, "every tool works at least once");
    assert_eq!(all.len(), 32);
}

type At = fn(&str) -> Answers;

#[test]
fn every_tool_answers_the_same_at_every_door_and_through_the_gateway() {
    let services = services::start();
    let expected = at_stdio(&services);
    check_answers(&expected);
    let doors: [(&str, At); 5] = [
        ("TCP", at_tcp),
        ("Unix socket", at_the_unix_socket),
        ("HTTP", at_http),
        ("the gateway", at_the_gateway),
        ("the gateway, the pack alone", at_the_gateway_alone),
    ];
    std::thread::scope(|scope| {
        let services = &services;
        let started = doors.map(|(door, at)| (door, scope.spawn(move || at(services))));
        for (door, seen) in started {
            let seen = seen.join().unwrap_or_else(|_| panic!("{door}"));
            assert_eq!(seen.tools, expected.tools, "{door}");
            for ((call, found), expected) in calls().iter().zip(seen.answers).zip(&expected.answers) {
                assert_eq!(found, *expected, "{door}: {call:?}");
            }
        }
    });
}
