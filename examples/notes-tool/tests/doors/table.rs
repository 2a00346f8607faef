//! One set of tools, many doors: at each door the list of tools is the same bytes and every tool answers the same. A new
//! door is one line in [`DOORS`], and every example is tried at each.

pub(crate) mod clients;
mod gateway;
mod http;
mod lines;
mod sse;

use std::time::Duration;

use clients::{Client, Opening, entered};
use serde_json::{Value, json};
use toolyard_proto::Revision::{self, V2025_11_25, V2026_07_28};
use toolyard_tool::ToolSet;

pub(crate) struct Example {
    /// The path of its program, if that is a server.
    pub(crate) program: Option<&'static str>,
    /// The path of its program and the name it registers under, if that is an app.
    pub(crate) app: Option<(&'static str, &'static str)>,
    pub(crate) tools: fn() -> ToolSet,
    /// The scheme of the URIs of its resources.
    pub(crate) scheme: &'static str,
    /// Sent in this order, since some may change something.
    pub(crate) requests: fn() -> Vec<(&'static str, Value)>,
    /// Replaces the parts of an answer that may differ, such as the time of day.
    pub(crate) lasting: fn(Value) -> Value,
}

impl Example {
    /// The doors that it has.
    pub(crate) fn doors(&'static self) -> impl Iterator<Item = (&'static str, Opening, Revision)> {
        let has = |name: &str| match name {
            name if name.contains("an app") => self.app.is_some(),
            name if name.contains("stdio") || name.contains("a program") => self.program.is_some(),
            _ => true,
        };
        DOORS.into_iter().filter(move |(name, ..)| has(name))
    }
}

const DOORS: [(&str, Opening, Revision); 20] = [
    ("in memory", clients::memory, V2026_07_28),
    ("stdio, legacy client", lines::stdio, V2025_11_25),
    ("stdio", lines::stdio, V2026_07_28),
    ("TCP, legacy client", lines::tcp, V2025_11_25),
    ("TCP", lines::tcp, V2026_07_28),
    ("Unix socket, legacy client", lines::unix, V2025_11_25),
    ("Unix socket", lines::unix, V2026_07_28),
    ("HTTP, legacy client", http::http, V2025_11_25),
    ("HTTP", http::http, V2026_07_28),
    ("HTTP+SSE", sse::sse, V2025_11_25),
    ("a pack at /mcp/{upstream}, legacy client", gateway::pack, V2025_11_25),
    ("a pack at /mcp/{upstream}", gateway::pack, V2026_07_28),
    ("a program at /mcp/{upstream}, legacy client", gateway::program, V2025_11_25),
    ("a program at /mcp/{upstream}", gateway::program, V2026_07_28),
    ("an app at /mcp/{upstream}, legacy client", gateway::app, V2025_11_25),
    ("an app at /mcp/{upstream}", gateway::app, V2026_07_28),
    ("a pack at /mcp, legacy client, names and URIs undone", gateway::everything, V2025_11_25),
    ("a pack at /mcp, names and URIs undone", gateway::everything, V2026_07_28),
    ("a program at /mcp, legacy client, names and URIs undone", gateway::everything_program, V2025_11_25),
    ("a program at /mcp, names and URIs undone", gateway::everything_program, V2026_07_28),
];

/// The result without the protocol's own `_meta` keys, which must be the same at every door. Keys of the tool itself
/// stay.
fn unstamped(mut result: Value) -> Value {
    let Some(members) = result.as_object_mut() else { return result };
    for stamp in ["resultType", "ttlMs", "cacheScope"] {
        members.remove(stamp);
    }
    if let Some(meta) = members.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.retain(|key, _| !key.starts_with("io.modelcontextprotocol/"));
        if meta.is_empty() {
            members.remove("_meta");
        }
    }
    result
}

/// How an answer was obtained.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Plain,
    /// The client asked for a task and fetched its result, as in 2025-11-25.
    AskedForTask,
    /// The server answered with a task, and the client polled it, as in the extension.
    Task,
}

/// A task, as clients of this revision get one.
const fn task_of(revision: Revision) -> How {
    if revision.is_modern() { How::Task } else { How::AskedForTask }
}

async fn answers_of(example: &'static Example, client: &mut dyn Client) -> Vec<(Value, How)> {
    let mut answers = Vec::new();
    for (method, params) in (example.requests)() {
        let (answer, how) = settled(client, method, params).await;
        answers.push(((example.lasting)(unstamped(answer)), how));
    }
    answers
}

/// The final result of a request, and how it was obtained: a client that is asked by the answer calls again, and one that
/// gets a task polls for its result.
async fn settled(client: &mut dyn Client, method: &str, mut params: Value) -> (Value, How) {
    let mut answer: Value = client.call(method, params.clone()).await.read().unwrap();
    while answer["resultType"] == "input_required" {
        let asks = answer["inputRequests"].as_object().unwrap();
        params["inputResponses"] = asks.keys().map(|name| (name.clone(), entered())).collect();
        params["requestState"] = answer["requestState"].clone();
        answer = client.call(method, params.clone()).await.read().unwrap();
    }
    if answer["task"].is_object() {
        let about = json!({ "taskId": answer["task"]["taskId"] });
        return (client.call("tasks/result", about).await.read().unwrap(), How::AskedForTask);
    }
    if answer["resultType"] != "task" {
        return (answer, How::Plain);
    }
    let about = json!({ "taskId": answer["taskId"] });
    while answer["status"] != "completed" {
        assert_eq!(answer["status"], "working", "{answer}");
        // Waits as clients do, if less long.
        tokio::time::sleep(Duration::from_millis(1)).await;
        answer = client.call("tasks/get", about.clone()).await.read().unwrap();
    }
    (answer["result"].clone(), How::Task)
}

/// The answers to its requests, without any door.
pub(crate) async fn answers(example: &'static Example) -> Vec<Value> {
    let answers = answers_of(example, &mut *clients::memory(example, V2026_07_28).await).await;
    answers.into_iter().map(|(answer, _)| answer).collect()
}

pub(crate) async fn check_that_the_list_of_tools_is_the_same_bytes(example: &'static Example) {
    let mut expected = None;
    for (name, open, revision) in example.doors() {
        let list = open(example, revision).await.call("tools/list", json!({})).await;
        let tools = list.member("tools").unwrap();
        let expected = expected.get_or_insert_with(|| tools.clone());
        assert_eq!(tools.as_str(), expected.as_str(), "{name}");
    }
}

pub(crate) async fn check_that_every_tool_answers_the_same(example: &'static Example) {
    let expected = answers(example).await;
    for (name, open, revision) in example.doors() {
        let answers = answers_of(example, &mut *open(example, revision).await).await;
        for ((request, (answer, how)), expected) in (example.requests)().iter().zip(&answers).zip(&expected) {
            assert_eq!(answer, expected, "{name}: {request:?}");
            let asks_for_task = request.1.get("task").is_some();
            let expected = if asks_for_task { task_of(revision) } else { How::Plain };
            assert_eq!(*how, expected, "{name}: {request:?}");
        }
    }
}
