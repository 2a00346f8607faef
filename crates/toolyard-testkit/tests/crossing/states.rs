//! The state that a modern client carries while a legacy server waits for its answer: a state that was changed, is
//! used twice, comes too late or belongs to another client is refused, and the rightful client loses nothing.

use std::time::Duration;

use serde_json::{Value, json};
use toolyard_model::Principal;
use toolyard_proto::Revision;
use toolyard_serve::Options;
use toolyard_serve::admit::Gate;

use crate::world::{Reach, Say, World, say, until};

const OLD: Revision = Revision::V2025_11_25;

fn two_people() -> Options {
    let gate = Gate::open().with_token(Principal::token("ann"), "a").with_token(Principal::token("bob"), "b");
    Options { gate, ..Options::default() }
}

fn answers() -> Value {
    json!({ "ask1": { "action": "accept", "content": { "name": "Ann" } } })
}

/// Ann's call, which asks; gives the state to come back with.
async fn asked(world: &World, call: &Say<'_>) -> String {
    let (status, answer) = world.post(call).await;
    let result = &answer["result"];
    assert_eq!((status, result["resultType"].as_str()), (200, Some("input_required")), "{answer}");
    assert_eq!(result["inputRequests"]["ask1"]["method"], "elicitation/create");
    result["requestState"].as_str().unwrap().to_owned()
}

async fn check_refused(world: &World, what: &str, call: &Say<'_>) {
    let (status, answer) = world.post(call).await;
    assert_eq!((status, &answer["error"]["code"]), (200, &json!(-32602)), "{what}: {answer}");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("requestState") && message.contains("make the call again"), "{what}: {message}");
    assert_eq!(world.endpoint.parked(), 1, "{what}: the rightful client's call still waits");
    assert_eq!(
        (world.server.called("elicit"), world.server.open_asks()),
        (1, 1),
        "{what}: nothing was called"
    );
}

#[tokio::test]
async fn a_changed_state_or_one_of_another_client_is_refused_and_the_right_one_still_serves_once() {
    let world = World::open(OLD, Reach::Http, two_people()).await;
    let call = say("elicit").by("a");
    let state = asked(&world, &call).await;
    let mut touched: Vec<String> = [state.len() - 1, state.len() / 2, state.find('.').unwrap() + 1]
        .into_iter()
        .map(|at| {
            let other = if &state[at..=at] == "A" { "B" } else { "A" };
            format!("{}{other}{}", &state[..at], &state[at + 1..])
        })
        .collect();
    touched.extend([format!("{state}A"), state[..state.len() - 4].to_owned()]);
    for touched in touched {
        assert_ne!(touched, state);
        check_refused(&world, &touched, &call.clone().with(&touched, answers())).await;
    }
    check_refused(&world, "another principal", &call.clone().by("b").with(&state, answers())).await;
    let other = Say { arguments: json!({ "x": 1 }), ..call.clone() };
    check_refused(&world, "other arguments", &other.with(&state, answers())).await;
    check_refused(&world, "another tool", &say("sample").by("a").with(&state, answers())).await;
    let other = Say { path: "/mcp", tool: "script__elicit", ..call.clone() };
    check_refused(&world, "another view", &other.with(&state, answers())).await;

    let (_, answer) = world.post(&call.clone().with(&state, answers())).await;
    assert_eq!(answer["result"]["content"][0]["text"], "Ann", "{answer}");
    let (status, again) = world.post(&call.clone().with(&state, answers())).await;
    assert_eq!((status, &again["error"]["code"]), (200, &json!(-32602)), "a state serves once: {again}");
    assert_eq!((world.endpoint.parked(), world.server.called("elicit")), (0, 1));
    assert_eq!(world.server.answers(), [json!({ "action": "accept", "content": { "name": "Ann" } })]);
}

#[tokio::test]
async fn a_state_of_another_gateway_is_refused() {
    let here = World::open(OLD, Reach::Http, two_people()).await;
    let there = World::open(OLD, Reach::Http, two_people()).await;
    let call = say("elicit").by("a");
    asked(&here, &call).await;
    let foreign = asked(&there, &call).await;
    check_refused(&here, "another gateway", &call.clone().with(&foreign, answers())).await;
    check_refused(&here, "made up", &call.clone().with("yard-0123456789abcdef.AAAA", answers())).await;
}

#[tokio::test]
async fn a_state_that_has_expired_is_refused_and_the_server_got_a_cancel() {
    let options = Options { ask_timeout: Duration::from_millis(200), ..two_people() };
    let world = World::open(OLD, Reach::Http, options).await;
    let call = say("elicit").by("a");
    let state = asked(&world, &call).await;
    until("the call is given up", || world.endpoint.parked() == 0).await;
    until("the server is answered", || world.server.answers() == [json!({ "action": "cancel" })]).await;
    let (status, answer) = world.post(&call.with(&state, answers())).await;
    assert_eq!((status, &answer["error"]["code"]), (200, &json!(-32602)), "{answer}");
    assert_eq!(world.server.called("elicit"), 1);
}
