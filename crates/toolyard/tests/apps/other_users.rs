//! Other users of the machine: discovery does not connect to their ports (`discovery/port.rs` tests the same rule without
//! root), and they open no folder through the gateway.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
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

/// What a user gets who calls `dev__get_project_context` for a folder: at the local socket, and at the port.
fn project_as(user: u32, yard: &Yard, folder: &Path) -> [String; 2] {
    let script = r#"import json, os, socket, sys
user, unix, tcp, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3].rsplit(":", 1), sys.argv[4]
os.setgid(user); os.setuid(user)
def ask(family, address):
    s = socket.socket(family)
    s.settimeout(20)
    try:
        s.connect(address)
    except OSError as error:
        return type(error).__name__
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": "dev__get_project_context", "arguments": {}, "_meta": meta}
    s.sendall((json.dumps({"toolyard": 1, "folder": folder}) + "\n").encode())
    s.sendall((json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}) + "\n").encode())
    for line in s.makefile():
        if json.loads(line).get("id") == 1:
            return line.strip()
    return "closed"
print(ask(socket.AF_UNIX, unix)); print(ask(socket.AF_INET, (tcp[0], int(tcp[1]))))"#;
    let mut command = Command::new("python3");
    command.args(["-c", script, &user.to_string()]).arg(yard.socket()).arg(yard.tcp()).arg(folder);
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut lines = printed.lines().map(ToOwned::to_owned);
    [lines.next(), lines.next()].map(|line| line.unwrap_or_else(|| panic!("{output:?}")))
}

#[test]
#[ignore = "needs root; `cargo xtask test` runs it where it can"]
fn another_user_of_the_machine_opens_no_folder_through_the_gateway() {
    let yard = Yard::start("");
    // Only what the gateway itself protects counts.
    std::fs::set_permissions(yard.folder(), PermissionsExt::from_mode(0o755)).unwrap();
    let project = tempfile::tempdir().unwrap();
    std::fs::set_permissions(project.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(project.path().join("TODO.md"), "- [ ] the private plan\n").unwrap();
    let [local, port] = project_as(nix::unistd::getuid().as_raw(), &yard, project.path());
    assert!(local.contains("the private plan"), "{local}");
    assert!(port.contains("does not prove its user"), "a port proves no user: {port}");
    let [local, port] = project_as(65534, &yard, project.path());
    assert_eq!(local, "PermissionError");
    assert!(port.contains("does not prove its user") && !port.contains("the private plan"), "{port}");
}
