//! Packs as their user meets them: in the gateway, switched off, in the way of a server, and alone.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::gateway::{Home, eventually};
use crate::http;

fn tools(url: &str) -> Vec<String> {
    http::read(http::modern(url, "tools/list", json!({}))).tool_names()
}

fn call(url: &str, tool: &str, arguments: &Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    http::read(http::modern(url, "tools/call", params)).message()["result"].clone()
}

#[test]
fn a_pack_answers_like_any_upstream() {
    let home = Home::new();
    let gateway = home.start(&[]);
    let answer = call(&gateway.url, "dev__echo", &json!({ "text": "here" }));
    assert_eq!(answer["content"], json!([{ "type": "text", "text": "here" }]));
    let wrong = call(&gateway.url, "dev__time_now", &json!({ "offset": "Berlin" }));
    let text = wrong["content"][0]["text"].as_str().unwrap();
    assert!(wrong["isError"] == true && text.contains("`offset` must be an offset from UTC"), "{wrong}");
}

#[test]
fn a_pack_can_be_switched_off_while_the_gateway_runs() {
    let home = Home::new();
    home.write("config.toml", "[packs.dev]\n");
    let gateway = home.start(&["--config", "config.toml"]);
    let has_it = || tools(&gateway.url).iter().any(|name| name == "dev__echo");
    assert!(has_it());
    home.write("config.toml", "[packs.dev]\nenabled = false\n");
    eventually("no tools of the pack", || (!has_it()).then_some(()));
}

#[test]
fn a_server_wins_over_a_pack_of_its_name_and_the_pack_is_reported_as_off() {
    let home = Home::new();
    home.write("upstream.sh", include_str!("upstream.sh"));
    home.write("config.toml", "[upstreams.dev]\ncommand = \"sh\"\nargs = [\"upstream.sh\"]\n");
    let mut gateway = home.start(&["--config", "config.toml"]);
    gateway.wait_for_words("packs: dev (off: the upstream `dev` has its id)");
    let names = eventually("the tools of the server", || {
        let names = tools(&gateway.url);
        names.iter().any(|name| name.starts_with("dev__")).then_some(names)
    });
    assert_eq!(names.iter().filter(|name| name.starts_with("dev__")).collect::<Vec<_>>(), ["dev__wait"]);
}

#[test]
fn a_pack_is_not_counted_where_one_server_is_shown_as_it_is() {
    let home = Home::new();
    home.write("upstream.sh", include_str!("upstream.sh"));
    let server = "[upstreams.one]\ncommand = \"sh\"\nargs = [\"upstream.sh\"]\n";
    home.write("config.toml", &format!("transparent = true\n{server}"));
    let gateway = home.start(&["--config", "config.toml"]);
    eventually("the server's own name", || (tools(&gateway.url) == ["wait"]).then_some(()));
}

#[test]
fn a_pack_can_be_served_alone() {
    let home = Home::new();
    let pack = home.start_where_it_likes(&["pack", "dev", "--http", "127.0.0.1:0"]);
    let url = pack.url.strip_suffix("/mcp").expect("the URL that clients need");
    assert_eq!(tools(url), ["echo", "time_now", "uuid", "hash"]);
    let answer = call(url, "hash", &json!({ "text": "" }));
    assert!(answer["content"][0]["text"].as_str().unwrap().starts_with("e3b0c442"), "{answer}");
    let (code, _, stderr) = home.run(&["pack", "dve"]);
    assert!(code == 2 && stderr.contains("dve"), "{code}: {stderr}");
}

#[test]
fn a_last_request_needs_no_line_end() {
    let home = Home::new();
    for args in [&["pack", "dev"][..], &["stdio"]] {
        for (request, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"pi"#, ""),
        ] {
            let mut program = home.toolyard(args).stdin(Stdio::piped()).spawn().unwrap();
            program.stdin.take().unwrap().write_all(request.as_bytes()).unwrap();
            let output = program.wait_with_output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{args:?} {request}");
        }
    }
}

#[test]
fn requests_that_are_piped_into_a_pack_are_all_answered() {
    let home = Home::new();
    let text = "x".repeat(200_000);
    let client = json!({ "name": "t", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
    let mut requests = format!("{hello}\n");
    for id in 1..=50 {
        let params = json!({ "name": "hash", "arguments": { "text": text } });
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        requests += &request.to_string();
        requests.push('\n');
    }
    let mut pack = home.toolyard(&["pack", "dev"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = pack.stdin.take().unwrap();
    let writing = std::thread::spawn(move || stdin.write_all(requests.as_bytes()));
    let output = pack.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    let ids = answers.lines().map(|line| {
        let answer: Value = serde_json::from_str(line).unwrap();
        assert!(answer["result"].is_object(), "{line}");
        answer["id"].as_u64().unwrap()
    });
    assert_eq!(ids.collect::<BTreeSet<_>>(), (0..=50).collect());
    assert!(output.status.success());
}
