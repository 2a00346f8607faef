//! Apps that are found because the environment of their process names their address. Every gateway of this
//! user would find them, so with nextest these tests run alone.

use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::support::{Agent, App, Door, Listener, Way, Yard, eventually};

/// A process with these variables that does nothing.
struct Process(Child);

impl Process {
    fn start(variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new("sleep");
        command.arg("600").env_clear().envs(variables.iter().copied());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A gateway that scans every second.
fn yard(more: &str) -> Yard {
    Yard::start(&format!("scan = \"1s\"\n{more}"))
}

fn upstreams(agent: &mut Agent) -> Vec<String> {
    let result = agent.call("yard__upstreams", &json!({}));
    let upstreams = result["structuredContent"]["upstreams"].as_array().unwrap().iter();
    let apps = upstreams.filter(|upstream| upstream["kind"] == "app");
    apps.map(|upstream| upstream["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_variable_of_a_process_is_enough_to_be_found_and_children_that_inherit_it_are_no_second_app() {
    let yard = yard("");
    let mut agent = yard.agent();
    for (endpoint, id) in
        [("TOOLYARD_ENDPOINT", "TOOLYARD_APP_ID"), ("AVALONIA_MCP_ENDPOINT", "AVALONIA_MCP_APP_ID")]
    {
        let listener = Listener::tcp();
        let name = id.replace("_APP_ID", "");
        let at = listener.endpoint();
        let variables = [(endpoint, at.as_str()), (id, name.as_str())];
        let processes = [Process::start(&variables), Process::start(&variables)];
        let mut app = App::accept(&listener, &name, &["draw"]);
        let shown = format!("{name}__draw");
        eventually("its tool", || agent.tools().contains(&shown).then_some(()));
        let call = agent.send_call(&shown, &json!({}));
        let invocation = app.invocation();
        app.answer(&invocation, &json!("drawn"));
        assert_eq!(agent.answer(call)["result"]["content"][0]["text"], "drawn");
        assert_eq!(upstreams(&mut agent).iter().filter(|id| **id == name).count(), 1);
        // The end of a hint does not end the connection.
        drop(processes);
        eventually("the end of the hint", || yard.stderr().contains("its process is gone").then_some(()));
        assert!(agent.tools().contains(&shown));
        drop(app);
        eventually("the end of the app", || (!agent.tools().contains(&shown)).then_some(()));
    }
}

#[test]
fn list_states_which_process_an_app_was_found_by() {
    let yard = yard("");
    let listener = Listener::tcp();
    let at = listener.endpoint();
    let process = Process::start(&[("TOOLYARD_ENDPOINT", &at), ("TOOLYARD_APP_ID", "Paint")]);
    let _app = App::accept(&listener, "Paint", &["draw"]);
    yard.agent().wait_for_tools(&["Paint__draw"]);
    let (_, listed) = yard.run(&["list"]);
    let expected = format!("app (found by scan: process {} at {at})", process.0.id());
    let row = listed.lines().find(|line| line.starts_with("Paint ")).unwrap_or_else(|| panic!("{listed}"));
    assert!(row.contains(&expected), "{row}");
}

#[test]
fn neither_the_gateway_nor_what_it_starts_is_mistaken_for_an_app() {
    let listener = Listener::tcp();
    let at = listener.endpoint();
    let child = "\n[upstreams.child]\ncommand = \"sleep\"\nargs = [\"600\"]\n";
    let yard =
        Yard::start_with("scan = \"1s\"", child, &[("TOOLYARD_ENDPOINT", &at), ("TOOLYARD_APP_ID", "Self")]);
    let mut agent = yard.agent();
    // An app that is found now was found by a scan that began after both had started.
    let other = Listener::tcp();
    let _process = Process::start(&[("TOOLYARD_ENDPOINT", &other.endpoint()), ("TOOLYARD_APP_ID", "Other")]);
    let _app = App::accept(&other, "Other", &["draw"]);
    agent.wait_for_tools(&["Other__draw"]);
    assert_eq!(upstreams(&mut agent), ["Other"]);
}

#[test]
fn hints_never_beat_what_the_config_names_and_lead_nowhere_else() {
    let (ours, theirs) = (Listener::tcp(), Listener::tcp());
    let yard = yard(&format!("[apps.endpoints]\nPaint = \"{}\"\n", ours.endpoint()));
    let _app = App::accept(&ours, "Paint", &["draw"]);
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Paint__draw"]);
    let hint = |endpoint: &str, id: &str| {
        Process::start(&[("TOOLYARD_ENDPOINT", endpoint), ("TOOLYARD_APP_ID", id)])
    };
    let _processes = [
        hint(&theirs.endpoint(), "Paint"),
        hint(&theirs.endpoint(), "yard"),
        hint(&ours.endpoint(), "Second"),
        hint(&format!("tcp://{}", yard.tcp()), "Loop"),
        hint("tcp://192.0.2.1:1", "Elsewhere"),
        hint("nonsense", "Nonsense"),
    ];
    let good = Listener::tcp();
    let _process = hint(&good.endpoint(), "Good");
    let _good = App::accept(&good, "Good", &["a"]);
    agent.wait_for_tools(&["Good__a", "Paint__draw"]);
    assert_eq!(upstreams(&mut agent), ["Paint", "Good"]);
}

#[test]
fn an_app_that_restarts_elsewhere_is_found_again() {
    let yard = yard("");
    let mut agent = yard.agent();
    for round in 0..3 {
        let listener = Listener::tcp();
        let _process =
            Process::start(&[("TOOLYARD_ENDPOINT", &listener.endpoint()), ("TOOLYARD_APP_ID", "Paint")]);
        let tool = format!("draw{round}");
        let _app = App::accept(&listener, "Paint", &[&tool]);
        agent.wait_for_tools(&[&format!("Paint__{tool}")]);
    }
    // An app that registers under that name is the same app.
    let _app = App::register(&yard, Door::Tcp, "Paint", &["by_itself"]);
    agent.wait_for_tools(&["Paint__by_itself"]);
}

/// The processes that were left out.
fn left_out(yard: &Yard) -> String {
    let (_, report) = yard.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let ways = report["report"]["discovery"].as_array().unwrap();
    let way = ways.iter().find(|way| way["way"] == "processes").unwrap();
    way["skipped"].to_string()
}

#[test]
fn an_endpoint_added_to_the_config_is_no_longer_a_hint_and_is_one_again_when_removed() {
    let (yard, listener) = (yard(""), Listener::tcp());
    let at = listener.endpoint();
    let _process = Process::start(&[("TOOLYARD_ENDPOINT", &at), ("TOOLYARD_APP_ID", "Hinted")]);
    let hinted = App::accept(&listener, "Hinted", &["a"]);
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Hinted__a"]);
    yard.reconfigure(&format!("[apps.endpoints]\nNamed = \"{at}\"\n"));
    let named = App::accept(&listener, "Named", &["b"]);
    // A connected app stays connected.
    agent.wait_for_tools(&["Hinted__a", "Named__b"]);
    eventually("the next look", || left_out(&yard).contains("the config names it, as `Named`").then_some(()));
    drop(hinted);
    agent.wait_for_tools(&["Named__b"]);
    yard.reconfigure("");
    let _hinted = App::accept(&listener, "Hinted", &["c"]);
    agent.wait_for_tools(&["Hinted__c"]);
    drop(named);
}

#[test]
fn the_end_of_a_hint_does_not_disconnect_an_app_of_the_config_with_the_same_id() {
    let (hinted, named) = (Listener::tcp(), Listener::tcp());
    let yard = yard("");
    let mut agent = yard.agent();
    let process = Process::start(&[("TOOLYARD_ENDPOINT", &hinted.endpoint()), ("TOOLYARD_APP_ID", "Paint")]);
    let app = App::accept(&hinted, "Paint", &["by_hint"]);
    agent.wait_for_tools(&["Paint__by_hint"]);
    yard.reconfigure(&format!("[apps.endpoints]\nPaint = \"{}\"\n", named.endpoint()));
    eventually("the config", || yard.stderr().contains("the changed config is applied").then_some(()));
    drop(process);
    eventually("the end of the hint", || yard.stderr().contains("its process is gone").then_some(()));
    drop(app);
    let _app = App::accept(&named, "Paint", &["by_config"]);
    agent.wait_for_tools(&["Paint__by_config"]);
}

/// The time of the last scan of processes, and the reported interval.
fn looked(yard: &Yard) -> Option<(String, u64)> {
    let report = yard.command_with(".mcpproxy.json", &["doctor", "--json"]).output().unwrap().stdout;
    let report: Value = serde_json::from_slice(&report).unwrap();
    let way = report["report"]["discovery"].as_array()?.iter().find(|way| way["way"] == "processes")?;
    Some((way["looked"].as_str()?.to_owned(), way["every_ms"].as_u64()?))
}

#[test]
fn discovery_scan_interval_is_how_often_processes_are_looked_at() {
    let proxy = |every: &str| {
        let keys: Value = json!({ "BindAddress": "localhost:0", "DiscoveryScanInterval": every });
        Yard::of_proxy(&json!({ "McpProxy": keys }), Way::Flag)
    };
    let (often, rarely) = (proxy("00:00:01"), proxy("01:00:00"));
    let (first, every) = eventually("the first look", || looked(&rarely));
    assert_eq!((every, eventually("the same", || looked(&often)).1), (3_600_000, 1000));
    // A new app is found by the gateway that scans often; after that, the gateway scans again.
    let listener = Listener::tcp();
    let _process =
        Process::start(&[("TOOLYARD_ENDPOINT", &listener.endpoint()), ("TOOLYARD_APP_ID", "Late")]);
    let _app = App::accept(&listener, "Late", &["draw"]);
    often.local_agent().wait_for_tools(&["Late__draw"]);
    let mut looks = vec![looked(&often).unwrap().0];
    eventually("three more looks", || {
        let now = looked(&often)?.0;
        if !looks.contains(&now) {
            looks.push(now);
        }
        (looks.len() > 3).then_some(())
    });
    assert_eq!(looked(&rarely), Some((first, 3_600_000)), "not a second time within the hour");
    assert!(rarely.local_agent().tools().is_empty());
}
