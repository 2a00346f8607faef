//! Tools whose questions come before the task: the call is answered with them, and the call that answers them
//! becomes a task.

use std::sync::Arc;
use std::time::Duration;

use futures_util::poll;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use toolyard_proto::Revision;
use toolyard_tool::schemars::JsonSchema;
use toolyard_tool::{Context, ToolError, ToolSet, tool};

use super::support::{Client, text};
use super::tasks::{Gone, until};

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Trip {
    /// How long to think before the first question.
    #[serde(default)]
    seconds: u64,
    #[serde(default)]
    is_known: bool,
    #[serde(default)]
    waits: bool,
}

/// Asks for a name, then for another one, and goes when the gate is open.
#[tool(task, asks_first)]
async fn travel(gate: &Arc<Notify>, context: &Context, trip: Trip) -> Result<String, ToolError> {
    let _gone = Gone(gate.clone());
    context.progress(1, 2);
    sleep(Duration::from_secs(trip.seconds)).await;
    if trip.is_known {
        return Ok("known".into());
    }
    let first = if trip.waits {
        let reply = context.ask::<Name>("Who?");
        let (reply, ()) = tokio::join!(reply, async { context.progress(2, 2) });
        reply?.accepted()?.name
    } else {
        let replies = context.questions().form::<Name>("who", "Who?").put().await?;
        replies.form::<Name>("who")?.accepted()?.name
    };
    let replies = context.questions().form::<Name>("with", "With which guest?").put().await?;
    Ok(format!("{first} and {}", replies.form::<Name>("with")?.accepted()?.name))
}

/// Asks for a name, as a task only.
#[tool(task = "required", asks_first)]
async fn hello(context: &Context) -> Result<String, ToolError> {
    let replies = context.questions().form::<Name>("who", "Who?").remember(&1).put().await?;
    Ok(format!("Hello, {}", replies.form::<Name>("who")?.accepted()?.name))
}

fn set(gate: &Arc<Notify>) -> ToolSet<Arc<Notify>> {
    ToolSet::new("asking", "1").state(gate.clone()).with::<travel>().with::<hello>()
}

fn newer() -> Client {
    let tasks = json!({ "io.modelcontextprotocol/tasks": {} });
    Client::new(Revision::NEWEST, json!({ "extensions": tasks, "elicitation": {} }))
}

fn legacy() -> Client {
    Client::new(Revision::V2025_11_25, json!({ "elicitation": {} }))
}

fn named(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}

async fn go(client: &Client, set: &ToolSet<Arc<Notify>>, trip: Value, more: Value) -> Value {
    let mut params = json!({ "name": "travel", "arguments": trip });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.request(set, "tools/call", params).await.unwrap()
}

