//! A client that reads nothing delays no other.

use std::io::Write;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use serde_json::json;

use crate::gateway::eventually;
use crate::{call, gateway_of, home_with_server};

/// Few enough to be read at once, and with ids so long that their errors do not fit into a pipe.
const CALLS: u64 = 50;
const LONG: usize = 8 * 1024;

#[test]
fn the_last_message_to_a_client_that_reads_nothing_is_not_waited_for() {
    for closes_first in [true, false] {
        let home = home_with_server();
        let mut command = home.toolyard(&["stdio", "--config", "config.toml", "--state-dir", "state"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let info = json!({ "name": "t", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
        writeln!(stdin, "{hello}").unwrap();
        writeln!(stdin, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).unwrap();
        for id in 1..=CALLS {
            let mut call = call(id, "sh__hang");
            call["id"] = format!("{id}{}", "x".repeat(LONG)).into();
            writeln!(stdin, "{call}").unwrap();
        }
        eventually("the call", || home.path("called").exists().then_some(()));
        let stdin = Some(stdin).filter(|_| !closes_first);
        kill(gateway_of(&home), Signal::SIGKILL).unwrap();
        drop(stdin);
        // Its stdout is still open, and full.
        let code = eventually("the end of the shim", || child.try_wait().unwrap()).code();
        assert!(child.stdout.is_some());
        assert_eq!(code, Some(0), "{closes_first}");
    }
}
