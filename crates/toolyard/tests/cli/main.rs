//! The program as its user meets it: started for real, spoken to over HTTP, stopped by signals.

#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]

mod gateway;
mod http;
mod importing;
mod installing;
mod packs;
mod reload;
#[cfg(target_os = "linux")]
mod service;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use gateway::{Home, eventually, is_alive, process_in};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// What comes with the program.
const BUILT_IN: [&str; 12] = [
    "yard__status",
    "yard__upstreams",
    "yard__search_tools",
    "yard__instances_list",
    "yard__instances_connect",
    "yard__instances_disconnect",
    "yard__instances_health",
    "yard__instances_call",
    "dev__echo",
    "dev__time_now",
    "dev__uuid",
    "dev__hash",
];

/// A home with a config that starts the small server of `upstream.sh`.
fn home_with_server() -> Home {
    let home = Home::new();
    home.write("upstream.sh", include_str!("upstream.sh"));
    home.write("config.toml", "[upstreams.sh]\ncommand = \"sh\"\nargs = [\"upstream.sh\"]\n");
    home
}

#[test]
fn clients_of_both_eras_get_the_built_in_tools_without_a_config() {
    let home = Home::new();
    let gateway = home.start(&[]);
    let modern = http::read(http::modern(&gateway.url, "tools/list", json!({})));
    assert_eq!((modern.status, modern.tool_names()), (200, BUILT_IN.map(str::to_owned).to_vec()));
    let session = http::open_session(&gateway.url);
    let legacy = http::read(http::legacy(&gateway.url, &session, "tools/list", &json!({})));
    assert_eq!((legacy.status, legacy.tool_names()), (200, BUILT_IN.map(str::to_owned).to_vec()));
}

#[test]
fn the_first_output_explains_how_to_connect() {
    let home = Home::new();
    let gateway = home.start(&[]);
    let url = gateway.url.clone();
    let first_words = gateway.first_words.clone();
    gateway.signal(Signal::SIGINT);
    let (status, rest, stdout) = gateway.wait();
    let words = first_words + &rest;
    assert!(status.success(), "{status}");
    let listening: Vec<&str> = words.lines().filter(|line| line.contains("listening on")).collect();
    assert_eq!(listening, [format!("listening on {url}")], "{words}");
    assert!(
        words.contains(&format!("claude mcp add -s user --transport http toolyard {url}/mcp\n")),
        "{words}"
    );
    assert!(words.contains("upstreams: none, only the built-in tools"), "{words}");
    assert_eq!(stdout, "", "stdout is a transport");
}

#[test]
fn quiet_prints_only_the_listen_address() {
    let home = Home::new();
    home.write("toolyard.toml", "");
    let gateway = home.start(&["--quiet"]);
    gateway.signal(Signal::SIGTERM);
    let first_words = gateway.first_words.clone();
    let (_, words, _) = gateway.wait();
    assert_eq!((first_words.lines().count(), words.as_str()), (1, ""));
}

#[test]
fn a_busy_default_port_leads_to_the_next() {
    // Whether this test gets the port or another process has it, it is taken.
    let _taken = TcpListener::bind("127.0.0.1:7777");
    let home = Home::new();
    let gateway = home.start_where_it_likes(&[]);
    let port: u16 = gateway.url.rsplit_once(':').unwrap().1.parse().unwrap();
    assert!((7778..=7877).contains(&port), "{port}");
    assert_eq!(http::read(http::modern(&gateway.url, "tools/list", json!({}))).status, 200);
    gateway.signal(Signal::SIGTERM);
    let (_, words, _) = gateway.wait();
    assert!(words.contains("127.0.0.1:7777 is taken"), "{words}");
}

#[test]
fn an_address_that_was_asked_for_and_is_taken_is_an_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, stdout, stderr) = Home::new().run(&["--listen", &address, "--state-dir", "state"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains(&format!("cannot listen on {address}")), "{stderr}");
}

