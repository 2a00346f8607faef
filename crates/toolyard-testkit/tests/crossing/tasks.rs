//! Tasks that the gateway follows for a client that knows none: cancelling the call cancels the task.

use std::time::Duration;

use serde_json::json;
use toolyard_model::Principal;
use toolyard_proto::Revision;
use toolyard_serve::Options;
use toolyard_serve::admit::Gate;

use crate::world::{Reach, Say, World, post, say, until};

const OLD: Revision = Revision::V2025_11_25;

async fn world(server: Revision) -> World {
    World::open(server, Reach::Http, Options::default()).await
}

/// A client with a session calls, the server makes a task of it, and the client takes the call back.
async fn check_cancelled_by_session(server: Revision, client: Revision) {
    let world = world(server).await;
    let client = world.client(client).await;
    let params = json!({ "name": "long_task", "arguments": {} });
    let begun = client.begin("tools/call", params, json!({})).await.unwrap();
    until("there is a task", || world.server.tasks() == (1, 0)).await;
    client.cancel(begun).await.unwrap();
    until("the task is cancelled", || world.server.tasks() == (1, 1)).await;
    until("nothing is left of it", || world.server.open_calls() <= 1).await;
}

#[tokio::test]
async fn a_legacy_client_that_cancels_ends_the_task_of_a_modern_server() {
    for client in [Revision::V2024_11_05, Revision::V2025_06_18, OLD] {
        check_cancelled_by_session(Revision::NEWEST, client).await;
    }
}

#[tokio::test]
async fn a_legacy_client_that_cancels_ends_the_task_of_a_2025_11_25_server() {
    check_cancelled_by_session(OLD, Revision::V2025_06_18).await;
}

#[tokio::test]
async fn a_modern_client_without_tasks_that_hangs_up_ends_the_task_of_a_2025_11_25_server() {
    let world = world(OLD).await;
    world.post(&say("echo")).await;
    let (address, call) = (world.address(), say("long_task"));
    let calling = tokio::time::timeout(Duration::from_secs(1), post(&address, &call));
    assert!(calling.await.is_err(), "it goes on until it is cancelled");
    until("the task is cancelled", || world.server.tasks() == (1, 1)).await;
}

#[tokio::test]
async fn a_modern_client_with_tasks_cancels_the_task_of_a_2025_11_25_server_by_its_id() {
    let world = world(OLD).await;
    let client = world.client(Revision::NEWEST).await;
    let made = client.ask("tools/call", json!({ "name": "long_task", "arguments": {} })).await.unwrap();
    assert_eq!(made["resultType"], "task", "{made}");
    client.ask("tasks/cancel", json!({ "taskId": made["taskId"] })).await.unwrap();
    assert_eq!(world.server.tasks(), (1, 1));
    let task = client.ask("tasks/get", json!({ "taskId": made["taskId"] })).await.unwrap();
    assert_eq!(task["status"], "cancelled", "{task}");
}

#[tokio::test]
async fn a_task_is_nobodys_business_but_its_own_principals() {
    let gate = Gate::open().with_token(Principal::token("ann"), "a").with_token(Principal::token("bob"), "b");
    let world = World::open(OLD, Reach::Lines, Options { gate, ..Options::default() }).await;
    let extensions = json!({ "io.modelcontextprotocol/tasks": {} });
    let call = Say { capabilities: json!({ "extensions": extensions }), ..say("long_task") };
    let (_, made) = world.post(&call.clone().by("a")).await;
    assert_eq!(made["result"]["resultType"], "task", "{made}");
    let task = made["result"]["taskId"].as_str().unwrap();
    for method in ["tasks/get", "tasks/cancel"] {
        let about = Say { about: Some((method, task)), ..call.clone() };
        let (_, answer) = world.post(&about.by("b")).await;
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
    }
    assert_eq!(world.server.tasks(), (1, 0));
    let (_, got) = world.post(&Say { about: Some(("tasks/get", task)), ..call.clone() }.by("a")).await;
    assert_eq!(got["result"]["status"], "working", "{got}");
    let (_, done) = world.post(&Say { about: Some(("tasks/cancel", task)), ..call.clone() }.by("a")).await;
    assert_eq!((&done["result"]["resultType"], world.server.tasks()), (&json!("complete"), (1, 1)), "{done}");
}
