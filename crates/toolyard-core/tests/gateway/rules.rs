//! Rules: what principals see of tools, prompts and resources and may do with them.

mod sent;

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use toolyard_core::{Gateway, UpstreamKind, UpstreamPlan};
use toolyard_model::{Control, ControlRequest, ControlResponse, Principal};
use toolyard_policy::rules::{Annotations, Approval, Condition, Do, Names, Policy, Rule};
use toolyard_proto::Revision;

use crate::support::{Client, Double, plan, start};

const NEW: Revision = Revision::NEWEST;

pub(crate) fn rule(action: Do) -> Rule {
    Rule {
        who: Vec::new(),
        names: Names::default(),
        annotations: Annotations::default(),
        args: Vec::new(),
        when: None,
        action,
        approval: Approval::default(),
        place: "config.toml:1".to_owned(),
    }
}

fn patterns(all: &[&str]) -> Vec<String> {
    all.iter().map(|one| (*one).to_owned()).collect()
}

fn tools(all: &[&str], action: Do) -> Rule {
    Rule { names: Names { tools: patterns(all), ..Names::default() }, ..rule(action) }
}

fn prompts(all: &[&str], action: Do) -> Rule {
    Rule { names: Names { prompts: patterns(all), ..Names::default() }, ..rule(action) }
}

fn resources(all: &[&str], action: Do) -> Rule {
    Rule { names: Names { resources: patterns(all), ..Names::default() }, ..rule(action) }
}

/// A server with two of each kind.
fn double() -> Arc<Double> {
    let double = Double::new(NEW, &["read", "write"]);
    let resource = |uri: &str| json!({ "uri": uri, "name": uri });
    *double.resources.lock() = vec![resource("file:///srv/a"), resource("file:///etc/b")];
    *double.prompts.lock() = vec![json!({ "name": "plain" }), json!({ "name": "secret" })];
    double
}

fn with_rules(double: &Arc<Double>, rules: Vec<Rule>, default: Do) -> Gateway {
    start(&[("a", double)], |plan| plan.calls.rules = Some(Arc::new(Policy::new(rules, default))))
}

fn text(answer: Result<Value, toolyard_proto::CallError>) -> String {
    answer.map_or_else(|error| error.message(), |answer| answer.to_string())
}

