//! Secrets in addresses: no list, answer, command or log line shows the query of an address.

use serde_json::json;

use crate::instances::Server;
use crate::support::{Agent, Yard, eventually};

/// Part of every address; it must not appear anywhere.
const SECRET: &str = "s3cr3t-0f-7h3-addr355";

#[test]
fn the_query_of_an_address_is_never_shown() {
    let server = Server::start();
    let (good, gone) = (
        format!("http://127.0.0.1:{}/mcp?api_key={SECRET}", server.port),
        format!("http://127.0.0.1:1/mcp?token={SECRET}"),
    );
    let yard = Yard::start_with(
        &format!("[apps.endpoints]\nWeb = \"{good}\"\nAbsent = \"{gone}\"\n"),
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
    for id in ["Absent", "away", "two"] {
        eventually(id, || agent.upstream(id)["reason"].is_string().then_some(()));
    }
    let answers = ["yard__upstreams", "yard__instances_list", "yard__instances_health", "yard__status"]
        .map(|tool| (tool.to_owned(), agent.call(tool, &json!({})).to_string()));
    let hub = Agent::in_view(&yard, "hub").call("instances_list", &json!({})).to_string();
    let failed = agent.send_call("away__go", &json!({}));
    let mut all: Vec<(String, String)> = answers.into_iter().collect();
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
        let text = [output.stdout, output.stderr].concat();
        all.push((command.join(" "), String::from_utf8(text).unwrap()));
    }
    all.push(("the log".to_owned(), yard.stderr()));
    let shown = all.iter().filter(|(_, text)| text.contains(SECRET));
    let shown: Vec<String> = shown
        .map(|(what, text)| {
            let lines = text.lines().filter(|line| line.contains(SECRET)).take(3);
            format!("{what}: {}", lines.collect::<Vec<_>>().join("\n   "))
        })
        .collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
    assert!(
        all.iter().any(|(_, text)| text.contains("http://127.0.0.1:1/mcp")),
        "the rest of the address is shown"
    );
}
