//! One set of tools, and the same rows over every way in which an app can be connected: it registers over TCP
//! or the local socket, it listens and is dialled, or it speaks MCP itself over HTTP or HTTP+SSE.

use std::any::Any;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolyard_app::{App, Door};
use toolyard_tool::schemars::{self, JsonSchema};
use toolyard_tool::{Door as McpDoor, Live, Server, ToolSet, tool};

use crate::support::{Agent, Yard, eventually};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Tcp,
    Unix,
    Listen,
    Http,
    Sse,
}

/// Identifies the app.
struct Mark(String);

#[derive(Deserialize, JsonSchema)]
struct Numbered {
    number: u64,
}

#[derive(Serialize, JsonSchema)]
struct Echo {
    mark: String,
    number: u64,
}

/// Returns which app answers, and the number it was given; higher numbers are answered sooner.
#[tool]
async fn echo(mark: &Mark, asked: Numbered) -> Echo {
    tokio::time::sleep(Duration::from_millis(50 - asked.number % 50)).await;
    Echo { mark: mark.0.clone(), number: asked.number }
}

/// Never answers.
#[tool]
async fn hang() -> String {
    std::future::pending().await
}

/// Is added and removed.
#[tool]
async fn extra() -> String {
    "extra".into()
}

/// A gateway, and how apps come to it.
struct Stage {
    transport: Transport,
    yard: Yard,
    runtime: Runtime,
}

/// An app. Dropped, it disconnects without unregistering.
struct Actor {
    live: Live,
    _running: Box<dyn Any>,
    /// The file with its address, if it does not register by itself.
    file: Option<PathBuf>,
}

fn tools(mark: &str) -> ToolSet<Mark> {
    ToolSet::new("actor", "1").state(Mark(mark.to_owned())).with::<echo>().with::<hang>()
}

impl Stage {
    /// With these keys in `[apps]`.
    fn new(transport: Transport, keys: &str) -> Self {
        let yard = Yard::start(keys);
        Self { transport, yard, runtime: Runtime::new().unwrap() }
    }

    /// Starts an app of this name. `file` distinguishes two of one name.
    fn start(&self, name: &str, file: &str, set: ToolSet<Mark>) -> Actor {
        let live = set.live();
        let _inside = self.runtime.enter();
        let folder = self.yard.folder().join("toolyard/instances");
        let (running, file): (Box<dyn Any>, _) = match self.transport {
            Transport::Tcp => {
                let door = Door::Tcp(self.yard.apps_tcp().parse().unwrap());
                (Box::new(App::new(name, set).at(door).start()), None)
            }
            Transport::Unix => {
                let door = Door::Local(self.yard.apps_socket());
                (Box::new(App::new(name, set).at(door).start()), None)
            }
            Transport::Listen => {
                let app = App::new(name, set).instances_in(folder);
                match self.runtime.block_on(app.listen("127.0.0.1:0")) {
                    Ok(listening) => (Box::new(listening), None),
                    Err(refused) => (Box::new(refused), None),
                }
            }
            Transport::Http | Transport::Sse => {
                let doors = [McpDoor::Http("127.0.0.1:0".into())];
                let server = self.runtime.block_on(Server::start(set, doors)).unwrap();
                let path = if self.transport == Transport::Sse { "sse" } else { "mcp" };
                let at = server.addresses()[0];
                let about = json!({ "id": name, "name": name, "directory": "/", "port": at.port(),
                    "endpoint": format!("http://{at}/{path}") });
                let file = self.yard.write_instance("toolyard", &format!("{file}.json"), &about.to_string());
                (Box::new(server), Some(file))
            }
        };
        Actor { live, _running: running, file }
    }

