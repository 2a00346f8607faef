//! The lean view: little is listed, everything is found, and a call through `call_tool` is the call of that tool.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolyard_core::plan::Exposure;
use toolyard_core::{CallRules, ProfilePlan, ToolRule, ToolSettings};
use toolyard_model::AnswerBody;
use toolyard_proto::Revision;

use crate::support::{Behaviour, Client, Double, gateway, raw, start};

const NEW: Revision = Revision::NEWEST;
const OLD: Revision = Revision::V2025_11_25;

async fn names(client: &Client) -> Vec<String> {
    client.names("tools/list", "tools", "name").await
}

async fn found(client: &Client, query: &str) -> Vec<String> {
    let result = client.call("search_tools", json!({ "query": query })).await.unwrap();
    let tools = result["structuredContent"]["tools"].as_array().unwrap().clone();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_lean_view_lists_search_call_and_what_the_config_names() {
    let files = Double::new(NEW, &["read_file", "write_file"]);
    let gateway = start(&[("files", &files)], |plan| plan.lean = vec!["files:read_*".into()]);
    for revision in [NEW, OLD] {
        let client = Client::new(&gateway, revision, "lean");
        assert_eq!(names(&client).await, ["search_tools", "call_tool", "files__read_file"]);
        assert_eq!(found(&client, "write a file").await[0], "files__write_file");
    }
    assert!(names(&Client::new(&gateway, NEW, "")).await.contains(&"files__write_file".to_owned()));
}

/// `docs/guide/lean.md` compares this size with that of the full list.
#[tokio::test(start_paused = true)]
async fn the_lean_list_has_the_size_that_the_guide_names() {
    let files = Double::new(NEW, &["read_file", "write_file"]);
    let client = Client::new(&gateway(&[("files", &files)]), NEW, "lean");
    let list = client.ask("tools/list", json!({})).await.unwrap();
    let size = list["tools"].to_string().len();
    assert!((850..950).contains(&size), "the lean list has {size} bytes");
}

#[tokio::test(start_paused = true)]
async fn a_call_through_call_tool_reaches_the_tool_as_a_direct_call_does() {
    let files = Double::new(NEW, &["read_file"]);
    let gateway = gateway(&[("files", &files)]);
    let client = Client::new(&gateway, NEW, "lean");
    client.tools().await;
    let arguments = json!({ "path": "ö", "n": 1.0, "deep": { "a": [null] } });
    let meta = json!({ "progressToken": 7, "x": "y" });
    for name in ["files__read_file", "files:read_file"] {
        let direct = json!({ "name": name, "arguments": arguments, "_meta": meta });
        let inner = json!({ "name": name, "arguments": arguments });
        let through = json!({ "name": "call_tool", "arguments": inner, "_meta": meta });
        let direct = client.ask("tools/call", direct).await.unwrap();
        assert_eq!(client.ask("tools/call", through).await.unwrap(), direct);
    }
    let seen = files.seen.lock().clone();
    let params: Vec<Value> = seen.iter().map(|(_, params)| params.read().unwrap()).collect();
    assert!(params.iter().all(|params| params["name"] == "read_file" && params["arguments"] == arguments));
}

#[tokio::test(start_paused = true)]
async fn the_called_tools_own_timeout_and_profile_apply() {
    let never: Behaviour = Arc::new(|_, _| Box::pin(std::future::pending()));
    let files = Double::with(NEW, &["slow", "secret"], never);
    let gateway = start(&[("files", &files)], |plan| {
        let settings = ToolSettings { timeout: Some(Duration::from_secs(3)), ..ToolSettings::default() };
        let rule = ToolRule { pattern: "files:slow".into(), settings, ..ToolRule::default() };
        plan.calls = CallRules { tools: vec![rule], ..CallRules::default() };
        let (exposure, deny) = (Exposure::Search, vec!["files:secret".into()]);
        plan.profiles.push(ProfilePlan { name: "few".into(), exposure, deny, ..ProfilePlan::default() });
    });
    let client = Client::new(&gateway, NEW, "p/few");
    assert_eq!(names(&client).await, ["search_tools", "call_tool"]);
    assert_eq!(found(&client, "slow secret").await, ["files__slow"]);
    let began = tokio::time::Instant::now();
    let failed = client.call("call_tool", json!({ "name": "files__slow" })).await.unwrap();
    assert_eq!((failed["isError"].as_bool(), began.elapsed().as_secs()), (Some(true), 3));
    let refused = client.call("call_tool", json!({ "name": "files__secret" })).await.unwrap_err();
    assert_eq!(refused.code(), -32602);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_through_call_tool_cancels_it_upstream() {
    let never: Behaviour = Arc::new(|_, _| Box::pin(std::future::pending()));
    let files = Double::with(NEW, &["slow"], never);
    let gateway = gateway(&[("files", &files)]);
    let client = Client::new(&gateway, NEW, "lean");
    client.tools().await;
    let call = client.call("call_tool", json!({ "name": "files__slow" }));
    assert!(tokio::time::timeout(Duration::from_secs(1), call).await.is_err());
    assert_eq!(files.dropped.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn questions_of_the_called_tool_reach_the_client() {
    let asking: Behaviour = Arc::new(|request, _| {
        let text = request.params.as_str().to_owned();
        let is_first = request.params.member("inputResponses").is_none();
        let ask = json!({ "method": "elicitation/create", "params": { "message": "Sure?" } });
        let asked =
            json!({ "resultType": "input_required", "requestState": "s", "inputRequests": { "a": ask } });
        let answer = json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] });
        Box::pin(async move { Ok(AnswerBody::Whole(raw(if is_first { asked } else { answer }), NEW)) })
    });
    let files = Double::with(NEW, &["ask"], asking);
    let gateway = gateway(&[("files", &files)]);
    let mut client = Client::new(&gateway, OLD, "lean");
    client.declare(json!({ "elicitation": {} }));
    *client.inbox.reply.lock() = Some(json!({ "action": "accept", "content": {} }));
    client.tools().await;
    let result = client.call("call_tool", json!({ "name": "files__ask" })).await.unwrap();
    assert!(result["content"][0]["text"].as_str().unwrap().contains("accept"), "{result}");
    assert_eq!(client.inbox.asked.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn mistakes_in_call_tool_say_what_to_do() {
    let files = Double::new(NEW, &["read_file"]);
    let gateway = gateway(&[("files", &files)]);
    let client = Client::new(&gateway, NEW, "lean");
    client.tools().await;
    for (arguments, expected) in [
        (json!({}), "`call_tool` needs `name`"),
        (json!({ "name": 5 }), "`call_tool` needs `name`"),
        (json!({ "name": "call_tool" }), "cannot call itself"),
        (json!({ "name": "files__read_file", "arguments": [1] }), "must be an object"),
        (json!({ "name": "files__nothing" }), "`search_tools` finds tools by words"),
    ] {
        let error = client.call("call_tool", arguments).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let elsewhere = Client::new(&gateway, NEW, "");
    let refused = elsewhere.call("call_tool", json!({ "name": "files__read_file" })).await.unwrap_err();
    assert_eq!(refused.code(), -32602);
}

#[tokio::test(start_paused = true)]
async fn an_upstream_named_lean_keeps_its_path() {
    let own = Double::new(NEW, &["muscle"]);
    let gateway = gateway(&[("lean", &own)]);
    let client = Client::new(&gateway, NEW, "lean");
    assert_eq!(names(&client).await, ["muscle"]);
    assert!(client.call("muscle", json!({})).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_transparent_gateway_has_a_lean_view_under_shown_names() {
    let files = Double::new(NEW, &["read_file"]);
    let gateway = start(&[("files", &files)], |plan| plan.transparent = true);
    let client = Client::new(&gateway, NEW, "lean");
    assert_eq!(names(&client).await, ["search_tools", "call_tool"]);
    assert_eq!(found(&client, "read file").await, ["files__read_file"]);
}
