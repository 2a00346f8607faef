//! Apps made with the SDK, and apps in other languages.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use toolyard_app::{App, AppStatus, Door};
use toolyard_tool::{Content, Context, ToolSet, tool};

use crate::support::{Agent, Yard, eventually};

/// Greets the user.
#[tool]
async fn hello() -> String {
    "hello".into()
}

/// Bids farewell.
#[tool]
async fn bye() -> String {
    "bye".into()
}

/// Fails.
#[tool]
async fn fail() -> Result<String, std::io::Error> {
    Err(std::io::Error::other("it did not work"))
}

fn door(yard: &Yard) -> Door {
    Door::Tcp(yard.apps_tcp().parse().unwrap())
}

#[test]
fn an_app_of_the_sdk_survives_restarts_of_the_gateway_and_unregisters() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut yard = Yard::start("");
    let tools = ToolSet::new("greeter", "1.0.0").with::<hello>().with::<fail>();
    let app = App::new("Greeter", tools).at(door(&yard)).first_wait(Duration::from_millis(50));
    let mut running = runtime.block_on(async { app.start() });
    for _ in 0..3 {
        let mut agent = yard.agent();
        agent.wait_for_tools(&["Greeter__fail", "Greeter__hello"]);
        assert_eq!(agent.call("Greeter__hello", &json!({}))["content"][0]["text"], "hello");
        assert!(agent.failure("Greeter__fail").contains("it did not work"));
        yard.restart();
    }
    runtime.block_on(running.registered());
    assert_eq!(running.status(), AppStatus::Registered);
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Greeter__fail", "Greeter__hello"]);
    runtime.block_on(running.end());
    agent.wait_for_tools(&[]);
}

/// Sends a part of its result first.
#[tool]
async fn in_parts(context: &Context) -> String {
    assert!(context.partial(Content::new().text("first")), "the client asked for progress");
    assert!(!context.partial(Content::new().text("x".repeat(65 * 1024))), "too large");
    context.progress(1, 2);
    context.partial(Content::new().text("second"));
    "first second".into()
}

#[test]
fn parts_of_a_result_reach_a_client_that_asked_for_progress() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let yard = Yard::start("");
    let app = App::new("Parts", ToolSet::new("parts", "1.0.0").with::<in_parts>()).at(door(&yard));
    let _running = runtime.block_on(async { app.start() });
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Parts__in_parts"]);
    let meta = json!({ "progressToken": "p" });
    let id = agent.send("tools/call", json!({ "name": "Parts__in_parts", "arguments": {}, "_meta": meta }));
    let result = agent.answer(id);
    assert_eq!(result["result"]["content"][0]["text"], "first second", "{result}");
    let mut last = 0.0;
    for expected in [json!("first"), json!(null), json!("second")] {
        let part = agent.next_received("notifications/progress");
        assert_eq!(part["params"]["progressToken"], "p");
        assert_eq!(part["params"]["_meta"]["dev.toolyard/partial"][0]["text"], expected, "{part}");
        let progress = part["params"]["progress"].as_f64().unwrap();
        assert!(progress > last, "{part}");
        last = progress;
    }
}

const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const OTHER: &str = "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=";

fn greeter(name: &str) -> App {
    App::new(name, ToolSet::new("greeter", "1.0.0").with::<hello>())
}

#[test]
fn an_app_makes_its_tokens_from_the_shared_secret() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut yard = Yard::start(&format!("\n[auth]\nsecret = \"{SECRET}\"\n"));
    let app = greeter("Greeter").at(door(&yard)).first_wait(Duration::from_millis(50));
    let mut running = runtime.block_on(async { app.secret(SECRET).unwrap().start() });
    runtime.block_on(running.registered());
    // Each connection has its own token, also within a second.
    yard.restart();
    runtime.block_on(running.registered());
    let other = greeter("Other").at(door(&yard)).first_wait(Duration::from_millis(50));
    let other = runtime.block_on(async { other.secret(OTHER).unwrap().start() });
    eventually("the refusal", || match other.status() {
        AppStatus::Away(Some(why)) if why.contains("another secret") => Some(()),
        _ => None,
    });
}