    fn wait_for(&self, agent: &mut Agent, shown: &str) {
        eventually(&format!("{shown} over {:?}", self.transport), || {
            agent.tools().iter().any(|tool| tool == shown).then_some(())
        });
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

fn echoed(agent: &mut Agent, name: &str, number: u64) -> Value {
    agent.call(&format!("{name}__echo"), &json!({ "number": number }))["structuredContent"].take()
}

/// Rows 3, 4, 5 and 6.
fn many_apps(transport: Transport) {
    let stage = Stage::new(transport, "");
    let mut agent = stage.yard.agent();
    let names = ["One", "Two", "Three"];
    let began = Instant::now();
    let actors = names.map(|name| stage.start(name, name, tools(name)));
    for name in names {
        stage.wait_for(&mut agent, &format!("{name}__echo"));
    }
    let listed = began.elapsed();
    let sent: Vec<(u64, u64)> = (0..999)
        .map(|number| {
            let name = names[usize::try_from(number % 3).unwrap()];
            (agent.send_call(&format!("{name}__echo"), &json!({ "number": number })), number)
        })
        .collect();
    for (id, number) in sent {
        let answer = agent.answer(id);
        let expected = json!({ "mark": names[usize::try_from(number % 3).unwrap()], "number": number });
        assert_eq!(answer["result"]["structuredContent"], expected, "{transport:?} {answer}");
    }
    // A second app of the same name changes nothing for the first, neither when it starts nor when it ends.
    let second = stage.start("One", "another", tools("Impostor"));
    for number in 0..20 {
        assert_eq!(echoed(&mut agent, "One", number)["mark"], "One", "{transport:?}");
    }
    drop(second);
    assert_eq!(echoed(&mut agent, "One", 1)["mark"], "One", "{transport:?}");
    eprintln!("three apps over {transport:?} were listed after {listed:?}");
    drop(actors);
}

/// Rows 7 and 8.
fn a_slow_and_a_dead_one(transport: Transport) {
    let stage = Stage::new(transport, "timeout = \"1s\"\n");
    let mut agent = stage.yard.agent();
    let actor = stage.start("App", "app", tools("App"));
    stage.wait_for(&mut agent, "App__hang");
    let hanging = agent.send_call("App__hang", &json!({}));
    assert_eq!(echoed(&mut agent, "App", 49)["number"], 49, "no call waits for another: {transport:?}");
    let late = agent.answer(hanging);
    assert_eq!(late["result"]["isError"], true, "{transport:?} {late}");
    let text = late["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("App") && text.contains("1 s"), "{transport:?} {text}");
    let mut listener = stage.yard.agent().shake_hands();
    let hanging = agent.send_call("App__hang", &json!({}));
    // It is under way once a later call has been answered.
    echoed(&mut agent, "App", 49);
    let died = Instant::now();
    drop(actor);
    let lost = agent.answer(hanging);
    assert_eq!(lost["result"]["isError"], true, "{transport:?} {lost}");
    assert!(lost["result"]["content"][0]["text"].as_str().unwrap().contains("App"), "{transport:?} {lost}");
    eprintln!("the call of a lost app over {transport:?} failed after {:?}", died.elapsed());
    listener.wait_for_news(|tools| tools.iter().all(|tool| !tool.starts_with("App__")));
}

/// Rows 9 and 10.
fn coming_and_going(transport: Transport) {
    let stage = Stage::new(transport, "");
    let mut agent = stage.yard.agent();
    for round in 0..5 {
        let mark = format!("round {round}");
        let _actor = stage.start("App", "app", tools(&mark));
        eventually(&format!("{mark} over {transport:?}"), || {
            let id = agent.send_call("App__echo", &json!({ "number": 49 }));
            (agent.answer(id)["result"]["structuredContent"]["mark"] == mark.as_str()).then_some(())
        });
    }
    let actor = stage.start("App", "app", tools("last"));
    stage.wait_for(&mut agent, "App__echo");
    let mut listener = stage.yard.agent().shake_hands();
    listener.changes_within(Duration::from_secs(2));
    listener.received.clear();
    for _ in 0..25 {
        actor.live.add(ToolSet::new("more", "1").with::<extra>()).unwrap();
        assert!(actor.live.remove_tool("extra"));
    }
    actor.live.add(ToolSet::new("more", "1").with::<extra>()).unwrap();
    stage.wait_for(&mut agent, "App__extra");
    let changes = listener.changes_within(Duration::from_secs(2));
    assert!((1..=3).contains(&changes), "{changes} announcements over {transport:?}");
}

macro_rules! over {
    ($($name:ident: $row:ident($transport:ident);)*) => { $(#[test] fn $name() { $row(Transport::$transport); })* };
}

over! {
    apps_register_and_are_called_over_tcp: many_apps(Tcp);
    apps_register_and_are_called_over_the_local_socket: many_apps(Unix);
    apps_register_and_are_called_where_apps_listen: many_apps(Listen);
    apps_register_and_are_called_over_http: many_apps(Http);
    apps_register_and_are_called_over_sse: many_apps(Sse);
    slow_and_dead_apps_fail_alone_over_tcp: a_slow_and_a_dead_one(Tcp);
    slow_and_dead_apps_fail_alone_over_the_local_socket: a_slow_and_a_dead_one(Unix);
    slow_and_dead_apps_fail_alone_where_apps_listen: a_slow_and_a_dead_one(Listen);
    slow_and_dead_apps_fail_alone_over_http: a_slow_and_a_dead_one(Http);
    slow_and_dead_apps_fail_alone_over_sse: a_slow_and_a_dead_one(Sse);
    apps_come_back_after_restarts_over_tcp: coming_and_going(Tcp);
    apps_come_back_after_restarts_over_the_local_socket: coming_and_going(Unix);
    apps_come_back_after_restarts_where_apps_listen: coming_and_going(Listen);
    apps_come_back_after_restarts_over_http: coming_and_going(Http);
    apps_come_back_after_restarts_over_sse: coming_and_going(Sse);
}
