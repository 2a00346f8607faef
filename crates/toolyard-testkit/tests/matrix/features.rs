//! The one table of features: since when each side knows it, and how a client checks that it works.

use std::time::Duration;

use serde_json::json;
use toolyard_model::BoxFuture;
use toolyard_proto::Revision;
use toolyard_proto::Revision::{V2024_11_05, V2025_06_18, V2025_11_25};
use toolyard_testkit::script::Client;

type Checked = BoxFuture<Result<(), String>>;

pub(crate) struct Feature {
    pub(crate) name: &'static str,
    pub(crate) client_since: Revision,
    pub(crate) server_since: Revision,
    pub(crate) check: fn(Client) -> Checked,
}

macro_rules! feature {
    ($name:literal, $client:expr, $server:expr, $check:ident) => {
        Feature {
            name: $name,
            client_since: $client,
            server_since: $server,
            check: |client| Box::pin(async move { $check(&client).await }),
        }
    };
}

/// Structured output and tasks reach clients that know neither: as text, and by the gateway waiting for them.
pub(crate) const FEATURES: &[Feature] = &[
    feature!("call", V2024_11_05, V2024_11_05, call),
    feature!("progress", V2024_11_05, V2024_11_05, progress),
    feature!("cancel", V2024_11_05, V2024_11_05, cancel),
    feature!("log", V2024_11_05, V2024_11_05, log),
    feature!("list_changed", V2024_11_05, V2024_11_05, list_changed),
    feature!("subscribe", V2024_11_05, V2024_11_05, subscribe),
    feature!("elicitation, form", V2025_06_18, V2025_06_18, elicit),
    feature!("elicitation, url", V2025_11_25, V2025_11_25, elicit_url),
    feature!("sampling", V2024_11_05, V2024_11_05, sample),
    feature!("roots", V2024_11_05, V2024_11_05, roots),
    feature!("completion", V2024_11_05, V2024_11_05, complete),
    feature!("pagination", V2024_11_05, V2024_11_05, pages),
    feature!("structured output", V2024_11_05, V2025_06_18, structured),
    feature!("image", V2024_11_05, V2024_11_05, image),
    feature!("tasks", V2024_11_05, V2025_11_25, task),
];

fn expect(got: &str, expected: &str) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("{got:?} instead of {expected:?}")) }
}

/// A tool that asks what this client's revision cannot do: it fails with the reason.
pub(crate) async fn refused(client: &Client, feature: &str) -> Result<(), String> {
    let tool = if feature.ends_with("url") { "elicit_url" } else { "elicit" };
    match client.tool(tool).await {
        Ok(text) => Err(format!("answered {text:?} instead of being refused")),
        Err(why) if why.contains("-32021") => Err(format!("a code of another revision: {why}")),
        Err(why) if why.contains("elicitation") || why.contains("cannot") => Ok(()),
        Err(why) => Err(format!("not in the clear: {why}")),
    }
}

async fn call(client: &Client) -> Result<(), String> {
    let params = json!({ "name": "echo", "arguments": { "text": "é\n\u{1F600}" } });
    let result = client.ask("tools/call", params).await.map_err(|error| error.to_string())?;
    expect(result["content"][0]["text"].as_str().unwrap_or_default(), "é\n\u{1F600}")?;
    match client.ask("tools/call", json!({ "name": "none" })).await {
        Err(error) if error["code"] == -32602 => Ok(()),
        other => Err(format!("an unknown tool: {other:?}")),
    }
}

async fn progress(client: &Client) -> Result<(), String> {
    let params = json!({ "name": "progress", "arguments": {} });
    let meta = json!({ "progressToken": "mine" });
    client.ask_with("tools/call", params, meta).await.map_err(|error| error.to_string())?;
    for step in [1, 2] {
        let fits =
            |params: &serde_json::Value| params["progress"] == step && params["progressToken"] == "mine";
        client.receive("notifications/progress", fits).await?;
    }
    Ok(())
}

