//! The program as clients use it: `toolyard stdio`, and newline JSON-RPC on a socket.

#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]

#[path = "../cli/gateway.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod gateway;
mod deaf;
mod installed;
mod succession;
mod shim;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use gateway::{Home, eventually, is_alive, process_in};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use shim::Shim;

/// A home with a config that starts the server of `upstream.sh`, which notes each of its starts.
fn home_with_server() -> Home {
    let home = Home::new();
    home.write("upstream.sh", include_str!("upstream.sh"));
    home.write("config.toml", "[upstreams.sh]\ncommand = \"sh\"\nargs = [\"upstream.sh\"]\n");
    home
}

fn call(id: u64, name: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": {} } })
}

fn modern(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Waits until the tools are there, as every client does.
fn list(shim: &mut Shim) {
    let tools = shim.ask(&json!({ "jsonrpc": "2.0", "id": 999, "method": "tools/list" }));
    assert!(tools["result"]["tools"].to_string().contains("sh__say"), "{tools}");
}

/// The process of the gateway that a shim has started.
fn gateway_of(home: &Home) -> Pid {
    Pid::from_raw(i32::try_from(note(home)["pid"].as_i64().unwrap()).unwrap())
}

fn note(home: &Home) -> Value {
    eventually("the gateway's note", || {
        serde_json::from_slice(&std::fs::read(home.path("state/gateway.json")).ok()?).ok()
    })
}

fn starts(home: &Home) -> usize {
    std::fs::read_to_string(home.path("starts")).unwrap_or_default().lines().count()
}

#[test]
fn two_agents_share_one_gateway_and_one_server() {
    let home = home_with_server();
    let (mut one, mut two) = (Shim::start(&home, &[]), Shim::start(&home, &[]));
    one.shake_hands();
    for shim in [&mut one, &mut two] {
        // One client of each era.
        let tools = shim.ask(&modern(1, "tools/list", json!({})));
        assert!(tools["result"]["tools"].to_string().contains("sh__say"), "{tools}");
    }
    assert_eq!(one.ask(&call(2, "sh__say"))["result"]["content"][0]["text"], "hello");
    let answer = two.ask(&modern(2, "tools/call", json!({ "name": "sh__say", "arguments": {} })));
    assert_eq!(answer["result"]["content"][0]["text"], "hello", "{answer}");
    assert_eq!(starts(&home), 1);
    let gateway = gateway_of(&home);
    let server = process_in(&home.path("server.pid"));
    for shim in [one, two] {
        assert!(is_alive(gateway));
        let (code, rest) = shim.close();
        assert_eq!((code, rest.as_slice()), (Some(0), &[][..]));
    }
    eventually("the end of the gateway", || (!is_alive(gateway)).then_some(()));
    eventually("the end of the server", || (!is_alive(server)).then_some(()));
    assert!(!home.path("state/gateway.json").exists());
}

#[test]
fn programs_that_start_together_start_one_gateway() {
    let home = home_with_server();
    let mut shims: Vec<Shim> = (0..6).map(|_| Shim::start(&home, &[])).collect();
    for shim in &mut shims {
        let status = shim.ask(&modern(1, "tools/list", json!({})));
        assert!(status["result"].is_object(), "{status}");
    }
    let log = std::fs::read_to_string(home.path("state/gateway.log")).unwrap();
    assert_eq!(log.matches("listening on").count(), 1, "{log}");
    assert_eq!(starts(&home), 1);
}

#[test]
fn a_gateway_that_was_started_by_hand_is_joined_and_stays() {
    let home = home_with_server();
    let gateway = home.start(&["--config", "config.toml"]);
    let mut shim = Shim::start(&home, &[]);
    assert!(shim.ask(&modern(1, "tools/list", json!({})))["result"].is_object());
    assert_eq!(gateway_of(&home).as_raw().unsigned_abs(), gateway.id());
    assert_eq!(shim.close().0, Some(0));
    gateway.signal(Signal::SIGTERM);
    assert!(gateway.wait().0.success());
}

#[test]
fn when_the_gateway_is_killed_calls_in_flight_fail_by_name_and_the_client_keeps_working() {
    let home = home_with_server();
    let mut shim = Shim::start(&home, &[]);
    shim.shake_hands();
    let level =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": { "level": "error" } });
    assert!(shim.ask(&level)["result"].is_object());
    list(&mut shim);
    assert_eq!(shim.ask(&call(2, "sh__say"))["result"]["content"][0]["text"], "hello");
    shim.send(&call(3, "sh__hang"));
    shim.send(&modern(4, "tools/call", json!({ "name": "sh__hang", "arguments": {} })));
    shim.send(&modern(5, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })));
    assert_eq!(shim.next()["method"], "notifications/subscriptions/acknowledged");
    eventually("the call", || home.path("called").exists().then_some(()));
    kill(gateway_of(&home), Signal::SIGKILL).unwrap();
    let mut failed: Vec<Value> = (0..3).map(|_| shim.next()).collect();
    failed.sort_by_key(|answer| answer["id"].as_u64());
    for (answer, is_stamped) in [(&failed[0], false), (&failed[1], true)] {
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("`sh__hang`") && text.contains("gateway was lost"), "{text}");
        assert_eq!(answer["result"]["resultType"] == "complete", is_stamped, "{answer}");
        assert_eq!(answer["result"]["_meta"]["dev.toolyard/error"]["kind"], "lost");
    }
    assert_eq!((&failed[2]["id"], &failed[2]["error"]["code"]), (&json!(5), &json!(-32603)), "{failed:?}");
    // The session continues; lists that may have changed are read again.
    shim.send(&call(6, "sh__say"));
    let answer = shim.answer(6);
    assert_eq!(answer["result"]["content"][0]["text"], "hello", "{answer}");
    assert_eq!(starts(&home), 2);
    assert_eq!(shim.close().0, Some(0));
}

