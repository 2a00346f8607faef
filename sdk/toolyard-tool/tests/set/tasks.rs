//! Tools that run as tasks, for clients of both kinds.

use std::sync::Arc;
use std::time::Duration;

use futures_util::poll;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use toolyard_model::Handler;
use toolyard_proto::Revision;
use toolyard_tool::schemars::JsonSchema;
use toolyard_tool::{Context, ToolError, ToolSet, tool};

use crate::support::{Client, text};

#[derive(Deserialize, JsonSchema)]
struct Job {
    fails: Option<bool>,
}

/// Waits for the gate.
#[tool(task)]
async fn wait(gate: &Arc<Notify>, job: Job) -> Result<String, ToolError> {
    gate.notified().await;
    if job.fails == Some(true) { Err(ToolError::new("it failed")) } else { Ok("done".into()) }
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// Asks for a name.
#[tool(task = "required")]
async fn greet(context: &Context) -> Result<String, ToolError> {
    let name = context.ask::<Name>("Who?").await?.accepted()?.name;
    Ok(format!("Hello, {name}"))
}

/// Opens the gate when it is dropped.
pub(crate) struct Gone(pub(crate) Arc<Notify>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Never ends by itself; opens the gate when it is stopped.
#[tool(task)]
pub(crate) async fn linger(gate: &Arc<Notify>) {
    let _gone = Gone(gate.clone());
    std::future::pending::<()>().await;
}

/// Asks for a name twice in the same words, then under a name that one might make up, and in place.
#[tool(task)]
async fn repeat(context: &Context) -> Result<String, ToolError> {
    let name = async |name: &str| {
        let replies = context.questions().form::<Name>(name, "Who?").put().await?;
        Ok::<_, ToolError>(replies.form::<Name>(name)?.accepted()?.name)
    };
    let (first, second, third) = (name("who").await?, name("who").await?, name("question-2").await?);
    let in_place = [context.ask::<Name>("And you?").await?, context.ask::<Name>("And you?").await?];
    let in_place: Vec<String> =
        in_place.into_iter().filter_map(|reply| reply.accepted().ok()).map(|one| one.name).collect();
    Ok(format!("{first} {second} {third} {}", in_place.join(" ")))
}

/// Wants a page visited.
#[tool(task)]
async fn visit(context: &Context) -> Result<(), ToolError> {
    context.ask_to_visit("https://example.com", "Please sign in.").await?.accepted()
}

fn set(gate: &Arc<Notify>) -> ToolSet<Arc<Notify>> {
    ToolSet::new("tasks", "1")
        .state(gate.clone())
        .with::<wait>()
        .with::<greet>()
        .with::<linger>()
        .with::<visit>()
        .with::<repeat>()
}

fn newer() -> Client {
    let tasks = json!({ "io.modelcontextprotocol/tasks": {} });
    Client::new(Revision::NEWEST, json!({ "extensions": tasks, "elicitation": {} }))
}

fn legacy() -> Client {
    Client::new(Revision::V2025_11_25, json!({ "elicitation": {} }))
}

pub(crate) async fn until(client: &Client, set: &dyn Handler, id: &Value, status: &str) -> Value {
    let mut task = Value::Null;
    for _ in 0..5_000 {
        task = client.request(set, "tasks/get", json!({ "taskId": id })).await.unwrap();
        if task["status"] == status {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it is never {status}: {task}");
}

#[tokio::test]
async fn a_client_that_knows_tasks_gets_one_and_comes_back_for_the_result() {
    let gate = Arc::new(Notify::new());
    let (set, client) = (set(&gate), newer());
    let started = client.request(&set, "tools/call", json!({ "name": "wait" })).await.unwrap();
    assert_eq!((&started["resultType"], &started["status"]), (&json!("task"), &json!("working")));
    assert_eq!((&started["ttlMs"], &started["pollIntervalMs"]), (&json!(3_600_000), &json!(500)));
    let id = &started["taskId"];
    assert_eq!(until(&client, &set, id, "working").await["resultType"], "complete");
    gate.notify_one();
    assert_eq!(text(&until(&client, &set, id, "completed").await["result"]), "done");
}

#[tokio::test]
async fn a_failed_tool_completes_its_task() {
    let gate = Arc::new(Notify::new());
    let (set, client) = (set(&gate), newer());
    let params = json!({ "name": "wait", "arguments": { "fails": true } });
    let started = client.request(&set, "tools/call", params).await.unwrap();
    gate.notify_one();
    let task = until(&client, &set, &started["taskId"], "completed").await;
    assert_eq!(task["result"]["isError"], true);
}

#[tokio::test]
async fn a_task_asks_and_goes_on_with_the_answer() {
    let (set, client) = (set(&Arc::default()), newer());
    let started = client.request(&set, "tools/call", json!({ "name": "greet" })).await.unwrap();
    let id = &started["taskId"];
    let task = until(&client, &set, id, "input_required").await;
    let (key, request) = task["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create");
    let answer = json!({ key: { "action": "accept", "content": { "name": "Ann" } } });
    client.request(&set, "tasks/update", json!({ "taskId": id, "inputResponses": answer })).await.unwrap();
    assert_eq!(text(&until(&client, &set, id, "completed").await["result"]), "Hello, Ann");
}

#[tokio::test]
async fn a_task_can_be_cancelled_and_belongs_to_the_client_that_started_it() {
    let (set, client) = (set(&Arc::default()), newer());
    let started = client.request(&set, "tools/call", json!({ "name": "wait" })).await.unwrap();
    let about = json!({ "taskId": started["taskId"] });
    let capabilities = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let other = Client::named("other", Revision::NEWEST, capabilities);
    assert_eq!(other.request(&set, "tasks/get", about.clone()).await.unwrap_err().code(), -32602);
    assert_eq!(Client::newest().request(&set, "tasks/get", about.clone()).await.unwrap_err().code(), -32021);
    client.request(&set, "tasks/cancel", about.clone()).await.unwrap();
    assert_eq!(client.request(&set, "tasks/get", about).await.unwrap()["status"], "cancelled");
    assert_eq!(client.request(&set, "tasks/list", json!({})).await.unwrap_err().code(), -32601);
}

#[tokio::test]
async fn a_client_without_tasks_waits_or_receives_an_error() {
    let gate = Arc::new(Notify::new());
    let set = set(&gate);
    gate.notify_one();
    assert_eq!(text(&Client::newest().call(&set, "wait", json!({})).await), "done");
    let error = Client::newest().request(&set, "tools/call", json!({ "name": "greet" })).await.unwrap_err();
    assert_eq!(error.code(), -32021);
    let error = legacy().request(&set, "tools/call", json!({ "name": "greet" })).await.unwrap_err();
    assert_eq!(error.code(), -32601);
}

#[tokio::test]
async fn a_legacy_client_requests_a_task_and_waits_for_its_result() {
    let gate = Arc::new(Notify::new());
    let set = set(&gate);
    let client =
        legacy().answering("elicitation/create", json!({ "action": "accept", "content": { "name": "Bo" } }));
    let params = json!({ "name": "greet", "task": { "ttl": 60_000 } });
    let started = client.request(&set, "tools/call", params).await.unwrap();
    assert_eq!((&started["task"]["ttl"], &started["task"]["pollInterval"]), (&json!(60_000), &json!(500)));
    let about = json!({ "taskId": started["task"]["taskId"] });
    let result = client.request(&set, "tasks/result", about.clone()).await.unwrap();
    assert_eq!(text(&result), "Hello, Bo");
    let related = "io.modelcontextprotocol/related-task";
    assert_eq!(result["_meta"][related]["taskId"], about["taskId"]);
    assert_eq!(client.asked()[0][1]["_meta"][related]["taskId"], about["taskId"]);
    assert_eq!(
        client.request(&set, "tasks/list", json!({})).await.unwrap()["tasks"][0]["status"],
        "completed"
    );
    assert_eq!(client.request(&set, "tasks/cancel", about).await.unwrap_err().code(), -32602);
}

#[tokio::test]
async fn tasks_are_declared_in_the_form_of_the_clients_revision() {
    let set = set(&Arc::default());
    let capabilities_of = async |client: Client| {
        client.request(&set, "server/discover", json!({})).await.unwrap()["capabilities"].clone()
    };
    assert_eq!(capabilities_of(newer()).await["extensions"], json!({ "io.modelcontextprotocol/tasks": {} }));
    assert_eq!(capabilities_of(legacy()).await["tasks"]["requests"], json!({ "tools": { "call": {} } }));
    let without_tasks = capabilities_of(Client::new(Revision::V2025_06_18, json!({}))).await;
    assert_eq!((without_tasks.get("tasks"), without_tasks.get("extensions")), (None, None));
    assert_eq!(set.definition("wait").unwrap()["execution"], json!({ "taskSupport": "optional" }));
}

#[tokio::test]
async fn a_listener_is_notified_of_the_status_of_its_task() {
    let gate = Arc::new(Notify::new());
    let (set, client) = (set(&gate), newer());
    let started = client.request(&set, "tools/call", json!({ "name": "wait" })).await.unwrap();
    let wishes = json!({ "taskIds": [started["taskId"], "unknown"] });
    let listening = client.start(&set, "subscriptions/listen", json!({ "notifications": wishes }));
    let acting = async {
        tokio::task::yield_now().await;
        gate.notify_one();
        while client.notifications().len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = listening => panic!("it listens for as long as the client does"),
        () = acting => {}
    }
    assert_eq!(client.notifications()[0][1]["notifications"]["taskIds"], json!([started["taskId"]]));
    assert_eq!(client.notifications()[1][0], "notifications/tasks");
    assert_eq!(client.notifications()[1][1]["status"], "completed");
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_task_is_stopped_when_its_time_is_over() {
    let gate = Arc::new(Notify::new());
    let (set, client) = (set(&gate), legacy());
    let params = json!({ "name": "linger", "task": { "ttl": 500 } });
    client.request(&set, "tools/call", params).await.unwrap();
    tokio::time::timeout(Duration::from_secs(1), gate.notified()).await.expect("it is stopped");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_for_a_task_is_answered_when_its_time_is_over() {
    let (set, client) = (set(&Arc::default()), legacy());
    let params = json!({ "name": "wait", "task": { "ttl": 500 } });
    let started = client.request(&set, "tools/call", params).await.unwrap();
    let about = json!({ "taskId": started["task"]["taskId"] });
    let waiting = client.request(&set, "tasks/result", about.clone());
    let answer = tokio::time::timeout(Duration::from_secs(1), waiting).await.expect("it is answered");
    assert_eq!(answer.unwrap_err().message(), "the call was cancelled");
    let error = client.request(&set, "tasks/get", about).await.unwrap_err();
    assert_eq!(error.code(), -32602, "and the task is forgotten");
}

#[tokio::test]
async fn a_question_of_a_task_is_put_once_and_ends_with_the_task() {
    let (set, client) = (set(&Arc::default()), legacy().silent());
    let started = client.request(&set, "tools/call", json!({ "name": "greet", "task": {} })).await.unwrap();
    let id = &started["task"]["taskId"];
    until(&client, &set, id, "input_required").await;
    let result = || client.start(&set, "tasks/result", json!({ "taskId": id }));
    let [mut leaves, one, other] = [result(), result(), result()];
    assert!(poll!(&mut leaves).is_pending());
    let cancelling = async {
        assert_eq!(client.asked().len(), 1, "later callers wait with the first");
        drop(leaves);
        while client.asked().len() < 2 {
            tokio::task::yield_now().await;
        }
        client.request(&set, "tasks/cancel", json!({ "taskId": id })).await.unwrap();
    };
    let ending = async { tokio::join!(one, other, cancelling) };
    let (one, other, ()) = tokio::time::timeout(Duration::from_secs(5), ending).await.expect("both end");
    for answer in [one, other] {
        assert_eq!(answer.unwrap_err().message(), "the call was cancelled");
    }
    assert_eq!(client.asked().len(), 2, "a remaining caller asked again");
}

#[tokio::test]
async fn a_task_does_not_ask_what_the_client_cannot_be_asked() {
    let (set, client) = (set(&Arc::default()), newer());
    let started = client.request(&set, "tools/call", json!({ "name": "visit" })).await.unwrap();
    let task = until(&client, &set, &started["taskId"], "failed").await;
    assert_eq!(task["error"]["code"], -32021);
    assert_eq!(task["error"]["data"]["requiredCapabilities"], json!({ "elicitation": { "url": {} } }));
}

#[tokio::test]
async fn finished_tasks_make_room_and_no_client_takes_the_room_of_others() {
    let gate = Arc::new(Notify::new());
    let set = set(&gate);
    let start = async |client: &Client, name: &str| {
        client.request(&set, "tools/call", json!({ "name": name, "task": {} })).await
    };
    let one = legacy();
    let without_tasks = start(&one, "wait").await.unwrap()["task"]["taskId"].clone();
    gate.notify_one();
    until(&one, &set, &without_tasks, "completed").await;
    for _ in 0..249 {
        start(&one, "wait").await.unwrap();
    }
    start(&one, "wait").await.expect("the one that is over makes room");
    let error = one.request(&set, "tasks/get", json!({ "taskId": without_tasks })).await.unwrap_err();
    assert_eq!(error.code(), -32602);
    let refused = start(&one, "wait").await.unwrap_err();
    assert_eq!(refused.message(), "250 tasks of yours are running; wait until some are over");
    let capabilities = json!({ "elicitation": {} });
    for other in ["a", "b", "c"] {
        let other = Client::named(other, Revision::V2025_11_25, capabilities.clone());
        for _ in 0..250 {
            start(&other, "wait").await.unwrap();
        }
    }
    let last = Client::named("d", Revision::V2025_11_25, capabilities);
    let refused = start(&last, "wait").await.unwrap_err();
    assert_eq!(refused.message(), "too many tasks are running; wait until some are over");
}

#[tokio::test]
async fn no_two_questions_of_a_task_have_the_same_key_and_a_name_is_asked_for_once() {
    let (set, client) = (set(&Arc::default()), newer());
    let started = client.request(&set, "tools/call", json!({ "name": "repeat" })).await.unwrap();
    let id = &started["taskId"];
    let mut keys = Vec::new();
    for name in ["Ada", "Bo", "Cy", "Di"] {
        let task = until(&client, &set, id, "input_required").await;
        let asked: Vec<String> = task["inputRequests"].as_object().unwrap().keys().cloned().collect();
        keys.extend(asked);
        let answer = json!({ "action": "accept", "content": { "name": name } });
        // Everything that was ever asked is answered again: a client may send an update twice.
        let answers: Value = keys.iter().map(|key| (key.clone(), answer.clone())).collect();
        let update = json!({ "taskId": id, "inputResponses": answers });
        client.request(&set, "tasks/update", update).await.unwrap();
    }
    assert_eq!(keys, ["who", "question-2", "question-3", "question-4"]);
    assert_eq!(text(&until(&client, &set, id, "completed").await["result"]), "Ada Ada Bo Cy Di");
}

#[tokio::test]
async fn a_set_that_has_ended_starts_no_task() {
    let (set, client) = (set(&Arc::default()), newer());
    set.end().await;
    let error = client.request(&set, "tools/call", json!({ "name": "wait" })).await.unwrap_err();
    assert_eq!(error.message(), "the call was cancelled");
}
