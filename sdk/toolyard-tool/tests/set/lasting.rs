//! Tasks that outlive their client and their program. A second set with the same store is the program after a
//! restart.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use toolyard_proto::Revision;
use toolyard_tool::host::{MemoryTasks, TaskStore};
use toolyard_tool::schemars::JsonSchema;
use toolyard_tool::{Context, Host, Pack, ToolError, ToolSet, tool};

use crate::support::{Client, text};
use crate::tasks::until;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// Waits for the gate.
#[tool(task, keep = "7d")]
async fn wait(gate: &Arc<Notify>, context: &Context) -> String {
    context.progress_with(1, 2, "half");
    gate.notified().await;
    "done".into()
}

/// Asks two questions, and can be run again.
#[tool(task, keep = "1h", resume)]
async fn greet(gate: &Arc<Notify>, context: &Context) -> Result<String, ToolError> {
    let first = context.ask::<Name>("Your first name?").await?.accepted()?.name;
    gate.notify_one();
    let replies = context.questions().form::<Name>("last", "Your last name?").put().await?;
    let last = replies.form::<Name>("last")?.accepted()?.name;
    Ok(format!("Hello, {first} {last}"))
}

/// A program with this store, and the gate of its tools.
fn program(store: &Arc<MemoryTasks>) -> (Arc<ToolSet>, Arc<Notify>) {
    let gate = Arc::new(Notify::new());
    let state = gate.clone();
    let pack = Pack::with_host("lasting", "Lasts.", move |_: Nothing, _| {
        ToolSet::new("lasting", "1").state(state.clone()).with::<wait>().with::<greet>()
    });
    let store: Arc<dyn TaskStore> = store.clone();
    let host = Host::builder("lasting").tasks(store).build();
    (Arc::new(pack.tools_in(json!({}), host).unwrap()), gate)
}

fn newer(principal: &str) -> Client {
    let tasks = json!({ "io.modelcontextprotocol/tasks": {} });
    Client::named(principal, Revision::NEWEST, json!({ "extensions": tasks, "elicitation": {} }))
}

fn older(principal: &str) -> Client {
    Client::named(principal, Revision::V2025_11_25, json!({ "elicitation": {} }))
}

async fn start(client: &Client, set: &ToolSet, tool: &str) -> Value {
    let started = client.request(set, "tools/call", json!({ "name": tool })).await.unwrap();
    started["taskId"].clone()
}

