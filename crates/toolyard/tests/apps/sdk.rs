//! Apps made with the SDK and apps in other languages, as their makers write them.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use toolyard_app::{App, Door, Standing};
use toolyard_tool::{ToolSet, tool};

use crate::support::{Agent, Yard, eventually};

/// Says hello.
#[tool]
async fn hello() -> String {
    "hello".into()
}

/// Says goodbye.
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
fn an_app_of_the_sdk_survives_restarts_of_the_gateway_and_says_goodbye() {
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
    assert_eq!(running.standing(), Standing::Registered);
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Greeter__fail", "Greeter__hello"]);
    runtime.block_on(running.end());
    agent.wait_for_tools(&[]);
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
