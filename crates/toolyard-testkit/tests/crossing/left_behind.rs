//! Clients that are asked something and never come back.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use toolyard_core::Gateway;
use toolyard_proto::Revision;
use toolyard_serve::Options;
use toolyard_testkit::script::Client;

use crate::world::{Reach, World, say, until};

const MANY: usize = 200;
const OLD: Revision = Revision::V2025_11_25;

/// Calls under way at the scripted server, and links that clients have for themselves.
fn held(gateway: &Gateway) -> (usize, usize) {
    let all = gateway.upstreams();
    let script = all.iter().find(|upstream| upstream.id().as_str() == "script").unwrap();
    (script.calls(), script.own_links())
}

#[tokio::test]
async fn two_hundred_parked_calls_leave_no_task_no_call_and_no_session_behind() {
    let options = Options::default();
    let patience = options.ask_timeout;
    let world = World::open(OLD, Reach::Http, options).await;
    world.post(&say("echo")).await;
    until("the gateway's session alone is left", || world.server.sessions() == 1).await;
    let tasks = world.scope.tasks();
    let calls = say("elicit");
    let answers = join_all((0..MANY).map(|_| world.post(&calls))).await;
    assert!(answers.iter().all(|(_, answer)| answer["result"]["resultType"] == "input_required"));
    assert_eq!((world.endpoint.parked(), world.server.open_asks()), (MANY, MANY));
    assert_eq!(held(&world.gateway), (MANY, 0));
    // Ten minutes later.
    tokio::time::pause();
    tokio::time::advance(patience + Duration::from_secs(1)).await;
    tokio::time::resume();
    until("all are given up", || world.endpoint.parked() == 0).await;
    until("every question was answered", || world.server.open_asks() == 0).await;
    until("the server has taken every answer", || world.server.answers().len() == MANY).await;
    assert!(world.server.answers().iter().all(|answer| *answer == json!({ "action": "cancel" })));
    until("no call is under way", || held(&world.gateway) == (0, 0) && world.server.open_calls() == 0).await;
    until("their session with the server has ended", || world.server.sessions() == 1).await;
    until_tasks(&world, tasks).await;
    let (_, answer) = world.post(&say("echo")).await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
}

async fn until_tasks(world: &World, most: usize) {
    let before = world.scope.tasks();
    let what = format!("of {before} tasks more than {most} are left");
    until(&what, || world.scope.tasks() <= most).await;
}

/// A question while two are calling: from then on each has a connection of its own.
async fn become_interactive(world: &World, one: &Client, other: &Client) {
    let params = json!({ "name": "slow", "arguments": {} });
    let slow = one.begin("tools/call", params, json!({})).await.unwrap();
    until("it is under way", || world.server.called("slow") == 1).await;
    let refused = other.tool("elicit").await.unwrap_err();
    assert!(refused.contains("this request is for is unknown"), "{refused}");
    one.cancel(slow).await.unwrap();
    until("nothing is under way", || held(&world.gateway) == (0, 0)).await;
}

/// On a shared pipe each of them has a connection of its own, of which there are 16; the others wait for one, and
/// give up like any call that is not answered.
#[tokio::test(start_paused = true)]
async fn two_hundred_clients_of_a_program_leave_no_connection_behind() {
    let world = World::open(OLD, Reach::Lines, Options::default()).await;
    let first = world.client_on_lines(Revision::NEWEST).await;
    first.ask("tools/list", json!({})).await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..MANY {
        clients.push(world.client_on_lines(Revision::NEWEST).await);
    }
    become_interactive(&world, &first, &clients[0]).await;
    let tasks = world.scope.tasks();
    let mut begun = Vec::new();
    for client in &clients {
        let params = json!({ "name": "elicit", "arguments": {} });
        begun.push(client.begin("tools/call", params, json!({})).await.unwrap());
    }
    until("some are parked", || world.endpoint.parked() > 0).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    // A quarter of the connections is kept for calls that do not wait for an answer.
    assert_eq!((world.endpoint.parked(), held(&world.gateway)), (12, (12, 16)));
    tokio::time::sleep(Duration::from_mins(15)).await;
    assert_eq!((world.endpoint.parked(), held(&world.gateway)), (0, (0, 0)));
    assert_eq!((world.server.open_asks(), world.server.open_calls()), (0, 0));
    until_tasks(&world, tasks).await;
    assert_eq!(first.tool("cancels").await.unwrap(), "1", "the program still serves");
    drop(begun);
}