#[test]
fn a_gateway_dies_many_times_and_the_client_keeps_its_session() {
    let home = home_with_server();
    let (mut one, mut two) = (Shim::start(&home, &[]), Shim::start(&home, &["--upstream", "sh"]));
    one.shake_hands();
    two.shake_hands();
    list(&mut one);
    for round in 1..=5 {
        kill(gateway_of(&home), Signal::SIGKILL).unwrap();
        one.send(&call(round, "sh__say"));
        two.send(&call(round, "say"));
        for shim in [&mut one, &mut two] {
            // The line may have reached the gateway that was killed.
            let text = shim.answer(round)["result"]["content"][0]["text"].as_str().unwrap().to_owned();
            assert!(text == "hello" || text.contains("gateway was lost"), "{text}");
        }
        one.send(&call(100 + round, "sh__say"));
        assert_eq!(one.answer(100 + round)["result"]["content"][0]["text"], "hello");
        two.send(&call(100 + round, "say"));
        assert_eq!(two.answer(100 + round)["result"]["content"][0]["text"], "hello");
    }
}

#[test]
fn a_read_that_is_under_way_when_the_gateway_is_killed_is_sent_again_and_answered() {
    let home = Home::new();
    home.write("reader.sh", include_str!("reader.sh"));
    home.write("config.toml", "[upstreams.sh]\ncommand = \"sh\"\nargs = [\"reader.sh\"]\nera = \"legacy\"\n");
    let mut shim = Shim::start(&home, &["--upstream", "sh"]);
    shim.shake_hands();
    let listed = shim.ask(&json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/list" }));
    assert!(listed["result"]["resources"].to_string().contains("note://one"), "{listed}");
    shim.send(
        &json!({ "jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": { "uri": "note://one" } }),
    );
    let reads = || std::fs::read_to_string(home.path("reads")).unwrap_or_default().lines().count();
    eventually("the read", || (reads() == 1).then_some(()));
    kill(gateway_of(&home), Signal::SIGKILL).unwrap();
    let answer = shim.answer(2);
    assert_eq!(answer["result"]["contents"][0]["text"], "hello", "{answer}");
    assert_eq!(reads(), 2);
}

#[test]
fn a_killed_shim_leaves_no_gateway_behind() {
    let home = home_with_server();
    let mut shim = Shim::start(&home, &[]);
    assert!(shim.ask(&modern(1, "tools/list", json!({})))["result"].is_object());
    let gateway = gateway_of(&home);
    shim.kill();
    eventually("the end of the gateway", || (!is_alive(gateway)).then_some(()));
}

#[test]
fn the_view_is_chosen_on_the_command_line() {
    let home = home_with_server();
    let mut shim = Shim::start(&home, &["--upstream", "sh"]);
    let tools = shim.ask(&modern(1, "tools/list", json!({})));
    assert_eq!(tools["result"]["tools"][0]["name"], "say", "{tools}");
    let mut refused = Shim::start(&home, &["--profile", "absent"]);
    refused.send(&modern(7, "tools/list", json!({})));
    let (code, messages) = refused.wait();
    assert_eq!(code, Some(1));
    assert!(messages.iter().any(|line| line["id"] == 7 && line["error"].is_object()), "{messages:?}");
}

#[test]
fn requests_sent_before_the_client_closes_its_end_are_answered() {
    let home = home_with_server();
    let mut shim = Shim::start(&home, &[]);
    shim.send(&modern(1, "tools/list", json!({})));
    shim.send(&modern(2, "no/such", json!({})));
    let (code, mut messages) = shim.close();
    messages.sort_by_key(|line| line["id"].as_u64());
    assert_eq!((code, messages.len()), (Some(0), 2), "{messages:?}");
    assert_eq!((&messages[0]["id"], &messages[1]["error"]["code"]), (&json!(1), &json!(-32601)));
}

/// A client that waits for an answer that never comes, and closes its end.
fn hung_up_on(home: &Home) -> Shim {
    let mut shim = Shim::start(home, &[]);
    shim.shake_hands();
    list(&mut shim);
    shim.send(&call(7, "sh__hang"));
    eventually("the call", || home.path("called").exists().then_some(()));
    shim.hang_up();
    shim
}

fn assert_failed_by_name((code, messages): (Option<i32>, Vec<Value>), why: &str) {
    let answers: Vec<&Value> = messages.iter().filter(|line| line.get("id").is_some()).collect();
    assert_eq!((code, answers.len()), (Some(0), 1), "{messages:?}");
    let text = answers[0]["result"]["content"][0]["text"].as_str().unwrap();
    assert!(answers[0]["id"] == 7 && text.contains(why) && text.contains("`sh__hang`"), "{messages:?}");
}

#[test]
fn calls_that_take_too_long_after_the_client_closed_its_end_fail_by_name() {
    let home = home_with_server();
    assert_failed_by_name(hung_up_on(&home).wait(), "stdin was closed 10 seconds ago");
}

#[test]
fn calls_lost_with_the_gateway_after_the_client_closed_its_end_fail_by_name() {
    let home = home_with_server();
    let shim = hung_up_on(&home);
    kill(gateway_of(&home), Signal::SIGKILL).unwrap();
    assert_failed_by_name(shim.wait(), "the gateway was lost");
}

#[test]
fn a_client_that_reconnects_at_once_finds_its_gateway_and_its_server() {
    let home = home_with_server();
    let mut shim = Shim::start(&home, &[]);
    shim.shake_hands();
    list(&mut shim);
    for _ in 0..3 {
        shim.kill();
        // At once, apart from the time that this machine takes to start a program.
        let back = UnixStream::connect(note(&home)["socket"].as_str().unwrap()).unwrap();
        shim = Shim::start(&home, &[]);
        shim.shake_hands();
        drop(back);
        list(&mut shim);
    }
    assert_eq!(starts(&home), 1);
}

#[test]
fn a_gateway_that_cannot_start_is_explained() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    home.write("config.toml", &format!("[listen]\nhttp = \"{address}\"\n"));
    let mut shim = Shim::start(&home, &[]);
    shim.send(&modern(1, "tools/list", json!({})));
    let (code, messages) = shim.wait_with(|words| {
        assert!(words.contains("the gateway could not be started"), "{words}");
        assert!(words.contains(&format!("cannot listen on {address}")), "{words}");
    });
    assert_eq!(code, Some(1));
    let message = messages[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("no gateway could be reached"), "{message}");
    assert!(message.contains(&format!("cannot listen on {address}")), "{message}");
}

