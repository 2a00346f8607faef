//! What follows an answer that is not final: a modern call that needs input is repeated with it, and a task is
//! polled until it is settled.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::record::Recorder;
use super::wire::script::result_for;
use super::wire::{Exchange, Request};

/// More rounds than any tool here takes.
const ROUNDS: usize = 4;
/// How often a task is looked at while it works.
const PACE: Duration = Duration::from_millis(50);

pub(crate) async fn follow(recorder: &mut Recorder<'_>, request: &Request, mut exchange: Exchange) {
    for round in 1..=ROUNDS {
        let Some(again) = with_input(request, &exchange, round) else { break };
        exchange = recorder.record(&again).await;
    }
    let Ok(result) = &exchange.outcome else { return };
    let result: Value = serde_json::from_str(result).unwrap();
    if result["resultType"] == "task" {
        look_after(recorder, request, &result["taskId"]).await;
    } else if result["task"].is_object() {
        let params = json!({ "taskId": result["task"]["taskId"] });
        recorder
            .record(&Request::new(format!("{} result", request.label), "tasks/result", params.clone()))
            .await;
        recorder.record(&Request::new(format!("{} get", request.label), "tasks/get", params)).await;
    }
}

/// The next round of a call that was answered by questions.
fn with_input(request: &Request, exchange: &Exchange, round: usize) -> Option<Request> {
    let result: Value = serde_json::from_str(exchange.outcome.as_ref().ok()?).unwrap();
    if result["resultType"] != "input_required" {
        return None;
    }
    let mut again = request.clone();
    again.label = format!("{} round {round}", request.label);
    again.params["inputResponses"] = answers_to(&result["inputRequests"]);
    if let Some(state) = result.get("requestState") {
        again.params["requestState"] = state.clone();
    }
    Some(again)
}

fn answers_to(questions: &Value) -> Value {
    let answer = |(key, question): (&String, &Value)| {
        let method = question["method"].as_str().unwrap();
        (key.clone(), result_for(method, &question["params"]).expect("only known questions are asked"))
    };
    questions.as_object().into_iter().flatten().map(answer).collect::<Map<_, _>>().into()
}

/// Only settled states are recorded: how long a task works varies.
async fn look_after(recorder: &mut Recorder<'_>, request: &Request, task: &Value) {
    let get = Request::new(format!("{} get", request.label), "tasks/get", json!({ "taskId": task }));
    let settled = recorder.poll(&get, PACE, |answer| answer["status"] != "working").await;
    if settled["status"] == "input_required" {
        let params = json!({ "taskId": task, "inputResponses": answers_to(&settled["inputRequests"]) });
        recorder.record(&Request::new(format!("{} update", request.label), "tasks/update", params)).await;
        let again = Request { label: format!("{} get again", request.label), ..get };
        recorder.poll(&again, PACE, |answer| answer["status"] != "working").await;
    }
    let cancel = Request::new(format!("{} cancel", request.label), "tasks/cancel", json!({ "taskId": task }));
    recorder.record(&cancel).await;
}