#[tokio::test(start_paused = true)]
async fn prompts_and_resources_are_listed_and_used_as_the_rules_say() {
    let double = double();
    let rules = vec![
        prompts(&["a:secret"], Do::Hide),
        resources(&["a:file:///srv/*"], Do::Allow),
        resources(&["*"], Do::Deny),
    ];
    let gateway = with_rules(&double, rules, Do::Allow);
    for view in ["", "a"] {
        let client = Client::new(&gateway, NEW, view);
        assert_eq!(client.tools().await.len(), 2, "rules about other kinds do not concern tools");
        let listed = client.names("prompts/list", "prompts", "name").await;
        assert_eq!(listed.len(), 1, "{view}: {listed:?}");
        let listed = client.names("resources/list", "resources", "uri").await;
        assert_eq!(listed.len(), 1, "{view}: {listed:?}");
        let name = |own: &str| if view.is_empty() { format!("a__{own}") } else { own.to_owned() };
        let hidden = text(client.ask("prompts/get", json!({ "name": name("secret") })).await);
        let unknown = text(client.ask("prompts/get", json!({ "name": name("nothing") })).await);
        assert_eq!(hidden.replace("secret", "x"), unknown.replace("nothing", "x"));
        let uri = |path: &str| listed[0].replace("srv/a", path);
        let read = async |path: &str| text(client.ask("resources/read", json!({ "uri": uri(path) })).await);
        assert!(read("srv/other").await.contains("file:///srv/other"), "a resource that is not listed");
        assert!(
            read("etc/b").await.contains("a:file:///etc/b is denied to local"),
            "{}",
            read("etc/b").await
        );
        for path in ["srv/../etc/b", "srv/%2e%2e/etc/b"] {
            let refused = read(path).await;
            assert!(refused.contains("which rules cannot judge"), "{view} {path}: {refused}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn with_the_default_deny_nothing_is_seen_that_no_rule_allows() {
    let gateway = with_rules(&double(), vec![tools(&["a:read"], Do::Allow)], Do::Deny);
    let client = Client::new(&gateway, NEW, "");
    assert_eq!(client.tools().await, ["a__read"]);
    assert!(client.names("prompts/list", "prompts", "name").await.is_empty());
    assert!(client.names("resources/list", "resources", "uri").await.is_empty());
    let reference = json!({ "type": "ref/prompt", "name": "plain" });
    let alone = Client::new(&gateway, NEW, "a");
    let params = json!({ "ref": reference, "argument": { "name": "x", "value": "" } });
    let refused = text(alone.ask("completion/complete", params).await);
    assert!(refused.contains("unknown prompt plain"), "{refused}");
    let listen = json!({ "notifications": { "resourceSubscriptions": ["file:///srv/a"] } });
    let refused = text(alone.ask("subscriptions/listen", listen).await);
    assert!(refused.contains("unknown resource"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn conditions_see_the_uri_of_a_resource() {
    let when = Condition::compile("args.uri.endsWith('/a') && who.name == 'local'").unwrap();
    let allowed = Rule { when: Some(when), ..resources(&["a:*"], Do::Allow) };
    let gateway = with_rules(&double(), vec![allowed], Do::Deny);
    let client = Client::new(&gateway, NEW, "a");
    assert_eq!(client.names("resources/list", "resources", "uri").await.len(), 2, "both may be readable");
    let read = async |uri: &str| text(client.ask("resources/read", json!({ "uri": uri })).await);
    assert!(read("file:///srv/a").await.contains("file:///srv/a\\"));
    assert!(read("file:///etc/b").await.contains("is denied"));
}

async fn get(gateway: &Gateway, path: &str, query: &str, is_operator: bool) -> Value {
    let request = ControlRequest {
        method: Method::GET,
        path: path.into(),
        query: Some(query.into()),
        body: Bytes::new(),
        last_event_id: None,
        principal: Principal::local(),
        is_operator,
    };
    match gateway.control(request).await {
        ControlResponse::Whole { json, .. } => serde_json::from_slice(&json).unwrap(),
        _ => panic!("neither text nor events were asked for"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_control_api_shows_a_client_only_what_it_may_use() {
    let rules = vec![
        tools(&["a:write"], Do::Deny),
        prompts(&["a:secret"], Do::Hide),
        resources(&["a:file:///etc/*"], Do::Hide),
    ];
    let gateway = with_rules(&double(), rules, Do::Allow);
    Client::new(&gateway, NEW, "").tools().await;
    for (is_operator, expected) in [(false, 1), (true, 2)] {
        let catalog = get(&gateway, "/catalog", "view=/mcp/a", is_operator).await;
        assert_eq!(catalog["total"], expected, "{catalog}");
        for list in ["tools", "prompts", "resources"] {
            let all = get(&gateway, "/upstreams/a/definitions", &format!("list={list}"), is_operator).await;
            assert_eq!(all["total"], expected, "{list}: {all}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_hub_names_only_tools_that_the_client_may_call() {
    let hidden = vec![tools(&["shop:secret"], Do::Hide), tools(&["shop:denied"], Do::Deny)];
    let gateway = start(&[], |plan| plan.calls.rules = Some(Arc::new(Policy::new(hidden, Do::Allow))));
    let double = Double::new(NEW, &["open", "secret", "denied"]);
    let found = plan(&[("shop", &double)]).upstreams.remove(0);
    gateway.join(UpstreamPlan { kind: UpstreamKind::Instance, ..found }).unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let client = Client::new(&gateway, NEW, "");
    let connected = client.call("yard__instances_connect", json!({ "instance_id": "shop" })).await.unwrap();
    assert_eq!(connected["structuredContent"]["tools"], json!(["open"]), "{connected}");
    let call = async |tool: &str| {
        text(client.call("yard__instances_call", json!({ "instance_id": "shop", "tool": tool })).await)
    };
    assert!(call("secret").await.contains("has no tool `secret`; it has open"), "{}", call("secret").await);
    assert!(call("denied").await.contains("shop:denied is denied to local"));
    assert!(call("open").await.contains("\\\"name\\\":\\\"open\\\""), "{}", call("open").await);
    let hub = Client::new(&gateway, Revision::NEWEST_LEGACY, "hub");
    hub.call("instances_connect", json!({ "instance_id": "shop" })).await.unwrap();
    let names = hub.tools().await;
    assert!(names.contains(&"open".to_owned()) && !names.iter().any(|name| name == "secret"), "{names:?}");
}
