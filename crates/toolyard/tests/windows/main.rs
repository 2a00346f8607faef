//! The program on Windows: clients, apps and children over named pipes and in jobs, all of them processes of
//! their own. `cargo xtask windows` runs this under Wine; on Windows it is a test like any other.

#![cfg(windows)]
#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]

mod yard;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolyard_app::{App, Door};
use toolyard_model::local;
use toolyard_tool::{ToolSet, tool};
use yard::{Yard, until};

/// A server as a child: the program itself, with a pack.
const SERVER: &str = "[upstreams.tools]\ncommand = 'PROGRAM'\nargs = ['pack', 'dev']\n";

#[test]
fn clients_on_stdio_join_the_gateway_that_runs_and_each_receives_its_own_answers() {
    let yard = Yard::new(SERVER);
    let gateway = yard.serve();
    let mut shims: Vec<_> = (0..4).map(|_| yard.shim()).collect();
    for shim in &mut shims {
        assert!(shim.tools().iter().any(|tool| tool == "tools__echo"));
    }
    for round in 0..5 {
        let text = |number: usize| format!("client {number} in round {round}");
        let asked: Vec<u64> = shims
            .iter_mut()
            .enumerate()
            .map(|(number, shim)| shim.ask_tool("tools__echo", &json!({ "text": text(number) })))
            .collect();
        for (number, (shim, id)) in shims.iter_mut().zip(asked).enumerate() {
            let answer = shim.answer(id).to_string();
            assert!(answer.contains(&text(number)), "{answer}");
        }
    }
    for shim in shims {
        assert_eq!(shim.leave(), Some(0));
    }
    assert_eq!(yard.announced()["pid"], gateway.id());
}

#[test]
fn the_first_client_starts_a_gateway_that_ends_with_the_last() {
    let yard = Yard::new(SERVER);
    let mut first = yard.shim();
    assert!(first.tools().iter().any(|tool| tool == "tools__echo"));
    let socket = yard.socket("socket");
    assert!(local::is_answered(&socket));
    let mut second = yard.shim();
    assert!(second.tools().iter().any(|tool| tool == "tools__echo"));
    assert_eq!((first.leave(), second.leave()), (Some(0), Some(0)));
    until("the gateway has ended", || !yard.is_announced());
    assert!(!local::is_answered(&socket));
}

#[test]
fn a_client_outlives_its_gateway() {
    let yard = Yard::new(SERVER);
    let mut gateway = yard.serve();
    let mut shim = yard.shim();
    shim.tools();
    gateway.kill();
    let answer = shim.call("tools__echo", &json!({ "text": "still here" })).to_string();
    assert!(answer.contains("still here"), "{answer}");
    assert_ne!(yard.announced()["pid"], gateway.id());
    assert_eq!(shim.leave(), Some(0));
}

#[test]
fn a_second_gateway_of_the_same_config_leaves_the_pipe_to_the_first() {
    let yard = Yard::new("");
    let first = yard.serve();
    let second = yard.serve();
    second.wait_to_say("another gateway serves this config already");
    drop(second);
    let mut shim = yard.shim();
    shim.tools();
    drop(first);
}

/// A tool that never ends, and signals the other end of a channel when it is dropped.
#[tool]
async fn hang(alive: &Alive) -> String {
    let _mine = alive.0.clone();
    std::future::pending().await
}

struct Alive(Arc<()>);

/// Returns a word.
#[tool(read_only)]
async fn say() -> &'static str {
    "over a pipe"
}

#[test]
fn apps_register_over_their_pipe_and_the_calls_of_a_killed_client_are_cancelled() {
    let yard = Yard::new("");
    let gateway = yard.serve();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let alive = Arc::new(());
    let tools = ToolSet::new("words", "1").with::<say>().state(Alive(alive.clone())).with::<hang>();
    let app = App::new("Words", tools).at(Door::Local(yard.socket("apps_socket")));
    let mut running = runtime.block_on(async { app.start() });
    let registered = async { tokio::time::timeout(Duration::from_secs(20), running.registered()).await };
    runtime.block_on(registered).unwrap();

    let mut shim = yard.shim();
    let tools = shim.tools();
    let name = |end: &str| tools.iter().find(|tool| tool.ends_with(end)).unwrap().clone();
    let answer = shim.call(&name("say"), &json!({})).to_string();
    assert!(answer.contains("over a pipe"), "{answer}");

    shim.ask_tool(&name("hang"), &json!({}));
    until("the call has reached the app", || Arc::strong_count(&alive) == 3);
    shim.kill();
    until("the call is cancelled at the app", || Arc::strong_count(&alive) == 2);
    let mut other = yard.shim();
    let answer = other.call(&name("say"), &json!({})).to_string();
    assert!(answer.contains("over a pipe"), "no other client noticed: {answer}");
    runtime.block_on(running.end());
    drop(gateway);
}

/// What a child starts is seen by the pipe that it listens at. It never speaks on stdio, so the gateway keeps
/// trying; that does not matter here.
#[test]
fn grandchildren_end_with_the_gateway_however_it_ends() {
    let pipe = format!(r"\\.\pipe\toolyard-test-{}", std::process::id());
    let args = format!("args = ['/c', 'PROGRAM', 'pack', 'dev', '--unix', '{pipe}']\n");
    let yard = Yard::new(&format!("[upstreams.shell]\ncommand = 'cmd'\n{args}"));
    let mut gateway = yard.serve();
    until("the child's child listens", || local::is_answered(pipe.as_ref()));
    gateway.kill();
    until("it has ended", || !local::is_answered(pipe.as_ref()));
}
