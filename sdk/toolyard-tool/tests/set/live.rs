//! Sets that change while they are served.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use toolyard_proto::Revision;
use toolyard_tool::schemars::JsonSchema;
use toolyard_tool::{Contents, ToolSet, Typed, tool};

use crate::support::{Client, text};

/// Is always there.
#[tool]
async fn first() -> &'static str {
    "first"
}

/// Waits for the gate.
#[tool]
async fn waits(gate: &Arc<Notify>) -> &'static str {
    gate.notified().await;
    "waited"
}

#[derive(Deserialize, JsonSchema)]
struct Page {
    number: String,
}

/// A page.
#[tool(template = "page://{number}")]
async fn page(page: Page) -> Contents {
    Contents::text(page.number)
}

/// A prompt.
#[tool(prompt)]
async fn greet(page: Page) -> String {
    page.number
}

/// Numbers.
#[tool(completes = "greet", argument = "number")]
async fn numbers(_: Typed) -> Vec<String> {
    vec!["7".into()]
}

async fn listed(set: &ToolSet, revision: Revision) -> Vec<String> {
    let list = Client::new(revision, json!({})).request(set, "tools/list", json!({})).await.unwrap();
    let names = list["tools"].as_array().unwrap().iter();
    names.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn added_items_are_listed_and_called_and_removed_ones_are_not() {
    let set = ToolSet::new("t", "1").with::<first>();
    let (live, client, gate) = (set.live(), Client::newest(), Arc::new(Notify::new()));
    for revision in [Revision::NEWEST, Revision::V2025_06_18] {
        assert_eq!(listed(&set, revision).await, ["first"]);
    }
    let more = || ToolSet::new("more", "1").state(gate.clone()).with::<waits>();
    live.add(more()).unwrap();
    for revision in [Revision::NEWEST, Revision::V2025_06_18] {
        assert_eq!(listed(&set, revision).await, ["first", "waits"]);
    }
    assert_eq!(live.add(more()).unwrap_err().to_string(), "there are two tools named `waits` in the set");
    let under_way = client.start(&set, "tools/call", json!({ "name": "waits" }));
    assert!(live.remove_tool("waits"));
    assert!(!live.remove_tool("waits"));
    assert_eq!(listed(&set, Revision::NEWEST).await, ["first"]);
    let error = client.request(&set, "tools/call", json!({ "name": "waits" })).await.unwrap_err();
    assert_eq!(error.code(), -32602);
    gate.notify_one();
    assert!(under_way.await.is_ok(), "a call under way goes on");
    assert_eq!(text(&client.call(&set, "first", json!({})).await), "first");
}

#[tokio::test]
async fn everything_of_a_prompt_or_template_goes_with_it() {
    let set = ToolSet::new("t", "1");
    let live = set.live();
    live.add(ToolSet::new("more", "1").with::<page>().with::<greet>().with::<numbers>()).unwrap();
    let client = Client::newest();
    let complete = json!({ "ref": { "type": "ref/prompt", "name": "greet" }, "argument": { "name": "number", "value": "" } });
    let read = json!({ "uri": "page://3" });
    assert!(client.request(&set, "resources/read", read.clone()).await.is_ok());
    let completed = client.request(&set, "completion/complete", complete.clone()).await.unwrap();
    assert_eq!(completed["completion"]["values"], json!(["7"]));
    assert!(live.remove_resource("page://{number}") && live.remove_prompt("greet"));
    assert!(client.request(&set, "resources/read", read).await.is_err());
    let completed = client.request(&set, "completion/complete", complete).await.unwrap();
    assert_eq!(completed["completion"]["values"], json!([]));
}

#[tokio::test]
async fn a_set_that_may_change_declares_it_while_still_empty() {
    let capabilities = async |set: &ToolSet| {
        Client::newest().request(set, "server/discover", json!({})).await.unwrap()["capabilities"].clone()
    };
    let set = ToolSet::new("t", "1");
    assert_eq!(capabilities(&set).await, json!({ "logging": {} }));
    let _live = set.live();
    let declared = capabilities(&set).await;
    for kind in ["tools", "prompts", "resources"] {
        assert_eq!(declared[kind]["listChanged"], true, "{declared}");
    }
}

#[tokio::test]
async fn listeners_are_notified_of_the_lists_that_changed() {
    let set = ToolSet::new("t", "1");
    let (live, client) = (set.live(), Client::newest());
    let wishes =
        json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true });
    let listening = client.start(&set, "subscriptions/listen", json!({ "notifications": wishes }));
    let acting = async {
        tokio::task::yield_now().await;
        live.add(ToolSet::new("more", "1").with::<first>().with::<greet>()).unwrap();
        live.add(ToolSet::new("more", "1").with::<page>()).unwrap();
        live.remove_prompt("greet");
        live.remove_prompt("greet");
        live.remove_tool("first");
        while client.notifications().len() < 6 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = listening => panic!("it listens for as long as the client does"),
        () = acting => {}
    }
    let notifications: Vec<Value> = client.notifications().iter().skip(1).map(|one| one[0].clone()).collect();
    assert_eq!(
        notifications,
        ["tools", "prompts", "resources", "prompts", "tools"]
            .map(|kind| json!(format!("notifications/{kind}/list_changed")))
    );
}