#[test]
fn an_app_with_a_secret_that_listens_talks_only_to_a_gateway_that_knows_the_secret() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let listen = |name: &str| {
        let app = greeter(name).secret(SECRET).unwrap().instances_in(folder.path());
        runtime.block_on(app.listen("127.0.0.1:0")).unwrap()
    };
    for (secret, reason) in [
        (None, "requires proof of a shared secret"),
        (Some(OTHER), "closed the connection"),
        (Some(SECRET), ""),
    ] {
        let mut app = listen("Greeter");
        let auth = secret.map(|secret| format!("\n[auth]\nsecret = \"{secret}\"\n")).unwrap_or_default();
        let yard = Yard::start(&format!("[apps.endpoints]\nGreeter = \"{}\"\n{auth}", app.endpoint()));
        if reason.is_empty() {
            runtime.block_on(app.registered());
            continue;
        }
        eventually(reason, || yard.run(&["list"]).1.contains(reason).then_some(()));
        assert_eq!(app.status(), AppStatus::Away(None));
    }
}

#[test]
fn an_app_can_listen_on_a_local_socket_and_on_http() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let yard = Yard::start("");
    let instances = yard.folder().join("toolyard/instances");
    let local = greeter("Local").instances_in(&instances);
    let local = runtime.block_on(local.listen_local(yard.folder().join("local.sock"))).unwrap();
    let http = runtime.block_on(greeter("Http").instances_in(&instances).listen_http("127.0.0.1:0")).unwrap();
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Http__hello", "Local__hello"]);
    for tool in ["Http__hello", "Local__hello"] {
        assert_eq!(agent.call(tool, &json!({}))["content"][0]["text"], "hello", "{tool}");
    }
    runtime.block_on(async { tokio::join!(local.end(), http.end()) });
    agent.wait_for_tools(&[]);
    assert!(runtime.block_on(greeter("Http").secret(SECRET).unwrap().listen_http("127.0.0.1:0")).is_err());
}

#[test]
fn tools_of_a_set_come_and_go_while_its_app_runs() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let yard = Yard::start("");
    let tools = std::sync::Arc::new(ToolSet::new("greeter", "1.0.0").with::<hello>());
    let app = App::sharing("Greeter", &tools).at(door(&yard));
    let _running = runtime.block_on(async { app.start() });
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Greeter__hello"]);
    tools.live().add(ToolSet::new("more", "1").with::<bye>()).unwrap();
    agent.wait_for_tools(&["Greeter__bye", "Greeter__hello"]);
    assert_eq!(agent.call("Greeter__bye", &json!({}))["content"][0]["text"], "bye");
    assert!(tools.live().remove_tool("hello"));
    agent.wait_for_tools(&["Greeter__bye"]);
}

/// A program, ended with its test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn example(yard: &Yard, interpreter: &str, file: &str) -> Program {
    let file = format!("{}/../../examples/clock-app/{file}", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(interpreter);
    command.args([&file, &yard.apps_tcp()]).stdin(Stdio::null()).stdout(Stdio::null());
    Program(command.spawn().unwrap_or_else(|error| panic!("start {interpreter}: {error}")))
}

fn use_clock(agent: &mut Agent, name: &str) {
    let shown = format!("{name}__add");
    eventually("its tools", || agent.tools().contains(&shown).then_some(()));
    let sum = agent.call(&shown, &json!({ "a": 1, "b": 2 }));
    assert_eq!(sum["structuredContent"]["sum"], 3, "{sum}");
    assert!(agent.failure(&format!("{name}__ring")).contains("the bell is missing"));
    let now = agent.call(&format!("{name}__now"), &json!({}));
    assert!(now["content"][0]["text"].as_str().unwrap().parse::<u64>().unwrap() > 1_700_000_000, "{now}");
}

#[test]
fn the_bare_protocol_in_python_works_as_it_is_written() {
    let mut yard = Yard::start("");
    let _app = example(&yard, "python3", "clock_app.py");
    use_clock(&mut yard.agent(), "PythonClock");
    yard.restart();
    use_clock(&mut yard.agent(), "PythonClock");
}
