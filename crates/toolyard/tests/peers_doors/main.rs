//! Clients of other makers at every door: the MCP Inspector, mcp-remote, Claude Code, and a client whose config
//! runs `toolyard stdio`; and an app in TypeScript, as its compiler and Node.js take it.
//!
//! `cargo xtask peers` installs them and runs these tests.

#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]

#[path = "../support/installed.rs"]
mod installed;
#[path = "../cli/gateway.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod gateway;

#[path = "../cli/http.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod http;
#[path = "../life/provider.rs"]
#[expect(dead_code, reason = "shared with tests of other providers")]
mod provider;

mod claude;
mod sampling;
mod typescript;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use gateway::{Gateway, Home};
use serde_json::{Value, json};

const UPSTREAM: &str = include_str!("../doors/upstream.sh");

/// Node.js and the folder of its packages.
fn node() -> (String, PathBuf) {
    let (node, npm) = installed::npm();
    (node, PathBuf::from(npm))
}

fn home() -> Home {
    let home = Home::new();
    home.write("upstream.sh", UPSTREAM);
    home.write("config.toml", "[upstreams.sh]\ncommand = \"sh\"\nargs = [\"upstream.sh\"]\n");
    home
}

fn started() -> (Home, Gateway) {
    let home = home();
    let gateway = home.start(&["--config", "config.toml"]);
    (home, gateway)
}

/// What a client's config runs.
fn shim(home: &Home) -> Vec<String> {
    let path = |name: &str| home.path(name).display().to_string();
    let program = env!("CARGO_BIN_EXE_toolyard").to_owned();
    let words = ["stdio", "--config", &path("config.toml"), "--state-dir", &path("state")];
    [program].into_iter().chain(words.map(str::to_owned)).collect()
}

/// A client's config that runs `toolyard stdio`, and the flags that name it.
fn client_config(home: &Home) -> Vec<String> {
    let words = shim(home);
    let env = json!({ "HOME": home.path(""), "XDG_RUNTIME_DIR": home.path("") });
    let server = json!({ "type": "stdio", "command": words[0], "args": words[1..], "env": env });
    home.write("client.json", &json!({ "mcpServers": { "toolyard": server } }).to_string());
    let file = home.path("client.json").display().to_string();
    ["--config", &file, "--server", "toolyard"].map(str::to_owned).to_vec()
}