async fn cancel(client: &Client) -> Result<(), String> {
    let before = client.tool("cancels").await?;
    let params = json!({ "name": "slow", "arguments": {} });
    let meta = json!({ "progressToken": "slow" });
    let begun = client.begin("tools/call", params, meta).await.map_err(|error| error.to_string())?;
    client.receive("notifications/progress", |params| params["progressToken"] == "slow").await?;
    client.cancel(begun).await?;
    for _ in 0..200 {
        if client.tool("cancels").await? != before {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err("the server never received the cancel".into())
}

async fn log(client: &Client) -> Result<(), String> {
    let mut meta = json!({});
    if client.revision().is_modern() {
        meta["io.modelcontextprotocol/logLevel"] = json!("info");
    } else {
        let set = client.ask("logging/setLevel", json!({ "level": "info" })).await;
        set.map_err(|error| error.to_string())?;
    }
    let params = json!({ "name": "log", "arguments": {} });
    client.ask_with("tools/call", params, meta).await.map_err(|error| error.to_string())?;
    client.receive("notifications/message", |params| params["data"] == "hello").await.map(drop)
}

/// Opens a subscription in the client's own way, and leaves it open.
async fn listen(client: &Client, notifications: serde_json::Value) -> Result<(), String> {
    let params = json!({ "notifications": notifications });
    client.begin("subscriptions/listen", params, json!({})).await.map_err(|error| error.to_string())?;
    let method = "notifications/subscriptions/acknowledged";
    let ack = client.receive(method, |params| params["notifications"] == notifications).await?;
    let is_stamped = ack["_meta"].get("io.modelcontextprotocol/subscriptionId").is_some();
    if is_stamped { Ok(()) } else { Err(format!("no subscription id in {ack}")) }
}

async fn list_changed(client: &Client) -> Result<(), String> {
    if client.revision().is_modern() {
        listen(client, json!({ "toolsListChanged": true })).await?;
    }
    client.tool("change").await?;
    client.receive("notifications/tools/list_changed", |_| true).await.map(drop)
}

async fn subscribe(client: &Client) -> Result<(), String> {
    if client.revision().is_modern() {
        listen(client, json!({ "resourceSubscriptions": ["test://a"] })).await?;
    } else {
        let set = client.ask("resources/subscribe", json!({ "uri": "test://a" })).await;
        set.map_err(|error| error.to_string())?;
    }
    client.tool("touch").await?;
    client.receive("notifications/resources/updated", |params| params["uri"] == "test://a").await.map(drop)
}

async fn elicit(client: &Client) -> Result<(), String> {
    expect(&client.tool("elicit").await?, "Ann")
}

async fn elicit_url(client: &Client) -> Result<(), String> {
    expect(&client.tool("elicit_url").await?, "accept")
}

async fn sample(client: &Client) -> Result<(), String> {
    expect(&client.tool("sample").await?, "sampled")
}

async fn roots(client: &Client) -> Result<(), String> {
    expect(&client.tool("roots").await?, "file:///root")
}

async fn complete(client: &Client) -> Result<(), String> {
    let mut params =
        json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "city", "value": "p" } });
    if client.revision() >= V2025_06_18 {
        params["context"] = json!({ "arguments": { "country": "fr" } });
    }
    let result = client.ask("completion/complete", params).await.map_err(|error| error.to_string())?;
    expect(&result["completion"]["values"].to_string(), r#"["paris","prague"]"#)
}

async fn pages(client: &Client) -> Result<(), String> {
    let result = client.ask("tools/list", json!({})).await.map_err(|error| error.to_string())?;
    let names: Vec<&str> =
        result["tools"].as_array().into_iter().flatten().filter_map(|t| t["name"].as_str()).collect();
    if names.len() >= 10 && names.contains(&"echo") && names.contains(&"roots") {
        Ok(())
    } else {
        Err(format!("only {names:?}"))
    }
}

async fn structured(client: &Client) -> Result<(), String> {
    let params = json!({ "name": "structured", "arguments": {} });
    let result = client.ask("tools/call", params).await.map_err(|error| error.to_string())?;
    expect(result["content"][0]["text"].as_str().unwrap_or_default(), "{\"n\":1}")?;
    let knows = client.revision() >= V2025_06_18;
    expect(&result["structuredContent"].to_string(), if knows { "{\"n\":1}" } else { "null" })
}

async fn image(client: &Client) -> Result<(), String> {
    let params = json!({ "name": "image", "arguments": {} });
    let result = client.ask("tools/call", params).await.map_err(|error| error.to_string())?;
    expect(&result["content"].to_string(), r#"[{"type":"image","data":"aGk=","mimeType":"image/png"}]"#)
}

const DONE: &str = "done in \"file:///root\"";

async fn task(client: &Client) -> Result<(), String> {
    let mut params = json!({ "name": "task", "arguments": {} });
    // A client of the revision that has tasks asks for one itself, if the server declares them.
    let asks_itself = client.revision() == V2025_11_25 && offers_tasks(client).await?;
    if asks_itself {
        params["task"] = json!({ "ttl": 60_000 });
    }
    let result = client.ask("tools/call", params).await.map_err(|error| error.to_string())?;
    let text = match (result["task"]["taskId"].as_str(), result["taskId"].as_str()) {
        (Some(id), _) => {
            client.ask("tasks/result", json!({ "taskId": id })).await.map_err(|e| e.to_string())?
        }
        (_, Some(id)) => follow(client, id).await?,
        _ => result,
    };
    expect(text["content"][0]["text"].as_str().unwrap_or_default(), DONE)
}

async fn offers_tasks(client: &Client) -> Result<bool, String> {
    let listed = client.ask("tools/list", json!({})).await.map_err(|error| error.to_string())?;
    let tools = listed["tools"].as_array().cloned().unwrap_or_default();
    Ok(tools.iter().any(|tool| tool["name"] == "task" && tool["execution"]["taskSupport"] == "required"))
}

async fn follow(client: &Client, id: &str) -> Result<serde_json::Value, String> {
    for _ in 0..200 {
        let task =
            client.ask("tasks/get", json!({ "taskId": id })).await.map_err(|error| error.to_string())?;
        match task["status"].as_str() {
            Some("completed") => return Ok(task["result"].clone()),
            Some("input_required") => {
                let keys = task["inputRequests"].as_object().cloned().unwrap_or_default();
                let answers: serde_json::Map<_, _> = keys
                    .into_iter()
                    .map(|(key, _)| (key, json!({ "roots": [{ "uri": "file:///root" }] })))
                    .collect();
                let params = json!({ "taskId": id, "inputResponses": answers });
                client.ask("tasks/update", params).await.map_err(|error| error.to_string())?;
            }
            Some("working") => tokio::time::sleep(Duration::from_millis(20)).await,
            _ => return Err(format!("the task is {task}")),
        }
    }
    Err("the task never ended".into())
}
