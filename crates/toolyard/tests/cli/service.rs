//! The gateway under a service manager, and a tool that an operator has switched off.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;

use super::gateway::Home;
use super::{home_with_server, http};

#[test]
fn systemd_is_sent_when_the_gateway_listens_and_when_it_stops() {
    let home = Home::new();
    let socket = UnixDatagram::bind(home.path("notify.sock")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let next = || {
        let mut state = [0; 64];
        let length = socket.recv(&mut state).unwrap();
        String::from_utf8_lossy(&state[..length]).into_owned()
    };
    let place = home.path("notify.sock").display().to_string();
    let gateway = home.start_with(("NOTIFY_SOCKET", &place));
    assert_eq!(next(), "READY=1");
    gateway.signal(Signal::SIGTERM);
    assert_eq!(next(), "STOPPING=1");
    assert!(gateway.wait().0.success());
}

/// The verdict of systemd itself; `cargo xtask test` runs it where systemd-analyze is installed.
mod systemd {
    use super::{Command, Home};

    #[test]
    #[ignore = "needs systemd-analyze"]
    fn systemd_accepts_the_unit() {
        let home = Home::new();
        let printed = ["service", "install", "--print", "--config", "a 100% \"$x\".toml"];
        let (code, unit, stderr) = home.run(&printed);
        assert_eq!(code, 0, "{stderr}");
        home.write("toolyard.service", &unit);
        let verified = Command::new("systemd-analyze")
            .args(["--user", "verify"])
            .arg(home.path("toolyard.service"))
            .env("XDG_RUNTIME_DIR", home.path(""))
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&verified.stderr);
        let about_us: Vec<&str> = output.lines().filter(|line| line.contains("toolyard.service")).collect();
        assert!(about_us.is_empty(), "{about_us:?}");
    }
}

#[test]
fn a_tool_that_is_switched_off_is_not_listed_and_a_call_reports_why() {
    let home = home_with_server();
    let switch = |switch: &str| {
        home.run(&["tools", switch, "sh:wait", "--config", "config.toml", "--state-dir", "state"])
    };
    let gateway = home.start(&["--config", "config.toml"]);
    let names = |path: &str| {
        let url = format!("{}{path}", gateway.url);
        http::read(http::modern(&url, "tools/list", json!({}))).tool_names()
    };
    let call = |path: &str, name: &str| {
        let url = format!("{}{path}", gateway.url);
        let params = json!({ "name": name, "arguments": {} });
        http::read(http::modern(&url, "tools/call", params)).message()
    };
    assert!(names("/mcp").contains(&"sh__wait".to_owned()));
    assert_eq!(switch("disable").1, "sh:wait is off\n");
    assert!(!names("/mcp").contains(&"sh__wait".to_owned()));
    assert!(!names("/mcp/sh").contains(&"wait".to_owned()));
    for (path, name) in [("/mcp", "sh__wait"), ("/mcp", "sh:wait"), ("/mcp/sh", "wait")] {
        let error = call(path, name);
        let message = error["error"]["message"].as_str().unwrap_or_default();
        let why = "it is switched off; `toolyard tools enable sh:wait` switches it on";
        assert!(message.ends_with(why), "{error}");
    }
    gateway.signal(Signal::SIGTERM);
    assert!(gateway.wait().0.success());
    let gateway = home.start(&["--config", "config.toml"]);
    let names = || http::read(http::modern(&gateway.url, "tools/list", json!({}))).tool_names();
    assert!(!names().contains(&"sh__wait".to_owned()), "off after a restart, too");
    assert_eq!(switch("enable").1, "sh:wait is on\n");
    assert!(names().contains(&"sh__wait".to_owned()));
}
