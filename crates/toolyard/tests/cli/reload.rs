//! A config that is edited while the gateway runs, and a gateway that is started again.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::gateway::{Gateway, Home, eventually, is_alive, process_in};
use crate::http;

const SERVER: &str = "command = \"sh\"\nargs = [\"upstream.sh\"]\n";

fn tools(gateway: &Gateway) -> Vec<String> {
    let mut names = http::read(http::modern(&gateway.url, "tools/list", json!({}))).tool_names();
    names.retain(|name| !name.starts_with("yard__") && !name.starts_with("dev__"));
    names
}

fn has_tools(gateway: &Gateway, names: &[&str]) {
    eventually(&format!("the tools {names:?}"), || (tools(gateway) == names).then_some(()));
}

#[test]
fn an_edited_config_is_applied_and_a_broken_one_is_not() {
    let home = Home::new();
    home.write("upstream.sh", include_str!("upstream.sh"));
    home.write("config.toml", &format!("[upstreams.one]\n{SERVER}"));
    let gateway = home.start(&["--config", home.path("config.toml").to_str().unwrap()]);
    has_tools(&gateway, &["one__wait"]);
    home.write("config.toml", &format!("[upstreams.one]\n{SERVER}[upstreams.two]\n{SERVER}"));
    has_tools(&gateway, &["one__wait", "two__wait"]);
    home.write("config.toml", "[upstreams.one]\ncomand = \"sh\"\n");
    home.write("config.toml", &format!("[upstreams.two]\n{SERVER}# now it is good again\n"));
    has_tools(&gateway, &["two__wait"]);
    gateway.signal(Signal::SIGTERM);
    let (status, _, _) = gateway.wait();
    assert!(status.success());
}

#[test]
fn a_config_with_mistakes_changes_nothing_and_the_mistakes_are_reported() {
    let home = Home::new();
    home.write("upstream.sh", include_str!("upstream.sh"));
    home.write("config.toml", &format!("[upstreams.one]\n{SERVER}"));
    let mut gateway = home.start(&["--config", home.path("config.toml").to_str().unwrap()]);
    has_tools(&gateway, &["one__wait"]);
    home.write("config.toml", "[upstreams.one]\ncomand = \"sh\"\n");
    gateway.wait_for_words("the changed config is not applied");
    assert_eq!(tools(&gateway), ["one__wait"]);
    gateway.signal(Signal::SIGTERM);
    gateway.wait();
}

#[test]
fn an_unset_variable_switches_off_its_server_and_the_rest_of_an_edited_config_is_applied() {
    let home = Home::new();
    home.write("upstream.sh", include_str!("upstream.sh"));
    home.write("config.toml", &format!("[upstreams.one]\n{SERVER}"));
    let gateway = home.start(&["--config", home.path("config.toml").to_str().unwrap()]);
    has_tools(&gateway, &["one__wait"]);
    let unset = format!("[upstreams.three]\n{SERVER}env = {{ KEY = \"${{TOOLYARD_TEST_UNSET}}\" }}\n");
    home.write("config.toml", &format!("[upstreams.one]\n{SERVER}[upstreams.two]\n{SERVER}{unset}"));
    has_tools(&gateway, &["one__wait", "two__wait"]);
    gateway.signal(Signal::SIGTERM);
    let (status, ..) = gateway.wait();
    assert!(status.success());
}

#[test]
fn an_edited_timeout_is_in_force_at_once_and_the_server_keeps_its_process() {
    let home = Home::new();
    home.write("upstream.sh", &include_str!("upstream.sh").replace("sleep 1", "sleep 3"));
    home.write("config.toml", &format!("[upstreams.one]\n{SERVER}"));
    let gateway = home.start(&["--config", home.path("config.toml").to_str().unwrap()]);
    has_tools(&gateway, &["one__wait"]);
    let before = process_in(&home.path("server.pid"));
    let call = || {
        let params = json!({ "name": "one__wait", "arguments": {} });
        http::read(http::modern(&gateway.url, "tools/call", params)).message()["result"].clone()
    };
    assert_eq!(call()["content"][0]["text"], "waited");
    home.write("config.toml", &format!("[upstreams.one]\n{SERVER}timeout = 1\n"));
    let failed = eventually("the new timeout", || Some(call()).filter(|result| result["isError"] == true));
    assert_eq!(failed["_meta"]["dev.toolyard/error"]["kind"], "timeout");
    assert_eq!(process_in(&home.path("server.pid")), before);
    assert!(is_alive(before));
    home.write(
        "config.toml",
        &format!("[upstreams.one]\n{SERVER}timeout = 1\n[tools.\"one:wait\"]\ntimeout = 60\n"),
    );
    eventually("the timeout of the tool", || (call()["content"][0]["text"] == "waited").then_some(()));
    assert_eq!(process_in(&home.path("server.pid")), before);
    gateway.signal(Signal::SIGTERM);
    gateway.wait();
}

#[test]
fn an_operator_restarts_switches_off_and_on_and_stops_over_the_local_socket() {
    let home = Home::new();
    home.write("upstream.sh", include_str!("upstream.sh"));
    home.write("config.toml", &format!("[upstreams.one]\n{SERVER}"));
    let config = home.path("config.toml");
    let gateway = home.start(&["--config", config.to_str().unwrap()]);
    has_tools(&gateway, &["one__wait"]);
    let before = process_in(&home.path("server.pid"));
    let run = |arguments: &[&str]| {
        let (code, output, errors) =
            home.run(&[&["--state-dir", "state", "--config", config.to_str().unwrap()], arguments].concat());
        (code, format!("{output}{errors}"))
    };
    let (code, printed) = run(&["restart", "one"]);
    assert_eq!((code, printed.as_str()), (0, "one: restarting\n"));
    eventually("another process", || (process_in(&home.path("server.pid")) != before).then_some(()));
    assert!(!is_alive(before), "the process before must have ended when the next is started");
    assert_eq!(run(&["disable", "one"]).0, 0);
    has_tools(&gateway, &[]);
    assert_eq!(run(&["enable", "one"]), (0, "one: enabled\n".to_owned()));
    has_tools(&gateway, &["one__wait"]);
    let (code, printed) = run(&["restart", "nope"]);
    assert!(code == 1 && printed.contains("there is no upstream `nope`"), "{printed}");
    assert_eq!(run(&["stop"]).0, 0);
    let (status, _, _) = gateway.wait();
    assert!(status.success());
    let (code, printed) = run(&["stop"]);
    assert!(code != 0 && printed.contains("no gateway runs with this config"), "{printed}");
}

#[test]
fn a_session_goes_on_after_a_restart() {
    let home = Home::new();
    let first = home.start(&[]);
    let session = http::open_session(&first.url);
    first.signal(Signal::SIGKILL);
    first.wait();
    let second = home.start(&[]);
    let reply = http::read(http::legacy(&second.url, &session, "tools/list", &json!({})));
    assert_eq!((reply.status, reply.tool_names().iter().any(|name| name == "yard__status")), (200, true));
}
