//! One tool for each feature of the protocol.

use std::ops::RangeInclusive;

use serde_json::{Value, json};
use toolyard_proto::Revision;
use toolyard_proto::modern::LogLevel;

use super::LOG_LEVEL;
use super::server::{Call, Server, error};

/// What a server of its revision offers.
pub(super) fn list(server: &Server) -> Vec<Value> {
    let mut names =
        vec!["echo", "progress", "slow", "cancels", "log", "change", "touch", "image", "sample", "roots"];
    if server.knows(Revision::V2025_06_18) {
        names.extend(["structured", "elicit"]);
    }
    if server.knows(Revision::V2025_11_25) {
        names.extend(["elicit_url", "task", "long_task"]);
    }
    if server.knows(Revision::V2025_11_25) {
        names.push("rounds");
    }
    if server.is_modern() {
        names.push("status");
    }
    if server.revision == Revision::V2025_11_25 {
        names.push("visit");
    }
    let mut tools: Vec<Value> = names.into_iter().map(|name| tool(server, name)).collect();
    let extra = server.state().extra_tools;
    for number in 0..extra {
        tools.push(tool(server, &format!("extra{number}")));
    }
    tools
}

fn tool(server: &Server, name: &str) -> Value {
    let mut tool = json!({ "name": name, "inputSchema": { "type": "object" } });
    if name == "structured" {
        tool["outputSchema"] = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    }
    if matches!(name, "task" | "long_task") && !server.is_modern() {
        tool["execution"] = json!({ "taskSupport": "required" });
    }
    tool
}

pub(super) fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

pub(super) async fn call(call: &Call) -> Result<Value, Value> {
    let name = call.params["name"].as_str().unwrap_or_default();
    if !list(&call.server).iter().any(|tool| tool["name"] == name) {
        return Err(error(-32602, "unknown tool"));
    }
    if call.params.get("task").is_some() && call.server.revision != Revision::V2025_11_25 {
        return Err(error(-32602, "`task` is not of this revision"));
    }
    *call.server.state().called.entry(name.to_owned()).or_default() += 1;
    match name {
        "visit" => call.visit(),
        "echo" => Ok(text(call.params["arguments"]["text"].as_str().unwrap_or_default())),
        "progress" => progress(call, 1..=2).await,
        "rounds" => rounds(call).await,
        "slow" => {
            progress(call, 1..=1).await?;
            std::future::pending().await
        }
        "cancels" => Ok(text(&call.server.state().cancelled.to_string())),
        "log" => log(call).await,
        "change" => {
            call.server.state().extra_tools += 1;
            call.server.announce("notifications/tools/list_changed", "toolsListChanged", json!({})).await;
            Ok(text("changed"))
        }
        "touch" => {
            if call.server.is_subscribed("test://a") {
                let params = json!({ "uri": "test://a" });
                call.server
                    .announce("notifications/resources/updated", "resourceSubscriptions", params)
                    .await;
            }
            Ok(text("touched"))
        }
        "image" => Ok(json!({ "content": [{ "type": "image", "data": "aGk=", "mimeType": "image/png" }] })),
        "structured" => Ok(
            json!({ "content": [{ "type": "text", "text": "{\"n\":1}" }], "structuredContent": { "n": 1 } }),
        ),
        "task" | "long_task" => call.task(name == "long_task"),
        _ => call.interact(name).await,
    }
}

/// Reports, asks for the roots and reports again: a modern server from the start, in a second round, a legacy server
/// in the same call.
async fn rounds(call: &Call) -> Result<Value, Value> {
    if !call.server.is_modern() {
        progress(call, 1..=1).await?;
        let answer = call.interact("roots").await?;
        progress(call, 2..=4).await?;
        return Ok(answer);
    }
    let is_first = call.params.get("inputResponses").is_none();
    progress(call, 1..=if is_first { 2 } else { 3 }).await?;
    call.interact("roots").await
}

async fn progress(call: &Call, steps: RangeInclusive<u32>) -> Result<Value, Value> {
    let token = call.params["_meta"].get("progressToken").cloned();
    for step in steps {
        if let Some(token) = &token {
            let params = json!({ "progressToken": token, "progress": step, "total": 2 });
            call.notify("notifications/progress", params).await;
        }
    }
    Ok(text("progressed"))
}

/// Sends log messages only if a client requested them.
async fn log(call: &Call) -> Result<Value, Value> {
    let level = if call.server.is_modern() {
        call.params["_meta"][LOG_LEVEL].as_str().map(str::to_owned)
    } else {
        call.server.state().level.clone()
    };
    let info = LogLevel::parse("info");
    if level.and_then(|level| LogLevel::parse(&level)).is_some_and(|level| Some(level) <= info) {
        call.notify("notifications/message", json!({ "level": "info", "data": "hello" })).await;
    }
    Ok(text("logged"))
}