#[test]
fn an_invalid_config_is_reported_in_the_answer_to_initialize() {
    let home = Home::new();
    home.write("config.toml", "[upstreams.a]\ncommand = 1\n");
    let mut shim = Shim::start(&home, &[]);
    shim.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } } }));
    let (code, messages) = shim.wait_with(|words| {
        assert!(words.contains("upstreams.a.command"), "{words}");
    });
    assert_eq!((code, messages.len()), (Some(2), 1), "{messages:?}");
    assert_eq!(messages[0]["id"], 1);
    let message = messages[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("the config is invalid: ") && message.contains("config.toml:2:"), "{message}");
    assert!(message.contains("upstreams.a.command"), "{message}");
}

#[test]
fn without_a_socket_other_programs_cannot_reach_the_gateway() {
    let home = Home::new();
    home.write("config.toml", "[listen]\nunix = false\n");
    let (code, stdout, stderr) = home.run(&["stdio", "--config", "config.toml", "--state-dir", "state"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("unix = false"), "{stderr}");
}

#[test]
fn over_tcp_lines_are_served_to_clients_with_the_token() {
    let home = home_with_server();
    let config = std::fs::read_to_string(home.path("config.toml")).unwrap();
    home.write("tcp.toml", &format!("{config}[listen]\ntcp = \"0.0.0.0:0\"\ntoken = \"sesame\"\n"));
    let _gateway = home.start(&["--config", "tcp.toml"]);
    let address = note(&home)["tcp"].as_str().unwrap().replace("tcp://0.0.0.0", "127.0.0.1");
    let speak = |lines: &[Value]| {
        let stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        for line in lines {
            writeln!(&stream, "{line}").unwrap();
        }
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    let list = modern(1, "tools/list", json!({}));
    assert_eq!(speak(std::slice::from_ref(&list))["error"]["code"], -32600);
    let opened = speak(&[json!({ "toolyard": 1, "view": "sh", "token": "sesame" }), list]);
    assert_eq!(opened["result"]["tools"][0]["name"], "say", "{opened}");
}