#[test]
#[ignore = "needs the npm packages; `cargo xtask peers` installs them"]
fn the_inspector_lists_and_calls_at_every_door_in_every_era() {
    let (node, npm) = node();
    let (home, gateway) = started();
    let (mcp, sse) = (format!("{}/mcp", gateway.url), format!("{}/sse", gateway.url));
    let stdio = client_config(&home);
    let mut wrong = Vec::new();
    for (door, target) in [
        ("http", vec![mcp, "--transport".into(), "http".into()]),
        ("sse", vec![sse, "--transport".into(), "sse".into()]),
        ("stdio", stdio),
    ] {
        for era in ["legacy", "auto", "modern"] {
            // HTTP+SSE has no modern form.
            if door == "sse" && era != "legacy" {
                continue;
            }
            let run = |method: &[&str]| {
                let script =
                    npm.join("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js");
                let mut command = Command::new(&node);
                command.arg(script).arg("--cli").args(&target);
                command.args(["--protocol-era", era, "-q", "--format", "json"]).args(method);
                command.env("MCP_INSPECTOR_SECRET_STORE", "memory").env("HOME", home.path(""));
                command.env("XDG_RUNTIME_DIR", home.path("")).stdin(Stdio::null());
                let output = command.output().unwrap();
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                (text(&output.stdout), text(&output.stderr), output.status.code())
            };
            let (tools, printed, code) = run(&["--method", "tools/list"]);
            if code != Some(0) || !tools.contains("sh__say") {
                wrong.push(format!("{door} {era}: list: {code:?} {tools} {printed}"));
            }
            let (answer, printed, code) = run(&["--method", "tools/call", "--tool-name", "sh__say"]);
            if code != Some(0) || !answer.contains("hello") {
                wrong.push(format!("{door} {era}: call: {code:?} {answer} {printed}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs the npm packages; `cargo xtask peers` installs them"]
fn mcp_remote_carries_a_stdio_client_to_http_and_to_http_sse() {
    let (node, npm) = node();
    let (home, gateway) = started();
    for (path, transport) in [("mcp", "http-only"), ("sse", "sse-only")] {
        let mut command = Command::new(&node);
        command.arg(npm.join("node_modules/mcp-remote/dist/proxy.js"));
        command.args([&format!("{}/{path}", gateway.url), "--allow-http", "--transport", transport]);
        command.env("HOME", home.path("")).env("MCP_REMOTE_CONFIG_DIR", home.path("remote"));
        let mut remote = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        let mut stdin = remote.0.stdin.take().unwrap();
        let mut lines = BufReader::new(remote.0.stdout.take().unwrap()).lines();
        let mut ask = |id: u64, method: &str, params: Value| -> Value {
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            writeln!(stdin, "{request}").unwrap();
            loop {
                let line = lines.next().expect("mcp-remote is still there").unwrap();
                let message: Value = serde_json::from_str(&line).unwrap();
                if message["id"] == id {
                    return message;
                }
            }
        };
        let info = json!({ "name": "t", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
        let greeting = ask(0, "initialize", hello);
        assert!(greeting["result"]["serverInfo"].is_object(), "{transport}: {greeting}");
        let tools = ask(1, "tools/list", json!({}));
        assert!(tools["result"]["tools"].to_string().contains("sh__say"), "{transport}: {tools}");
        let answer = ask(2, "tools/call", json!({ "name": "sh__say", "arguments": {} }));
        assert_eq!(answer["result"]["content"][0]["text"], "hello", "{transport}: {answer}");
    }
}

#[test]
#[ignore = "needs the Python SDK; `cargo xtask peers` installs it"]
fn a_python_client_runs_toolyard_stdio_and_two_of_them_share_a_server() {
    let home = home();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers_doors/client.py");
    let mut command = Command::new(installed::python());
    // Nothing of the environment reaches the program but what the SDK passes on.
    command.arg(script).arg(home.path("")).args(shim(&home));
    let output = command.output().unwrap();
    let (printed, trouble) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}{trouble}");
    assert_eq!(
        printed.trim(),
        "legacy hello\nauto hello\n2026-07-28 hello\ntogether hello hello",
        "{trouble}"
    );
    let starts = std::fs::read_to_string(home.path("starts")).unwrap();
    assert_eq!(starts.lines().count(), 1, "one server for all of them");
}

#[test]
#[ignore = "needs the Python SDK; `cargo xtask peers` installs it"]
fn a_python_client_of_http_sse_is_served() {
    let (_home, gateway) = started();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers_doors/sse_client.py");
    let output =
        Command::new(installed::python()).arg(script).arg(format!("{}/sse", gateway.url)).output().unwrap();
    let (printed, trouble) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), printed.trim()), (Some(0), "hello"), "{trouble}");
}

/// A server that is announced by a file: the pack `dev` as a program of its own.
fn instance(home: &Home, id: &str) -> Running {
    let mut command = home.toolyard(&["pack", "dev", "--http", "127.0.0.1:0"]);
    let mut server = Running(command.spawn().unwrap());
    let mut lines = BufReader::new(server.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let url = lines.find_map(|line| line.split_once("listening on http://").map(|(_, rest)| rest.to_owned()));
    let url = url.expect("it prints its address");
    let port: u16 = url.split(['/', ':']).nth(1).unwrap().trim().parse().unwrap();
    std::thread::spawn(move || lines.for_each(drop));
    let about = json!({ "id": id, "name": id, "directory": "/srv", "port": port, "pid": server.0.id() });
    home.write(&format!("toolyard/instances/{id}.json"), &about.to_string());
    server
}

#[test]
#[ignore = "needs the Python SDK; `cargo xtask peers` installs it"]
fn a_python_client_of_both_eras_reaches_the_hub_over_http_and_on_stdio() {
    let (home, gateway) = started();
    let _instance = instance(&home, "clock");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers_doors/hub_client.py");
    let mut command = Command::new(installed::python());
    command
        .arg(script)
        .arg(home.path(""))
        .arg(format!("{}/mcp/hub", gateway.url))
        .args(shim(&home))
        .arg("--hub");
    let output = command.output().unwrap();
    let (printed, trouble) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}{trouble}");
    assert_eq!(printed.trim(), "http legacy hi\nhttp auto hi\nstdio legacy hi\nstdio auto hi", "{trouble}");
}
