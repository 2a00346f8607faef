//! Several gateways of one config set: the first has the addresses that clients find by the config, and when it ends
//! one of the others takes them over.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::gateway::{Gateway, Home, eventually};
use crate::shim::Shim;
use crate::{gateway_of, home_with_server, modern, note};

const APPS: &str = "[apps]\nscan = false\nlisten = \"127.0.0.1:0\"\n";

fn start(home: &Home) -> Gateway {
    home.start(&["--config", "config.toml"])
}

/// Whether programs that look it up by the config find this gateway.
fn is_found(home: &Home, gateway: &Gateway) -> bool {
    gateway_of(home).as_raw().unsigned_abs() == gateway.id()
}

#[test]
fn a_second_gateway_is_found_after_the_first_has_ended_or_was_killed() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let home = home_with_server();
        let servers = std::fs::read_to_string(home.path("config.toml")).unwrap();
        home.write("config.toml", &format!("{servers}\n{APPS}"));
        let (first, second) = (start(&home), start(&home));
        assert!(is_found(&home, &first));
        let doors = note(&home);
        first.signal(signal);
        first.wait();
        eventually("the word of the second", || is_found(&home, &second).then_some(()));
        // By its socket: a shim need not start another gateway.
        eventually("its socket", || (note(&home)["socket"] == doors["socket"]).then_some(()));
        let mut shim = Shim::start(&home, &[]);
        assert!(shim.ask(&modern(1, "tools/list", json!({})))["result"].is_object());
        assert!(is_found(&home, &second));
        assert!(!home.path("state/gateway.log").exists(), "a shim has started another");
        // And so do apps.
        let apps = &doors["apps_socket"];
        eventually("the door for apps", || (note(&home)["apps_socket"] == *apps).then_some(()));
        std::os::unix::net::UnixStream::connect(apps.as_str().unwrap()).unwrap();
        assert_eq!(shim.close().0, Some(0));
        second.signal(Signal::SIGTERM);
        assert!(second.wait().0.success());
        assert!(!home.path("state/gateway.json").exists());
    }
}

#[test]
fn clients_of_a_gateway_that_ends_join_the_remaining_one_and_start_none() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let home = home_with_server();
        let (first, second) = (start(&home), start(&home));
        let mut shims = vec![Shim::start(&home, &[])];
        assert!(shims[0].ask(&modern(1, "tools/list", json!({})))["result"].is_object());
        first.signal(signal);
        first.wait();
        // One client has lost its gateway, and one connects before the other gateway has taken over.
        shims.push(Shim::start(&home, &[]));
        for mut shim in shims {
            assert!(shim.ask(&modern(2, "tools/list", json!({})))["result"].is_object());
            assert_eq!(shim.close().0, Some(0));
        }
        eventually("the word of the second", || is_found(&home, &second).then_some(()));
        assert!(!home.path("state/gateway.log").exists(), "a shim has started another");
        second.signal(Signal::SIGTERM);
        assert!(second.wait().0.success());
    }
}

#[test]
fn a_gateway_is_started_if_the_standby_has_ended_too() {
    let home = home_with_server();
    let (first, second) = (start(&home), start(&home));
    for gateway in [second, first] {
        gateway.signal(Signal::SIGKILL);
        gateway.wait();
    }
    let mut shim = Shim::start(&home, &[]);
    assert!(shim.ask(&modern(1, "tools/list", json!({})))["result"].is_object());
    assert!(home.path("state/gateway.log").exists());
    assert_eq!(shim.close().0, Some(0));
}

#[test]
fn a_gateway_is_found_again_when_the_one_that_replaced_its_address_file_has_ended() {
    let home = home_with_server();
    home.write("config.toml", &format!("[listen]\nunix = false\n\n{APPS}unix = false\n"));
    let first = start(&home);
    assert!(is_found(&home, &first));
    let second = start(&home);
    assert!(is_found(&home, &second));
    second.signal(Signal::SIGTERM);
    assert!(second.wait().0.success());
    eventually("the word of the first", || is_found(&home, &first).then_some(()));
}
