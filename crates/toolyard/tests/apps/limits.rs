//! What happens at the limits: of calls, messages, memory and connections.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::hub::instance::Instance;
use crate::support::{App, Door, Yard, eventually};

#[test]
fn a_connection_beyond_the_limit_is_refused_with_a_reason_and_accepted_later() {
    let yard = Yard::start("max_connections = 50\n");
    let mut apps: Vec<App> = (0..50)
        .map(|number| App::register(&yard, Door::ALL[number % 2], &format!("App{number}"), &["go"]))
        .collect();
    let one_too_many = App::connect(&yard, Door::Tcp);
    let refused = one_too_many.next();
    assert_eq!(refused["type"], "refused", "{refused}");
    assert!(refused["reason"].as_str().unwrap().contains("50 apps are connected"), "{refused}");
    assert!(one_too_many.is_closed());
    let mut agent = yard.agent();
    eventually("all of them", || (agent.tools().len() == 50).then_some(()));
    apps.pop();
    eventually("room", || {
        let mut app = App::connect(&yard, Door::Tcp);
        app.send(&json!({ "type": "register", "appName": "Late", "tools": [] }));
        (app.next()["type"] == "registered").then_some(())
    });
}

#[test]
fn calls_wait_for_their_turn_and_see_that_they_do_and_beyond_that_may_try_again() {
    let yard = Yard::start("calls = 1\nqueue = 1\n");
    let mut app = App::register(&yard, Door::Tcp, "Busy", &["go"]);
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Busy__go"]);
    let first = agent.send_call("Busy__go", &json!({}));
    let call = app.invocation();
    let params = json!({ "name": "Busy__go", "arguments": {}, "_meta": { "progressToken": 7 } });
    let second = agent.send("tools/call", params);
    eventually("word of the wait", || {
        agent.changes_within(Duration::from_millis(50));
        let progress = agent.received.iter().find(|(_, line)| line["params"]["progressToken"] == 7)?;
        progress.1["params"]["message"].as_str()?.contains("waiting for its turn").then_some(())
    });
    let refused = agent.call("Busy__go", &json!({}));
    assert_eq!(refused["isError"], true, "{refused}");
    assert_eq!(refused["_meta"]["dev.toolyard/error"]["kind"], "limit", "{refused}");
    assert_eq!(refused["_meta"]["dev.toolyard/error"]["retry"], "always", "{refused}");
    app.answer(&call, &json!(1));
    assert_eq!(agent.answer(first)["result"]["content"][0]["text"], "1");
    let call = app.invocation();
    app.answer(&call, &json!(2));
    assert_eq!(agent.answer(second)["result"]["content"][0]["text"], "2");
}

/// Resident memory of the gateway, in megabytes.
fn memory(yard: &Yard) -> u64 {
    let about = std::fs::read_to_string(format!("/proc/{}/status", yard.pid())).unwrap();
    let line = about.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[test]
fn sessions_with_large_capabilities_fill_no_memory() {
    let yard = Yard::start("");
    let address = yard.note("http").as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    let large = "x".repeat(1024 * 1024);
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": { "experimental": { "x": { "y": large } } },
        "clientInfo": { "name": "c", "version": "1" } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    for _ in 0..200 {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    }
    let resident = memory(&yard);
    assert!(resident < 400, "{resident} MB for 200 sessions with capabilities of 1 MiB");
}

/// Posts a message on this connection; returns the session of the answer.
fn post_on(stream: &mut BufReader<TcpStream>, session: Option<&str>, message: &Value) -> String {
    let body = message.to_string();
    let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{session}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.get_mut().write_all(format!("{head}{body}").as_bytes()).unwrap();
    let (mut line, mut length, mut own) = (String::new(), 0, String::new());
    stream.read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 2"), "{line}");
    while !line.trim().is_empty() {
        line.clear();
        stream.read_line(&mut line).unwrap();
        let (name, value) = line.trim().split_once(": ").unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "mcp-session-id" => value.clone_into(&mut own),
            "transfer-encoding" => panic!("the answer has no length"),
            _ => {}
        }
    }
    stream.read_exact(&mut vec![0; length]).unwrap();
    own
}

/// Clients that shake hands and never come back, while lists change.
#[test]
fn ten_thousand_abandoned_sessions_fill_no_memory() {
    let yard = Yard::start("");
    let mut app = App::register(&yard, Door::Tcp, "Busy", &["go"]);
    let address = yard.note("http").as_str().unwrap().strip_prefix("http://").unwrap();
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
                for _ in 0..2_500 {
                    let session = post_on(&mut stream, None, &hello);
                    post_on(&mut stream, Some(&session), &ready);
                }
            });
        }
    });
    let mut agent = yard.agent();
    for round in 0..50 {
        let name = format!("go{round}");
        app.send(&json!({ "type": "toolsChanged", "tools": [crate::support::tool(&name)] }));
        agent.wait_for_tools(&[&format!("Busy__{name}")]);
    }
    let peak = peak_memory(yard.pid());
    eprintln!("10,000 abandoned sessions and 50 changes of lists: {peak} MiB");
    assert!(peak < 400, "{peak} MiB");
}

