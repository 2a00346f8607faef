//! Discovery does not connect to ports of other users. `discovery/port.rs` tests the same rule without root.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::instances::Server;
use crate::support::{Yard, eventually};

/// A process of another user that listens. Ended with the test.
struct OtherUser(Child);

impl OtherUser {
    /// Listens as the user 65534; returns the port.
    fn listen(address: &str, port: u16) -> (Self, u16) {
        let script = "import os, socket, sys, time
os.setgid(65534); os.setuid(65534)
s = socket.create_server((sys.argv[1], int(sys.argv[2]))); print(s.getsockname()[1], flush=True)
c, _ = s.accept(); print('dialled', flush=True); time.sleep(600)";
        let mut command = Command::new("python3");
        command
            .args(["-c", script, address, &port.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .stdin(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().expect("the port; only root can become another user");
        (Self(child), port)
    }
}

impl Drop for OtherUser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs root; `cargo xtask test` runs it where it can"]
fn a_hint_is_followed_though_another_user_has_the_port_at_another_address() {
    let server = Server::start();
    let _other = OtherUser::listen("127.0.0.2", server.port);
    let yard = Yard::start("");
    let file = json!({ "id": "mine", "name": "mine", "directory": "/srv", "port": server.port });
    yard.write_instance("toolyard", "mine.json", &file.to_string());
    let mut agent = yard.agent();
    eventually("the instance", || (agent.upstream("mine")["state"] == "active").then_some(()));
}

#[test]
#[ignore = "needs root; `cargo xtask test` runs it where it can"]
fn a_hint_does_not_lead_to_a_port_of_another_user() {
    let (_other, port) = OtherUser::listen("127.0.0.1", 0);
    let yard = Yard::start("");
    let mut agent = yard.agent();
    for (id, endpoint) in
        [("lines", format!("tcp://127.0.0.1:{port}")), ("web", format!("http://localhost:{port}/mcp"))]
    {
        let file = json!({ "id": id, "name": id, "directory": "/srv", "port": port, "endpoint": endpoint });
        yard.write_instance("toolyard", &format!("{id}.json"), &file.to_string());
        let reason = eventually("a reason", || agent.upstream(id)["reason"].as_str().map(str::to_owned));
        assert!(reason.contains("another user of this machine listens at"), "{reason}");
        assert_ne!(agent.upstream(id)["state"], "active");
    }
}
