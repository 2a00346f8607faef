//! One table of calls, at every door and through the gateway. Each gets a library of its own, made alike.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{Client, Program, listening};

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

/// In this order, since some change the library. Services answer nothing: what is said of that must be the same,
/// too.
fn calls() -> Vec<(&'static str, Value)> {
    let id = "a74b1b7f-71a5-4011-9441-d0b5e4122711";
    vec![
        ("fs_list_dir", json!({ "path": ".", "recursive_depth": -1, "detailed": true })),
        ("fs_scan_audio", json!({ "root": ".", "max_results": 1 })),
        ("fs_hash", json!({ "path": "a.wav" })),
        ("find_duplicates", json!({ "root": "." })),
        ("write_metadata", json!({ "path": "a.wav", "title": "A", "artist": "X", "track": 1 })),
        (
            "write_metadata_batch",
            json!({ "writes": [{ "path": "b.wav", "title": "B" }, { "path": "none", "title": "C" }] }),
        ),
        ("read_metadata", json!({ "path": "a.wav", "include_properties": true })),
        ("read_metadata_batch", json!({ "paths": ["a.wav", "../x"] })),
        ("embed_cover", json!({ "path": "a.wav", "image_bytes_base64": "/9j/4AAQ" })),
        ("extract_picture", json!({ "path": "a.wav", "to": "front" })),
        (
            "apply_naming_scheme",
            json!({ "template": "{artist}/{track:02d} {title}", "metadata": { "artist": "AC/DC", "track": 1, "title": "T" } }),
        ),
        ("inventory_divergences", json!({ "root": ".", "path_template": "{title}" })),
        (
            "apply_plan",
            json!({ "operations": [{ "op": "mkdir", "path": "X" }, { "op": "move", "from": "a.wav", "to": "X/a.wav" }], "dry_run": true }),
        ),
        ("plan_list", json!({})),
        ("undo_plan", json!({})),
        ("manifest_read", json!({ "id": "none" })),
        ("manifest_list", json!({})),
        ("manifest_write", json!({ "id": ".bad", "content": 1 })),
        ("fs_mkdir", json!({ "path": "m/n" })),
        ("fs_move", json!({ "from": "b.wav", "to": "m/n/b.wav" })),
        ("fs_rename", json!({ "from": "m/n/b.wav", "to": "m/n/c.wav" })),
        ("fs_delete", json!({ "path": "m", "recursive": true })),
        ("mb_artist_search", json!({ "search_type": "artist", "query": "" })),
        ("mb_release_search", json!({ "search_type": "release", "query": "" })),
        ("mb_recording_search", json!({ "search_type": "recording", "query": "" })),
        ("mb_work_search", json!({ "query": "x" })),
        ("mb_label_search", json!({ "query": "x" })),
        ("mb_advanced_search", json!({ "entity": "artist", "query": "x" })),
        ("mb_match_from_tags", json!({ "title": "x" })),
        ("mb_get_relations", json!({ "entity_type": "artist", "mbid": id })),
        ("mb_cover_download", json!({ "mbid": id, "path": "." })),
        ("mb_identify_record", json!({ "file_path": "a.wav" })),
    ]
}

/// A home with a library in it, and the flags that name it.
fn home() -> (TempDir, Vec<String>) {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("library");
    fs::create_dir(&root).unwrap();
    for name in ["a.wav", "b.wav"] {
        fs::write(root.join(name), wav()).unwrap();
    }
    // Nobody listens at port 1.
    let mut flags = vec!["--root".to_owned(), root.display().to_string()];
    for key in ["musicbrainz_url", "acoustid_url", "coverart_url"] {
        flags.extend([format!("--{key}"), "http://127.0.0.1:1".to_owned()]);
    }
    (home, flags)
}

fn alone<'a>(flags: &'a [String], door: &[&'a str]) -> Vec<&'a str> {
    [&["pack", "music"], flags.iter().map(String::as_str).collect::<Vec<_>>().as_slice(), door].concat()
}

/// The result without the protocol's own stamps.
fn unstamped(mut result: Value) -> Value {
    for stamp in ["resultType", "ttlMs", "cacheScope", "_meta"] {
        result.as_object_mut().unwrap().remove(stamp);
    }
    result
}

fn answers(mut call: impl FnMut(&str, &Value) -> Value) -> Vec<Value> {
    calls().iter().map(|(tool, arguments)| unstamped(call(tool, arguments))).collect()
}

/// One request of a modern client.
fn post(url: &str, method: &str, name: Option<&str>, mut params: Value) -> Value {
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
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
        "POST /mcp HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n\
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

fn gateway(home: &Path) -> (Program, String) {
    let urls = ["musicbrainz_url", "acoustid_url", "coverart_url"]
        .map(|key| format!("{key} = \"http://127.0.0.1:1\"\n"));
    let config = format!("[packs.music]\nroot = \"library\"\n{}", urls.concat());
    fs::write(home.join("config.toml"), config).unwrap();
    let state = home.join("state").display().to_string();
    listening(home, &["serve", "--config", "config.toml", "--listen", "127.0.0.1:0", "--state-dir", &state])
}

#[test]
fn every_tool_answers_the_same_at_every_door_and_through_the_gateway() {
    let (kept, flags) = home();
    let (mut stdio, _) = Client::stdio(kept.path(), &alone(&flags, &[]));
    let listed = stdio.request("tools/list", &json!({}))["tools"].clone();
    let mut names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let mut called: Vec<&str> = calls().iter().map(|(tool, _)| *tool).collect();
    names.sort_unstable();
    called.sort_unstable();
    assert_eq!(names, called, "the table has every tool once");
    let expected = answers(|tool, arguments| stdio.call(tool, arguments));
    let check = |door: &str, list: Value, found: Vec<Value>| {
        assert_eq!(list, listed, "{door}");
        for ((call, found), expected) in calls().iter().zip(found).zip(&expected) {
            assert_eq!(found, *expected, "{door}: {call:?}");
        }
    };

    let (kept, flags) = home();
    let (program, url) = listening(kept.path(), &alone(&flags, &["--tcp", "127.0.0.1:0"]));
    let mut tcp = Client::tcp(url.trim_start_matches("tcp://"), program);
    let list = tcp.request("tools/list", &json!({}))["tools"].clone();
    check("TCP", list, answers(|tool, arguments| tcp.call(tool, arguments)));

    let (kept, flags) = home();
    let socket = kept.path().join("m.sock");
    let (program, _) = listening(kept.path(), &alone(&flags, &["--unix", socket.to_str().unwrap()]));
    let mut unix = Client::unix(&socket, program);
    let list = unix.request("tools/list", &json!({}))["tools"].clone();
    check("Unix socket", list, answers(|tool, arguments| unix.call(tool, arguments)));

    let (kept, flags) = home();
    let (_program, url) = listening(kept.path(), &alone(&flags, &["--http", "127.0.0.1:0"]));
    let list = post(&url, "tools/list", None, json!({}))["tools"].clone();
    let found = answers(|tool, arguments| {
        post(&url, "tools/call", Some(tool), json!({ "name": tool, "arguments": arguments }))
    });
    check("HTTP", list, found);

    let (kept, _) = home();
    let (_program, url) = gateway(kept.path());
    let found = answers(|tool, arguments| {
        let shown = format!("music__{tool}");
        post(&url, "tools/call", Some(&shown), json!({ "name": shown, "arguments": arguments }))
    });
    check("the gateway", listed.clone(), found);
}
