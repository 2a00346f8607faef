//! Tasks as the two revisions that have them know them: one tool, which asks once and then is done.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::TASKS;
use super::server::{Call, Server, error};
use super::tools::text;

/// How often a long task looks whether it was cancelled.
const PACE: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
pub(super) struct Tasks {
    made: usize,
    /// How often each was asked after, or that it was cancelled.
    known: HashMap<String, Task>,
}

#[derive(Debug, Default)]
struct Task {
    polls: usize,
    cancelled: bool,
    done: bool,
    /// It ends only by being cancelled.
    long: bool,
}

impl Tasks {
    /// How many there are, and how many of them were cancelled.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.known.len(), self.known.values().filter(|task| task.cancelled).count())
    }
}

impl Call {
    pub(super) fn task(&self, long: bool) -> Result<Value, Value> {
        let is_modern = self.server.is_modern();
        if is_modern && !self.declares(&["extensions", TASKS]) {
            let data = json!({ "requiredCapabilities": { "extensions": { TASKS: {} } } });
            return Err(json!({ "code": -32021, "message": "only as a task", "data": data }));
        }
        if !is_modern && self.params["task"].get("ttl").is_none() {
            return Err(error(-32601, "only as a task"));
        }
        let mut state = self.server.state();
        state.tasks.made += 1;
        let id = format!("t{}", state.tasks.made);
        state.tasks.known.insert(id.clone(), Task { long, ..Task::default() });
        drop(state);
        if !is_modern {
            return Ok(json!({ "task": before(&id, "working") }));
        }
        let mut task = today(&id, "working");
        task["resultType"] = json!("task");
        Ok(task)
    }

    /// 2025-11-25: the result is waited for, and questions come on that request.
    pub(super) async fn tasks_before(&self, method: &str) -> Result<Value, Value> {
        let id = self.params["taskId"].as_str().unwrap_or_default().to_owned();
        let status = {
            let mut state = self.server.state();
            let task = state.tasks.known.get_mut(&id).ok_or_else(|| error(-32602, "no such task"))?;
            task.cancelled |= method == "tasks/cancel";
            match (task.cancelled, task.done) {
                (true, _) => "cancelled",
                (_, true) => "completed",
                _ => "working",
            }
        };
        if method != "tasks/result" {
            return Ok(before(&id, status));
        }
        while self.server.state().tasks.known.get(&id).is_some_and(|task| task.long && !task.cancelled) {
            tokio::time::sleep(PACE).await;
        }
        if self.server.state().tasks.known.get(&id).is_some_and(|task| task.cancelled) {
            return Err(error(-32603, "cancelled"));
        }
        let asked = self.server.put(&self.out, "roots/list", json!({})).await;
        let root = asked
            .map_or_else(|_| "done".to_owned(), |answer| format!("done in {}", answer["roots"][0]["uri"]));
        if let Some(task) = self.server.state().tasks.known.get_mut(&id) {
            task.done = true;
        }
        let mut result = text(&root);
        result["_meta"] = json!({ "io.modelcontextprotocol/related-task": { "taskId": id } });
        Ok(result)
    }
}

impl Server {
    /// 2026-07-28: the client polls.
    pub(super) fn tasks_today(&self, method: &str, params: &Value) -> Result<Value, Value> {
        let id = params["taskId"].as_str().unwrap_or_default();
        let mut state = self.state();
        let task = state.tasks.known.get_mut(id).ok_or_else(|| error(-32602, "no such task"))?;
        match method {
            "tasks/update" => {
                task.done = params["inputResponses"]["root"]["roots"].is_array();
                return Ok(json!({}));
            }
            "tasks/cancel" => {
                task.cancelled = true;
                return Ok(json!({}));
            }
            _ => task.polls += 1,
        }
        Ok(match (task.cancelled, task.done, task.polls) {
            (true, ..) => today(id, "cancelled"),
            (_, true, _) => {
                let mut done = today(id, "completed");
                done["result"] = text("done in \"file:///root\"");
                done
            }
            (_, _, 1) => today(id, "working"),
            _ if task.long => today(id, "working"),
            _ => {
                let mut asking = today(id, "input_required");
                asking["inputRequests"] = json!({ "root": { "method": "roots/list", "params": {} } });
                asking
            }
        })
    }
}

fn before(id: &str, status: &str) -> Value {
    let at = "2026-01-01T00:00:00Z";
    json!({ "taskId": id, "status": status, "createdAt": at, "lastUpdatedAt": at, "ttl": 60_000, "pollInterval": 50 })
}

fn today(id: &str, status: &str) -> Value {
    let at = "2026-01-01T00:00:00Z";
    json!({ "taskId": id, "status": status, "createdAt": at, "lastUpdatedAt": at, "ttlMs": 60_000, "pollIntervalMs": 50 })
}