#[tokio::test]
async fn the_first_questions_are_the_answer_and_later_ones_are_the_tasks() {
    let (set, client) = (set(&Arc::default()), newer());
    let asked = go(&client, &set, json!({}), json!({})).await;
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"]["who"]["params"]["message"], "Who?");
    assert_eq!((asked.get("taskId"), asked.get("status")), (None, None));
    let started = go(&client, &set, json!({}), json!({ "inputResponses": { "who": named("Ada") } })).await;
    assert_eq!((&started["resultType"], &started["status"]), (&json!("task"), &json!("working")));
    assert_eq!((started.get("inputRequests"), started.get("requestState")), (None, None));
    let id = &started["taskId"];
    let task = until(&client, &set, id, "input_required").await;
    assert_eq!(task["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["with"]);
    let update = json!({ "taskId": id, "inputResponses": { "with": named("Bo") } });
    client.request(&set, "tasks/update", update).await.unwrap();
    assert_eq!(text(&until(&client, &set, id, "completed").await["result"]), "Ada and Bo");
}

#[tokio::test]
async fn remembered_values_travel_with_the_client_until_there_is_a_task() {
    let (set, client) = (set(&Arc::default()), newer());
    let asked = client.request(&set, "tools/call", json!({ "name": "hello" })).await.unwrap();
    assert!(asked["requestState"].is_string());
    let again = json!({
        "name": "hello",
        "inputResponses": { "who": named("Ada") },
        "requestState": asked["requestState"],
    });
    let started = client.request(&set, "tools/call", again).await.unwrap();
    assert_eq!((&started["resultType"], started.get("requestState")), (&json!("task"), None));
    let task = until(&client, &set, &started["taskId"], "completed").await;
    assert_eq!(text(&task["result"]), "Hello, Ada");
}

#[tokio::test]
async fn mistakes_before_the_task_are_the_answer_to_the_call() {
    let set = set(&Arc::default());
    let tasks = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let unable = Client::new(Revision::NEWEST, tasks);
    let error = unable.request(&set, "tools/call", json!({ "name": "hello" })).await.unwrap_err();
    assert_eq!(error.code(), -32021);
    let forged = json!({ "name": "hello", "requestState": "made up" });
    assert_eq!(newer().request(&set, "tools/call", forged).await.unwrap_err().code(), -32602);
    let wrong = go(&newer(), &set, json!({ "seconds": "many" }), json!({})).await;
    assert_eq!((&wrong["resultType"], &wrong["isError"]), (&json!("complete"), &json!(true)));
    let plain = Client::new(Revision::NEWEST, json!({ "elicitation": {} }));
    let error = plain.request(&set, "tools/call", json!({ "name": "hello" })).await.unwrap_err();
    assert_eq!(error.code(), -32021, "a task is required");
}

#[tokio::test]
async fn a_client_without_tasks_is_asked_round_by_round_and_answered() {
    let (set, client) = (set(&Arc::default()), Client::new(Revision::NEWEST, json!({ "elicitation": {} })));
    let responses = json!({ "who": named("Ada"), "with": named("Bo") });
    let answered = go(&client, &set, json!({}), json!({ "inputResponses": responses })).await;
    assert_eq!((&answered["resultType"], text(&answered)), (&json!("complete"), "Ada and Bo"));
}

#[tokio::test]
async fn a_legacy_client_gets_its_task_at_once() {
    let (set, client) = (set(&Arc::default()), legacy().answering("elicitation/create", named("Ada")));
    let started = go(&client, &set, json!({}), json!({ "task": {} })).await;
    let about = json!({ "taskId": started["task"]["taskId"] });
    let result = client.request(&set, "tasks/result", about).await.unwrap();
    assert_eq!(text(&result), "Ada and Ada");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_asks_nothing_is_answered_if_it_is_quick_and_becomes_a_task_if_it_is_not() {
    let (set, client) = (set(&Arc::default()), newer());
    let quick = go(&client, &set, json!({ "is_known": true }), json!({})).await;
    assert_eq!((&quick["resultType"], text(&quick)), (&json!("complete"), "known"));
    let begun = Instant::now();
    let slow = go(&client, &set, json!({ "is_known": true, "seconds": 60 }), json!({})).await;
    assert_eq!((&slow["resultType"], begun.elapsed()), (&json!("task"), Duration::from_secs(1)));
    sleep(Duration::from_mins(1)).await;
    assert_eq!(text(&until(&client, &set, &slow["taskId"], "completed").await["result"]), "known");
}

#[tokio::test(start_paused = true)]
async fn a_late_or_blocking_question_belongs_to_the_task() {
    for trip in [json!({ "seconds": 2 }), json!({ "waits": true })] {
        let (set, client) = (set(&Arc::default()), newer());
        let started = go(&client, &set, trip.clone(), json!({})).await;
        assert_eq!(started["resultType"], "task", "{trip}");
        sleep(Duration::from_secs(2)).await;
        let task = until(&client, &set, &started["taskId"], "input_required").await;
        assert_eq!(task["inputRequests"].as_object().unwrap().len(), 1, "{trip}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_call_is_stopped_before_it_becomes_a_task() {
    let gate = Arc::new(Notify::new());
    let (set, client) = (set(&gate), newer());
    let params = json!({ "name": "travel", "arguments": { "seconds": 3_600 } });
    let mut calling = client.start(&set, "tools/call", params);
    assert!(poll!(&mut calling).is_pending());
    tokio::task::yield_now().await;
    let listed = legacy().request(&set, "tasks/list", json!({})).await.unwrap();
    assert_eq!(listed["tasks"], json!([]), "no task has been announced");
    drop(calling);
    timeout(Duration::from_secs(1), gate.notified()).await.expect("it is stopped");
}

#[tokio::test]
async fn calls_that_have_only_asked_do_not_count_as_tasks() {
    let (set, client) = (set(&Arc::default()), newer());
    let trip = json!({ "inputResponses": { "who": named("Ada"), "with": named("Bo") } });
    let mut finished = Vec::new();
    for _ in 0..250 {
        let started = go(&client, &set, json!({}), trip.clone()).await;
        until(&client, &set, &started["taskId"], "completed").await;
        finished.push(started["taskId"].clone());
    }
    assert_eq!(go(&client, &set, json!({}), json!({})).await["resultType"], "input_required");
    until(&client, &set, &finished[0], "completed").await;
    go(&client, &set, json!({}), trip).await;
    let error = client.request(&set, "tasks/get", json!({ "taskId": finished[0] })).await.unwrap_err();
    assert_eq!(error.code(), -32602, "another task does");
}

#[tokio::test]
async fn no_questions_are_asked_if_there_is_no_room_for_a_task() {
    let (set, client) = (set(&Arc::default()), newer());
    for _ in 0..250 {
        let started = go(&client, &set, json!({ "waits": true }), json!({})).await;
        until(&client, &set, &started["taskId"], "input_required").await;
    }
    let error = client.request(&set, "tools/call", json!({ "name": "hello" })).await.unwrap_err();
    assert_eq!(error.message(), "250 tasks of yours are running; wait until some are over");
}

#[tokio::test]
async fn notifications_before_the_task_reach_the_caller() {
    let (set, client) = (set(&Arc::default()), newer());
    let more = json!({ "_meta": { "progressToken": "p" } });
    go(&client, &set, json!({ "is_known": true }), more).await;
    assert_eq!(client.notifications()[0][1]["progress"], 1);
    go(&client, &set, json!({ "waits": true }), json!({ "_meta": { "progressToken": "p" } })).await;
    assert_eq!(client.notifications().len(), 2, "and nothing after it");
}

/// Keeps the questions for itself, and goes on.
#[tool(task, asks_first)]
async fn stubborn(context: &Context, trip: Trip) -> Result<String, ToolError> {
    let asked = context.questions().form::<Name>("who", "Who?").put().await;
    sleep(Duration::from_secs(trip.seconds)).await;
    if trip.waits {
        asked?;
    }
    Ok("went on".into())
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_goes_on_without_its_answers_becomes_a_task_all_the_same() {
    let (set, client) = (ToolSet::new("stubborn", "1").with::<stubborn>(), newer());
    let call = async |trip: Value| {
        let params = json!({ "name": "stubborn", "arguments": trip });
        client.request(&set, "tools/call", params).await.unwrap()
    };
    assert_eq!(text(&call(json!({})).await), "went on");
    let started = call(json!({ "seconds": 60 })).await;
    assert_eq!(started["resultType"], "task");
    sleep(Duration::from_mins(1)).await;
    let task = until(&client, &set, &started["taskId"], "completed").await;
    assert_eq!(text(&task["result"]), "went on");
    let started = call(json!({ "seconds": 60, "waits": true })).await;
    sleep(Duration::from_mins(1)).await;
    let task = until(&client, &set, &started["taskId"], "failed").await;
    assert!(
        task["error"]["message"].as_str().unwrap().contains("after its call had become a task"),
        "{task}"
    );
}

/// Asks about what it sees now, and acts on what it asked about.
#[tool(task, asks_first)]
async fn careful(
    seen: &std::sync::atomic::AtomicU64,
    context: &Context,
    trip: Trip,
) -> Result<String, ToolError> {
    let now = seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    sleep(Duration::from_secs(if now > 0 { trip.seconds } else { 0 })).await;
    let replies = context.questions().form::<Name>("who", "Who?").remember(&now).put().await?;
    Ok(format!(
        "{} on {}",
        replies.form::<Name>("who")?.accepted()?.name,
        replies.remembered::<u64>().unwrap_or(99)
    ))
}

#[tokio::test(start_paused = true)]
async fn an_answer_applies_to_its_question_even_if_the_call_became_a_task_before_it_asked() {
    let set = ToolSet::new("careful", "1").state(std::sync::atomic::AtomicU64::new(0)).with::<careful>();
    let client = newer();
    let call = async |more: Value| {
        let mut params = json!({ "name": "careful", "arguments": { "seconds": 2 } });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.request(&set, "tools/call", params).await.unwrap()
    };
    let asked = call(json!({})).await;
    let answer = json!({ "inputResponses": { "who": named("Ada") }, "requestState": asked["requestState"] });
    let started = call(answer).await;
    sleep(Duration::from_secs(2)).await;
    let task = until(&client, &set, &started["taskId"], "completed").await;
    assert_eq!(text(&task["result"]), "Ada on 0");
    let started = call(json!({ "inputResponses": { "who": named("Ada") } })).await;
    sleep(Duration::from_secs(2)).await;
    until(&client, &set, &started["taskId"], "input_required").await;
}

/// Asks nothing, in so many words.
#[tool(task, asks_first)]
async fn silent(context: &Context) -> Result<&'static str, ToolError> {
    context.questions().put().await?;
    Ok("nothing to ask")
}

#[tokio::test]
async fn an_empty_set_of_questions_does_not_start_a_task() {
    let set = ToolSet::new("silent", "1").with::<silent>();
    let answered = newer().request(&set, "tools/call", json!({ "name": "silent" })).await.unwrap();
    assert_eq!((&answered["resultType"], text(&answered)), (&json!("complete"), "nothing to ask"));
}
