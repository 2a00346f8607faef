//! Secrets in addresses: whoever lists, asks or reads the log sees none, at whatever place an address is told; and
//! ports of other users are not spoken to.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::instances::Server;
use crate::support::{Agent, Yard, eventually};

/// In every address; no place may show it.
const SECRET: &str = "s3cr3t-0f-7h3-addr355";

#[test]
fn no_place_shows_the_query_of_an_address() {
    let server = Server::start();
    let (good, gone) = (
        format!("http://127.0.0.1:{}/mcp?api_key={SECRET}", server.port),
        format!("http://127.0.0.1:1/mcp?token={SECRET}"),
    );
    let yard = Yard::start_with(
        &format!("[apps.endpoints]\nWeb = \"{good}\"\nNobody = \"{gone}\"\n"),
        &format!("[upstreams.there]\nurl = \"{good}\"\n\n[upstreams.away]\nurl = \"{gone}\"\n\n"),
        &[("TOOLYARD_LOG", "debug")],
    );
    for (id, endpoint) in [("one", &good), ("two", &gone), ("far", &format!("http://192.0.2.1/?k={SECRET}"))]
    {
        let file = json!({ "id": id, "name": id, "directory": "/srv", "port": 1, "endpoint": endpoint });
        yard.write_instance("toolyard", &format!("{id}.json"), &file.to_string());
    }
    let mut agent = yard.agent();
    for id in ["Web", "one", "there"] {
        eventually(id, || (agent.upstream(id)["state"] == "active").then_some(()));
    }
    for id in ["Nobody", "away", "two"] {
        eventually(id, || agent.upstream(id)["reason"].is_string().then_some(()));
    }
    let told = ["yard__upstreams", "yard__instances_list", "yard__instances_health", "yard__status"]
        .map(|tool| (tool.to_owned(), agent.call(tool, &json!({})).to_string()));
    let hub = Agent::in_view(&yard, "hub").call("instances_list", &json!({})).to_string();
    let failed = agent.send_call("away__go", &json!({}));
    let mut all: Vec<(String, String)> = told.into_iter().collect();
    all.extend([("hub".to_owned(), hub), ("a failed call".to_owned(), agent.answer(failed).to_string())]);
    for command in [
        &["list"][..],
        &["list", "--json"],
        &["get", "there"],
        &["get", "away", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["explain", "away:go"],
        &["explain", "two:go"],
        &["validate"],
        &["tools", "list", "--json"],
    ] {
        let output = yard.command(command).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        all.push((command.join(" "), String::from_utf8(said).unwrap()));
    }
    all.push(("the log".to_owned(), yard.said()));
    let shown = all.iter().filter(|(_, said)| said.contains(SECRET));
    let shown: Vec<String> = shown
        .map(|(what, said)| {
            let lines = said.lines().filter(|line| line.contains(SECRET)).take(3);
            format!("{what}: {}", lines.collect::<Vec<_>>().join("\n   "))
        })
        .collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
    assert!(all.iter().any(|(_, said)| said.contains("http://127.0.0.1:1/mcp")), "what is no secret is told");
}

/// Somebody else on this machine who listens. Ended with the test.
struct Stranger(Child);

impl Stranger {
    /// As a user that is nobody's; nothing where we may not do that.
    fn listen(address: &str, port: u16) -> Option<(Self, u16)> {
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
        let stranger = Self(child);
        line.trim().parse().ok().map(|port| (stranger, port))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const NOT_TRIED: &str =
    "not tried: only an administrator can be somebody else; discovery/port.rs tries it on paper";

#[test]
fn a_hint_is_followed_though_another_user_has_the_port_at_another_address() {
    let server = Server::start();
    let Some(_stranger) = Stranger::listen("127.0.0.2", server.port) else { return eprintln!("{NOT_TRIED}") };
    let yard = Yard::start("");
    let file = json!({ "id": "mine", "name": "mine", "directory": "/srv", "port": server.port });
    yard.write_instance("toolyard", "mine.json", &file.to_string());
    let mut agent = yard.agent();
    eventually("the instance", || (agent.upstream("mine")["state"] == "active").then_some(()));
}

#[test]
fn a_hint_does_not_lead_to_a_port_of_another_user() {
    let Some((_stranger, port)) = Stranger::listen("127.0.0.1", 0) else { return eprintln!("{NOT_TRIED}") };
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