fn answer(task: &Value, name: &str) -> Value {
    let key = task["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let answers = json!({ key: { "action": "accept", "content": { "name": name } } });
    json!({ "taskId": task["taskId"], "inputResponses": answers })
}

#[tokio::test]
async fn every_listener_of_the_owner_is_notified_of_a_task_that_lasts_and_no_other() {
    let store = Arc::<MemoryTasks>::default();
    let (set, gate) = program(&store);
    let (starter, listener, stranger) = (newer("ann"), newer("ann"), newer("bob"));
    let id = start(&starter, &set, "wait").await;
    let wishes = json!({ "notifications": { "taskIds": [id] } });
    let listening = listener.start(&*set, "subscriptions/listen", wishes.clone());
    let overhearing = stranger.start(&*set, "subscriptions/listen", wishes);
    let acting = async {
        tokio::task::yield_now().await;
        gate.notify_one();
        until(&starter, &*set, &id, "completed").await;
        while listener.notifications().len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = listening => panic!("it listens for as long as the client does"),
        _ = overhearing => panic!("it listens for as long as the client does"),
        () = acting => {}
    }
    let received = listener.notifications();
    assert_eq!(received[0][1]["notifications"]["taskIds"], json!([id]));
    assert_eq!(received.last().unwrap()[0], "notifications/tasks");
    assert_eq!(received.last().unwrap()[1]["status"], "completed");
    let overheard = stranger.notifications();
    assert!(overheard.iter().all(|one| one[0] != "notifications/tasks"), "{overheard:?}");
}

#[tokio::test]
async fn a_result_outlives_its_client_and_its_program() {
    let store = Arc::new(MemoryTasks::default());
    let (set, gate) = program(&store);
    let ann = newer("ann");
    let started = ann.request(&*set, "tools/call", json!({ "name": "wait" })).await.unwrap();
    assert_eq!(started["ttlMs"], 604_800_000);
    let id = &started["taskId"];
    until(&ann, &*set, id, "working").await;
    gate.notify_one();
    until(&ann, &*set, id, "completed").await;
    drop(set);
    let (set, _) = program(&store);
    let task = until(&newer("ann"), &*set, id, "completed").await;
    assert_eq!((text(&task["result"]), &task["statusMessage"]), ("done", &json!("half")));
    let result = older("ann").request(&*set, "tasks/result", json!({ "taskId": id })).await.unwrap();
    assert_eq!(text(&result), "done");
}

#[tokio::test]
async fn a_task_that_ran_when_its_program_ended_has_failed_with_the_reason() {
    let store = Arc::new(MemoryTasks::default());
    let (set, _) = program(&store);
    let ann = newer("ann");
    let id = start(&ann, &set, "wait").await;
    set.end().await;
    drop(set);
    let (set, _) = program(&store);
    let task = until(&ann, &*set, &id, "failed").await;
    let reason = "the gateway was stopped while the task was running";
    assert_eq!((&task["statusMessage"], &task["error"]["message"]), (&json!(reason), &json!(reason)));
    let listed = older("ann").request(&*set, "tasks/list", json!({})).await.unwrap();
    assert_eq!((&listed["tasks"][0]["taskId"], &listed["tasks"][0]["status"]), (&id, &json!("failed")));
}

#[tokio::test]
async fn a_question_is_answered_once_also_after_a_restart() {
    let store = Arc::new(MemoryTasks::default());
    let (set, gate) = program(&store);
    let ann = newer("ann");
    let id = start(&ann, &set, "greet").await;
    let asked = until(&ann, &*set, &id, "input_required").await;
    set.end().await;
    drop((set, gate));

    let (set, gate) = program(&store);
    let again = until(&ann, &*set, &id, "input_required").await;
    assert_eq!(again["inputRequests"], asked["inputRequests"], "the same question under the same key");
    ann.request(&*set, "tasks/update", answer(&again, "Ann")).await.unwrap();
    ann.request(&*set, "tasks/update", answer(&again, "Eve")).await.unwrap();
    gate.notified().await;
    set.end().await;
    drop((set, gate));

    let (set, gate) = program(&store);
    let last = until(&ann, &*set, &id, "input_required").await;
    assert_eq!(last["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["last"]);
    ann.request(&*set, "tasks/update", answer(&last, "Lee")).await.unwrap();
    gate.notified().await;
    let done = until(&ann, &*set, &id, "completed").await;
    assert_eq!(text(&done["result"]), "Hello, Ann Lee");
}

#[tokio::test]
async fn another_principal_sees_nothing_and_an_unknown_id_looks_the_same() {
    let store = Arc::new(MemoryTasks::default());
    let (set, gate) = program(&store);
    let (ann, bob) = (newer("ann"), newer("bob"));
    let running = start(&ann, &set, "wait").await;
    let ended = start(&ann, &set, "wait").await;
    ann.request(&*set, "tasks/cancel", json!({ "taskId": ended })).await.unwrap();
    until(&ann, &*set, &ended, "cancelled").await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for id in [&running, &ended] {
            let refused = bob.request(&*set, method, json!({ "taskId": id })).await.unwrap_err();
            let id = id.as_str().unwrap();
            assert_eq!(refused.message(), format!("unknown task: {id}"), "{method}");
        }
    }
    let listed = older("bob").request(&*set, "tasks/list", json!({})).await.unwrap();
    assert_eq!(listed["tasks"], json!([]));
    gate.notify_one();
    until(&ann, &*set, &running, "completed").await;
}

#[tokio::test]
async fn a_task_that_another_set_of_the_program_still_runs_is_left_alone() {
    let store = Arc::new(MemoryTasks::default());
    let ((set, gate), ann) = (program(&store), newer("ann"));
    let id = start(&ann, &set, "wait").await;
    let (other, _) = program(&store);
    until(&ann, &*other, &id, "working").await;
    gate.notify_one();
    until(&ann, &*set, &id, "completed").await;
    until(&ann, &*other, &id, "completed").await;
}

/// A legacy client that answers every question with this name.
fn older_answering(principal: &str, connection: u64, name: &str) -> Client {
    let answer = json!({ "action": "accept", "content": { "name": name } });
    older(principal).on_connection(connection).answering("elicitation/create", answer)
}

#[tokio::test]
async fn each_question_is_answered_once_by_any_client_of_the_owner() {
    let store = Arc::new(MemoryTasks::default());
    let (set, gate) = program(&store);
    let (starter, second) = (newer("ann"), newer("ann").on_connection(2));
    let id = start(&starter, &set, "greet").await;
    let asked = until(&second, &*set, &id, "input_required").await;
    second.request(&*set, "tasks/update", answer(&asked, "Ann")).await.unwrap();
    starter.request(&*set, "tasks/update", answer(&asked, "Eve")).await.unwrap();
    gate.notified().await;
    let legacy = older_answering("ann", 3, "Lee");
    let result = legacy.request(&*set, "tasks/result", json!({ "taskId": id })).await.unwrap();
    assert_eq!(text(&result), "Hello, Ann Lee");
    let questions = legacy.asked();
    assert_eq!(questions.len(), 1, "the answered question is not asked again: {questions:?}");
    assert_eq!(questions[0][1]["message"], "Your last name?");
    assert_eq!(questions[0][1]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id);
    let done = until(&starter, &*set, &id, "completed").await;
    assert_eq!(text(&done["result"]), "Hello, Ann Lee");
}

#[tokio::test]
async fn a_legacy_client_answers_a_question_that_was_asked_before_a_restart() {
    let store = Arc::new(MemoryTasks::default());
    let (set, _gate) = program(&store);
    let starter = newer("ann");
    let id = start(&starter, &set, "greet").await;
    until(&starter, &*set, &id, "input_required").await;
    set.end().await;
    drop(set);

    let (set, _gate) = program(&store);
    let result = json!({ "taskId": id });
    let refused = older_answering("bob", 2, "Eve").request(&*set, "tasks/result", result.clone()).await;
    assert!(refused.unwrap_err().message().contains("unknown task"));
    let legacy = older_answering("ann", 3, "Ann");
    let answer = legacy.request(&*set, "tasks/result", result).await.unwrap();
    assert_eq!(text(&answer), "Hello, Ann Ann");
    let messages: Vec<_> = legacy.asked().iter().map(|asked| asked[1]["message"].clone()).collect();
    assert_eq!(messages, ["Your first name?", "Your last name?"]);
}