#[test]
fn a_bad_config_is_refused_with_its_place() {
    let home = Home::new();
    home.write("bad.toml", "[upstreams.a]\ncomand = \"x\"\n");
    let (code, stdout, stderr) = home.run(&["serve", "--config", "bad.toml"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.starts_with("error: bad.toml:2:1: upstreams.a.comand: unknown key"), "{stderr}");
    let (code, _, stderr) = home.run(&["--config", "missing.toml"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("cannot read missing.toml"), "{stderr}");
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    for arguments in [&["--lisen", "x"][..], &["--listen", "x"], &["frobnicate"], &["-v", "-q"]] {
        let (code, stdout, stderr) = Home::new().run(arguments);
        assert_eq!((code, stdout.as_str()), (2, ""), "{arguments:?}: {stderr}");
    }
    let (code, stdout, _) = Home::new().run(&["--version"]);
    assert_eq!((code, stdout.trim()), (0, concat!("toolyard ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn listening_beyond_loopback_requires_a_token() {
    let (code, _, stderr) = Home::new().run(&["--listen", "0.0.0.0:0"]);
    assert_eq!(code, 2);
    assert!(stderr.starts_with("error: --listen: 0.0.0.0:0 can be reached from other machines"), "{stderr}");
    let home = Home::new();
    home.write("config.toml", "[listen]\nhttp = \"0.0.0.0:0\"\ntoken = \"sesame\"\n");
    let gateway = home.start_where_it_likes(&["--config", "config.toml"]);
    let url = gateway.url.replace("0.0.0.0", "127.0.0.1");
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let refused = http::post(&url, &[], &ping);
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));
    assert_eq!(http::post(&url, &[("authorization", "Bearer sesame")], &ping).status, 200);
    gateway.signal(Signal::SIGTERM);
    let (_, words, _) = gateway.wait();
    assert!(words.contains("--header \"Authorization: Bearer TOKEN\""), "{words}");
    assert!(!words.contains("sesame"), "{words}");
}

#[test]
fn a_running_gateway_can_be_found_and_removes_its_address_file_at_its_end() {
    let home = Home::new();
    let gateway = home.start(&[]);
    let note: Value =
        serde_json::from_slice(&std::fs::read(home.path("state/gateway.json")).unwrap()).unwrap();
    assert_eq!((&note["http"], &note["pid"]), (&json!(gateway.url), &json!(gateway.id())));
    assert!(note["started"].as_u64().unwrap() > 1_700_000_000, "{note}");
    gateway.signal(Signal::SIGTERM);
    assert!(gateway.wait().0.success());
    assert!(!home.path("state/gateway.json").exists());
}

#[test]
fn of_two_gateways_with_different_configs_started_together_in_one_state_directory_one_serves() {
    for _ in 0..5 {
        let home = Home::new();
        for name in ["one", "two"] {
            home.write(&format!("{name}.toml"), "[listen]\nunix = false\n");
        }
        let mut gateways = ["one.toml", "two.toml"].map(|config| {
            let arguments = ["--state-dir", "state", "--listen", "127.0.0.1:0", "--config", config];
            home.toolyard(&arguments).spawn().unwrap()
        });
        let refused = eventually("one of them has ended", || {
            gateways.iter_mut().position(|gateway| gateway.try_wait().unwrap().is_some())
        });
        let [mut one, mut two] = gateways;
        let (ended, serving) = if refused == 0 { (one, &mut two) } else { (two, &mut one) };
        let output = ended.wait_with_output().unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(words.contains(&format!("(process {})", serving.id())), "{words}");
        let lines = BufReader::new(serving.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.into_iter().any(|line| line.starts_with("listening on ")), "the other one serves");
        serving.kill().unwrap();
        serving.wait().unwrap();
    }
}

#[test]
fn the_usual_config_is_read_and_a_project_file_is_not() {
    let home = Home::new();
    home.write(".config/toolyard/config.toml", "[upstreams.usual]\ncommand = \"x\"\n");
    home.write("toolyard.toml", "[upstreams.project]\ncommand = \"x\"\n");
    let (code, stdout, stderr) = home.run(&["validate"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("upstreams: usual"), "{stdout}");
    assert!(stderr.contains("toolyard.toml in this folder is not used"), "{stderr}");
    assert!(stderr.contains("--config toolyard.toml"), "{stderr}");
    let (_, stdout, stderr) = home.run(&["validate", "--config", "toolyard.toml"]);
    assert!(stdout.contains("upstreams: project"), "{stdout}");
    assert_eq!(stderr, "");
}

#[test]
fn the_tools_of_a_configured_server_are_there_under_its_name() {
    let home = home_with_server();
    let gateway = home.start(&["--config", "config.toml"]);
    let names = http::read(http::modern(&gateway.url, "tools/list", json!({}))).tool_names();
    assert!(names.contains(&"sh__wait".to_owned()), "{names:?}");
    let reply =
        http::read(http::modern(&gateway.url, "tools/call", json!({ "name": "sh__wait", "arguments": {} })));
    assert_eq!(reply.message()["result"]["content"][0]["text"], "waited", "{}", reply.body);
}

#[test]
fn on_a_signal_it_finishes_the_call_and_leaves_no_process() {
    let home = home_with_server();
    let gateway = home.start(&["--config", "config.toml"]);
    let processes = [process_in(&home.path("server.pid")), process_in(&home.path("helper.pid"))];
    eventually("the tool", || {
        let names = http::read(http::modern(&gateway.url, "tools/list", json!({}))).tool_names();
        names.contains(&"sh__wait".to_owned()).then_some(())
    });
    let session = http::open_session(&gateway.url);
    let call = json!({ "name": "sh__wait", "arguments": {} });
    let under_way = http::legacy(&gateway.url, &session, "tools/call", &call);
    eventually("the call", || home.path("called").exists().then_some(()));
    let signalled = Instant::now();
    gateway.signal(Signal::SIGTERM);
    let reply = http::read(under_way);
    assert_eq!(reply.message()["result"]["content"][0]["text"], "waited", "{}", reply.body);
    let (status, words, _) = gateway.wait();
    assert!(status.success(), "{status}: {words}");
    assert!(signalled.elapsed() < Duration::from_secs(10), "{:?}", signalled.elapsed());
    for process in processes {
        eventually("the end of a child", || (!is_alive(process)).then_some(()));
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let home = home_with_server();
    let gateway = home.start(&["--config", "config.toml"]);
    let server = process_in(&home.path("server.pid"));
    let _hanging = http::modern(&gateway.url, "subscriptions/listen", json!({ "notifications": {} }));
    gateway.signal(Signal::SIGINT);
    gateway.signal(Signal::SIGTERM);
    let (status, words, _) = gateway.wait();
    assert!(status.success(), "{status}: {words}");
    eventually("the end of the child", || (!is_alive(server)).then_some(()));
}
