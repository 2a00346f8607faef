//! What clients see, and when they are notified that it changed.

use std::time::Duration;

use serde_json::json;
use toolyard_core::ProfilePlan;
use toolyard_proto::name::NameStyle;
use toolyard_proto::{Method, Revision};

use crate::support::{Attempt, Client, Double, gateway, start};

const NEW: Revision = Revision::NEWEST;
const OLD: Revision = Revision::NEWEST_LEGACY;

#[tokio::test(start_paused = true)]
async fn the_built_in_tools_are_there_with_no_upstream_at_all() {
    let client = Client::new(&gateway(&[]), NEW, "");
    assert_eq!(
        client.names("tools/list", "tools", "name").await,
        [
            "yard__status",
            "yard__upstreams",
            "yard__search_tools",
            "yard__instances_list",
            "yard__instances_connect",
            "yard__instances_disconnect",
            "yard__instances_health",
            "yard__instances_call",
        ]
    );
    let status = client.call("yard__status", json!({})).await.unwrap();
    assert_eq!(status["structuredContent"]["upstreams"], json!({ "active": 1, "total": 1 }));
}

#[tokio::test(start_paused = true)]
async fn search_finds_the_fitting_tool_first_and_only_what_the_caller_sees() {
    let double = Double::new(NEW, &["read_file", "write_file", "list_issues"]);
    let other = Double::new(NEW, &["read_secret"]);
    let gateway = start(&[("files", &double), ("vault", &other)], |plan| {
        let upstreams = Some(vec!["files".to_owned(), "yard".to_owned()]);
        plan.profiles.push(ProfilePlan { name: "safe".into(), upstreams, ..ProfilePlan::default() });
    });
    let found = async |view: &str, query: &str| -> Vec<String> {
        let client = Client::new(&gateway, NEW, view);
        client.tools().await;
        let result = client.call("yard__search_tools", json!({ "query": query })).await.unwrap();
        let tools = result["structuredContent"]["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found("", "read file").await[0], "files__read_file");
    assert!(found("", "read").await.contains(&"vault__read_secret".to_owned()));
    let safe = found("p/safe", "read").await;
    assert_eq!(safe[0], "files__read_file");
    assert!(!safe.contains(&"vault__read_secret".to_owned()));
    let client = Client::new(&gateway, NEW, "");
    let refused = client.call("yard__search_tools", json!({ "query": "x", "limit": 0 })).await.unwrap();
    assert_eq!(refused["isError"], true);
}

#[tokio::test(start_paused = true)]
async fn a_profile_shows_and_calls_only_what_it_allows() {
    let double = Double::new(NEW, &["read", "write", "delete"]);
    let gateway = start(&[("files", &double)], |plan| {
        let (allow, deny) = (Some(vec!["files:*".into()]), vec!["*:delete".into()]);
        plan.profiles.push(ProfilePlan { name: "p1".into(), allow, deny, ..ProfilePlan::default() });
        let mut through = plan.profiles[0].clone();
        (through.name, through.transparent) = ("p2".into(), true);
        plan.profiles.push(through);
    });
    let client = Client::new(&gateway, NEW, "p/p1");
    assert_eq!(client.names("tools/list", "tools", "name").await, ["files__read", "files__write"]);
    assert_eq!(client.call("files__delete", json!({})).await.unwrap_err().code(), -32602);
    assert_eq!(Client::new(&gateway, NEW, "p/p2").tools().await, ["read", "write"]);
}

#[tokio::test(start_paused = true)]
async fn a_transparent_gateway_shows_its_only_upstream_as_it_is() {
    let double = Double::new(OLD, &["read"]);
    let gateway = start(&[("files", &double)], |plan| plan.transparent = true);
    let client = Client::new(&gateway, OLD, "");
    assert_eq!(client.names("tools/list", "tools", "name").await, ["read"]);
    let greeting = client.ask("server/discover", json!({})).await.unwrap();
    assert_eq!(greeting["serverInfo"]["name"], "double");
}

#[tokio::test(start_paused = true)]
async fn the_first_list_of_one_upstream_does_not_wait_for_the_debounce() {
    let double = Double::new(NEW, &["read"]);
    double.attempts.lock().push_back(Attempt::Fails);
    let gateway = start(&[("files", &double)], |plan| plan.pace.backoff_first = Duration::from_millis(100));
    // The first attempt has started a debounce; the second succeeds within it.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(Client::new(&gateway, NEW, "files").tools().await, ["read"]);
}

#[tokio::test(start_paused = true)]
async fn names_can_be_shown_with_a_colon() {
    let double = Double::new(NEW, &["read it"]);
    let gateway = start(&[("files", &double)], |plan| plan.names = NameStyle::Colon);
    assert!(
        Client::new(&gateway, NEW, "")
            .names("tools/list", "tools", "name")
            .await
            .contains(&"files:read it".into())
    );
}

#[tokio::test(start_paused = true)]
async fn definitions_are_shown_byte_for_byte_apart_from_the_name() {
    let double = Double::new(NEW, &[]);
    let tool = json!({ "zeta": 1, "name": "t", "inputSchema": { "$schema": "x", "type": "object", "b": 1, "a": [1.5, null] }, "_meta": { "v": 1 } });
    double.tools.lock().push(tool.clone());
    let gateway = gateway(&[("a", &double)]);
    let whole = Client::new(&gateway, NEW, "a").ask("tools/list", json!({})).await.unwrap();
    assert_eq!(serde_json::to_string(&whole["tools"][0]).unwrap(), tool.to_string());
    let renamed = Client::new(&gateway, NEW, "").ask("tools/list", json!({})).await.unwrap();
    assert_eq!(
        serde_json::to_string(renamed["tools"].as_array().unwrap().last().unwrap()).unwrap(),
        tool.to_string().replace(r#""t""#, r#""a__t""#)
    );
}

#[tokio::test(start_paused = true)]
async fn changes_are_announced_once_to_listeners_that_see_them() {
    let (one, two) = (Double::new(OLD, &["a"]), Double::new(OLD, &["b"]));
    let gateway = gateway(&[("one", &one), ("two", &two)]);
    let listen = |view: &str, filter: serde_json::Value| {
        let client = Client::new(&gateway, NEW, view);
        let listening = client.send("subscriptions/listen", json!({ "notifications": filter }));
        let inbox = client.inbox.clone();
        (tokio::spawn(listening), inbox)
    };
    Client::new(&gateway, NEW, "").tools().await;
    let (_all, everything) = listen("", json!({ "toolsListChanged": true }));
    let (_two, only_two) = listen("two", json!({ "toolsListChanged": true }));
    let (_prompts, prompts) = listen("", json!({ "promptsListChanged": true }));
    tokio::time::sleep(Duration::from_secs(1)).await;
    one.tools.lock().push(json!({ "name": "new" }));
    for _ in 0..20 {
        one.announce(Method::TOOLS_CHANGED);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let changed = "notifications/tools/list_changed";
    let acknowledged = "notifications/subscriptions/acknowledged";
    assert_eq!(everything.methods(), [acknowledged, changed]);
    assert_eq!(only_two.methods(), [acknowledged]);
    assert_eq!(prompts.methods(), [acknowledged]);
    assert_eq!(Client::new(&gateway, NEW, "one").tools().await, ["a", "new"]);
}

#[tokio::test(start_paused = true)]
async fn one_subscription_upstream_serves_all_clients_and_ends_with_the_last() {
    let double = Double::new(OLD, &[]);
    double.resources.lock().push(json!({ "uri": "test://r", "name": "r" }));
    let gateway = gateway(&[("a", &double)]);
    let uri = Client::new(&gateway, NEW, "").names("resources/list", "resources", "uri").await.remove(0);
    let watch = || {
        let client = Client::new(&gateway, NEW, "");
        let listening = client
            .send("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": [uri] } }));
        (tokio::spawn(listening), client.inbox.clone())
    };
    let ((first, inbox), (second, _)) = (watch(), watch());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let count = |method: &str| double.seen.lock().iter().filter(|(seen, _)| seen.as_str() == method).count();
    assert_eq!(count("resources/subscribe"), 1);
    double.say(toolyard_model::LinkEvent::Notification(
        None,
        toolyard_proto::Notification::new(
            Method::RESOURCE_UPDATED,
            crate::support::raw(json!({ "uri": "test://r/part" })),
        ),
    ));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let received = inbox.received.lock().last().unwrap().params.clone().unwrap();
    assert_eq!(received.as_str(), r#"{"uri":"yard+test://a/r/part"}"#);
    first.abort();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(count("resources/unsubscribe"), 0);
    second.abort();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(count("resources/unsubscribe"), 1);
}

/// Tools that make strict clients reject the whole list.
fn strange() -> serde_json::Value {
    json!([
        { "name": "any", "description": null, "inputSchema": { "type": "object", "properties": { "x": true } } },
        { "name": "bare" },
        { "name": "icon", "inputSchema": { "type": "object" }, "icons": [{}] },
    ])
}

#[tokio::test(start_paused = true)]
async fn a_strange_definition_does_not_affect_others() {
    let (good, odd) = (Double::new(NEW, &["t"]), Double::new(OLD, &[]));
    *odd.tools.lock() = strange().as_array().unwrap().clone();
    let gateway = gateway(&[("good", &good), ("odd", &odd)]);
    for revision in [OLD, NEW] {
        let client = Client::new(&gateway, revision, "");
        assert_eq!(client.tools().await, ["good__t", "odd__any", "odd__icon"]);
        let listed = client.ask("tools/list", json!({})).await.unwrap();
        let tools = listed["tools"].as_array().unwrap();
        let named = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap().clone();
        let schema = json!({ "type": "object", "properties": { "x": {} } });
        assert_eq!(named("odd__any"), json!({ "name": "odd__any", "inputSchema": schema }));
        assert_eq!(named("odd__icon"), json!({ "name": "odd__icon", "inputSchema": { "type": "object" } }));
    }
    let alone = Client::new(&gateway, OLD, "odd").ask("tools/list", json!({})).await.unwrap();
    assert_eq!(alone["tools"], strange(), "its own view has it unchanged");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_out_is_reported() {
    let odd = Double::new(OLD, &[]);
    *odd.tools.lock() = strange().as_array().unwrap().clone();
    let client = Client::new(&gateway(&[("odd", &odd)]), NEW, "");
    client.tools().await;
    let status = client.call("yard__status", json!({})).await.unwrap();
    assert_eq!(status["structuredContent"]["leftOut"], 1);
    let reported = client.call("yard__upstreams", json!({})).await.unwrap();
    let upstreams = reported["structuredContent"]["upstreams"].as_array().unwrap();
    let about = upstreams.iter().find(|upstream| upstream["id"] == "odd").unwrap();
    let faults = json!([
        "tool `bare` is left out: `inputSchema` is missing",
        "tool `icon` is shown without `icons`: `icons[0].src` is missing",
    ]);
    assert_eq!((&about["faults"], &about["tools"]), (&faults, &json!(2)));
    for name in ["odd__bare", "odd:bare"] {
        let refused = client.call(name, json!({})).await.unwrap_err();
        let reason = "upstream `odd` defines it in a way that clients refuse: `inputSchema` is missing";
        assert_eq!(refused.message(), format!("tool `{name}` is not shown: {reason}"));
    }
}

#[tokio::test(start_paused = true)]
async fn hosts_of_apps_call_tools_by_own_names_that_only_one_upstream_has() {
    let (first, second) = (Double::new(NEW, &["draw", "both"]), Double::new(NEW, &["both"]));
    let gateway = start(&[("a", &first), ("b", &second)], |_| {});
    let mut host = Client::new(&gateway, NEW, "");
    host.declare(json!({ "extensions": { "io.modelcontextprotocol/ui": {} } }));
    let other = Client::new(&gateway, NEW, "");
    other.tools().await;
    assert!(host.call("draw", json!({})).await.is_ok());
    assert_eq!(first.seen.lock().len(), 1);
    assert!(host.call("both", json!({})).await.is_err(), "two upstreams have it");
    assert!(other.call("draw", json!({})).await.is_err(), "it shows no apps");
}