/// A server on stdio that was stopped, so that it neither reads nor ends.
#[test]
fn a_stopped_child_process_fills_no_memory() {
    let server = format!(
        "[upstreams.stopped]\ncommand = \"sh\"\nargs = [\"-c\", \"echo $$ > pid; exec {} pack dev\"]\n\
         timeout = \"300s\"\n\n",
        env!("CARGO_BIN_EXE_toolyard")
    );
    let yard = Yard::start_with("", &server, &[]);
    let mut agent = yard.agent();
    let echo = "stopped__echo".to_owned();
    eventually("its tools", || agent.tools().contains(&echo).then_some(()));
    let child = std::fs::read_to_string(yard.folder().join("pid")).unwrap().trim().parse().unwrap();
    let child = nix::unistd::Pid::from_raw(child);
    nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGSTOP).unwrap();
    let text = "x".repeat(1024 * 1024);
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let params = format!(r#"{{"name":"stopped__echo","_meta":{meta},"arguments":{{"text":"{text}"}}}}"#);
    for id in 1000..1200 {
        let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
        agent.write_text(&format!("{call}\n"));
    }
    let refused = agent.answer(1199);
    assert_eq!(refused["result"]["_meta"]["dev.toolyard/error"]["kind"], "limit", "{refused}");
    let peak = peak_memory(yard.pid());
    eprintln!("200 calls of 1 MiB to a stopped child: {peak} MiB");
    assert!(peak < 400, "{peak} MiB");
    nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[test]
fn an_app_that_does_not_read_fills_no_memory() {
    let yard = Yard::start("timeout = \"300s\"\n");
    let silent = std::net::TcpStream::connect(yard.apps_tcp()).unwrap();
    let register = json!({ "type": "register", "appName": "Deaf", "tools": [crate::support::tool("go")] });
    std::io::Write::write_all(&mut &silent, format!("{register}\n").as_bytes()).unwrap();
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Deaf__go"]);
    let before = memory(&yard);
    let text = "x".repeat(1024 * 1024);
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let params = format!(r#"{{"name":"Deaf__go","_meta":{meta},"arguments":{{"text":"{text}"}}}}"#);
    for id in 1000..1300 {
        let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
        agent.write_text(&format!("{call}\n"));
    }
    let refused = agent.answer(1299);
    assert_eq!(refused["result"]["_meta"]["dev.toolyard/error"]["kind"], "limit", "{refused}");
    assert_eq!(refused["result"]["_meta"]["dev.toolyard/error"]["retry"], "always", "{refused}");
    let grown = memory(&yard).saturating_sub(before);
    assert!(grown < 400, "{grown} MB for 300 MB of calls");
    drop(silent);
    for id in 1000..1299 {
        assert_eq!(agent.answer(id)["result"]["isError"], true, "each has its one answer");
    }
}

#[test]
fn an_instance_that_hangs_fills_no_memory() {
    let yard = Yard::start("timeout = \"300s\"\n");
    let (_instance, way) = Instance::start_behind_proxy(&yard, "shop", "both");
    let mut agent = yard.agent();
    eventually("the instance", || (agent.upstream("shop")["state"] == "active").then_some(()));
    let before = memory(&yard);
    way.hold(true);
    let text = "x".repeat(1024 * 1024);
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let params = format!(r#"{{"name":"shop__test_echo","_meta":{meta},"arguments":{{"text":"{text}"}}}}"#);
    for id in 1000..1800 {
        let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
        agent.write_text(&format!("{call}\n"));
    }
    let refused = agent.answer(1799);
    let about = &refused["result"]["_meta"]["dev.toolyard/error"];
    assert_eq!(
        (&about["kind"], &about["retry"], &about["upstream"]),
        (&json!("limit"), &json!("always"), &json!("shop")),
        "{refused}"
    );
    let grown = memory(&yard).saturating_sub(before);
    assert!(grown < 560, "{grown} MB for 800 MB of calls");
    eprintln!("800 calls of 1 MiB at an instance that hangs cost {grown} MB");
    // Once the app answers there is room again, and each call gets exactly one answer.
    way.hold(false);
    let answers = (1000..1799).map(|id| agent.answer(id)["result"]["isError"].clone());
    let carried_out = answers.filter(Value::is_null).count();
    assert!((100..=128).contains(&carried_out), "{carried_out}");
    assert!(agent.call("shop__test_echo", &json!({ "text": "again" }))["isError"].is_null());
}

/// The most memory that a process has had, in MiB.
fn peak_memory(process: u32) -> u64 {
    let about = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = about.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Sends the head of a POST and most of its body; returns the connection.
fn post_most_of(address: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len() + 1024
    );
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    // The gateway may refuse it before all is written.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    stream
}

#[test]
fn large_bodies_of_many_clients_do_not_fill_the_memory() {
    let yard = Yard::start("");
    let address = yard.note("http").as_str().unwrap().strip_prefix("http://").unwrap();
    let body = vec![b' '; 15 * 1024 * 1024];
    let connections: Vec<TcpStream> = (0..64).map(|_| post_most_of(address, &body)).collect();
    let refused = connections.into_iter().rev().find_map(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut reply = [0; 64];
        let count = stream.read(&mut reply).unwrap_or(0);
        String::from_utf8_lossy(&reply[..count]).contains("503").then_some(())
    });
    assert!(refused.is_some(), "some of them are refused");
    let peak = peak_memory(yard.pid());
    assert!(peak < 400, "{peak} MiB");
}

#[test]
fn large_first_messages_of_many_apps_do_not_fill_the_memory() {
    let yard = Yard::start("");
    let part = vec![b'x'; 12 * 1024 * 1024];
    let connections: Vec<TcpStream> = (0..30)
        .map(|_| {
            let mut stream = TcpStream::connect(yard.apps_tcp()).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
            // The gateway may refuse it before all is written.
            let _ = stream.write_all(&part);
            stream
        })
        .collect();
    let peak = peak_memory(yard.pid());
    assert!(peak < 400, "{peak} MiB");
    // An app with an ordinary registration is still accepted.
    let _app = App::register(&yard, Door::Tcp, "Small", &["go"]);
    yard.agent().wait_for_tools(&["Small__go"]);
    drop(connections);
}
