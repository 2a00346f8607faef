//! Instances: how they are described in every state, and sessions of the hub view while the set of them changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use toolyard_core::discovery::Instance;
use toolyard_core::upstream::Upstream;
use toolyard_core::{Gateway, ProfilePlan, UpstreamKind, UpstreamPlan};
use toolyard_model::{AnswerBody, LinkEvent};
use toolyard_proto::{Method, Notification, Raw, Revision};

use crate::support::{Attempt, Behaviour, Client, Double, gateway, plan, start};

const NEW: Revision = Revision::NEWEST;
const OLD: Revision = Revision::NEWEST_LEGACY;

/// As a file that was found makes one join.
fn join(gateway: &Gateway, id: &str, double: &Arc<Double>) -> Arc<Upstream> {
    let found = plan(&[(id, double)]).upstreams.remove(0);
    let upstream = gateway.join(UpstreamPlan { kind: UpstreamKind::Instance, ..found }).unwrap();
    call_it(gateway, &upstream, "shop");
    upstream
}

/// Gives it a name, as its file does.
fn call_it(gateway: &Gateway, upstream: &Upstream, name: &str) {
    let id = upstream.id().as_str();
    let file = json!({ "id": id, "name": name, "directory": "/srv/shop", "port": 7777, "pid": 42 });
    let instance = Instance::parse(file.to_string().as_bytes(), SystemTime::now()).unwrap();
    gateway.describe(upstream, instance.about());
}

/// The output schema of a tool.
async fn schema(client: &Client, tool: &str) -> jsonschema::Validator {
    let listed = client.ask("tools/list", json!({})).await.unwrap();
    let tool = listed["tools"].as_array().unwrap().iter().find(|one| one["name"] == tool).unwrap().clone();
    jsonschema::validator_for(&tool["outputSchema"]).unwrap()
}

/// The state `discovered` is over before a client could ask; a test beside the code covers it.
#[tokio::test(start_paused = true)]
async fn an_instance_is_described_in_the_same_form_in_each_of_its_states() {
    use Attempt::{Fails, Hangs};
    let gateway = gateway(&[]);
    let client = Client::new(&gateway, NEW, "");
    let (list, health) =
        (schema(&client, "yard__instances_list").await, schema(&client, "yard__instances_health").await);
    let fails = |count| (0..count).map(|_| Fails).collect::<Vec<_>>();
    let cases = [
        ("connecting", vec![Hangs], 1_000),
        ("active", Vec::new(), 1_000),
        ("retrying", fails(1), 100),
        ("dead", fails(5), 30_000),
    ];
    for (state, attempts, wait) in cases {
        let double = Double::new(NEW, &["t"]);
        double.attempts.lock().extend(attempts);
        let upstream = join(&gateway, "shop", &double);
        tokio::time::sleep(Duration::from_millis(wait)).await;
        let answer = client.call("yard__instances_list", json!({})).await.unwrap();
        let instance = &answer["structuredContent"]["instances"][0];
        assert_eq!(instance["state"], state, "{answer}");
        let text: Value = serde_json::from_str(answer["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, answer["structuredContent"]["instances"], "the text is the bare array");
        let wrong: Vec<String> =
            list.iter_errors(&answer["structuredContent"]).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{state}: {wrong:?}");
        assert_eq!(instance["connected"], state == "active", "{instance}");
        assert_eq!(instance["connected_at"].is_string(), state == "active", "{instance}");
        assert_eq!(instance["reason"].is_string(), ["retrying", "dead"].contains(&state), "{instance}");

        let answer = client.call("yard__instances_health", json!({ "instance_id": "shop" })).await.unwrap();
        let report = &answer["structuredContent"];
        let wrong: Vec<String> = health.iter_errors(report).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{state}: {wrong:?}");
        assert_eq!(
            (&report["instances"][0]["state"], &report["total_instances"]),
            (&json!(state), &json!(1))
        );
        assert_eq!(report["instances"][0]["healthy"], state == "active", "{report}");
        let step = report["instances"][0]["history"].as_array().unwrap().last().unwrap();
        assert_eq!(step["to"], state, "{report}");
        gateway.remove(&upstream);
    }
}

#[tokio::test(start_paused = true)]
async fn a_field_that_is_missing_or_wrong_does_not_fit_the_form() {
    let gateway = gateway(&[]);
    let client = Client::new(&gateway, NEW, "");
    let list = schema(&client, "yard__instances_list").await;
    join(&gateway, "shop", &Double::new(NEW, &["t"]));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let listed = client.call("yard__instances_list", json!({})).await.unwrap()["structuredContent"].take();
    assert!(list.is_valid(&listed));
    for key in listed["instances"][0].as_object().unwrap().keys() {
        let mut without = listed.clone();
        without["instances"][0].as_object_mut().unwrap().remove(key);
        assert!(!list.is_valid(&without), "{key}");
        let mut wrong = listed.clone();
        wrong["instances"][0][key] = json!([]);
        assert!(!list.is_valid(&wrong), "{key}");
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

/// Its file was read long ago, and the instance announces nothing.
#[tokio::test(start_paused = true)]
async fn a_tool_that_an_instance_has_got_since_is_listed_when_a_session_connects_to_it() {
    let gateway = gateway(&[]);
    let double = Double::new(NEW, &["a"]);
    join(&gateway, "shop", &double);
    tokio::time::sleep(Duration::from_secs(1)).await;
    double.tools.lock().push(json!({ "name": "b", "inputSchema": { "type": "object" } }));
    let hub = Client::new(&gateway, OLD, "hub");
    let connected = hub.call("instances_connect", json!({ "instance_id": "shop" })).await.unwrap();
    assert_eq!(connected["structuredContent"]["tools"], json!(["a", "b"]), "{connected}");
    assert!(hub.tools().await.contains(&"b".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn connecting_and_disconnecting_are_answered_with_one_sentence() {
    let gateway = gateway(&[]);
    join(&gateway, "shop", &Double::new(OLD, &["t"]));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let hub = Client::new(&gateway, OLD, "hub");
    let connected = hub.call("instances_connect", json!({ "instance_id": "shop" })).await.unwrap();
    assert_eq!(text(&connected), "Connected to instance shop");
    for _ in 0..2 {
        let disconnected = hub.call("instances_disconnect", json!({})).await.unwrap();
        assert_eq!(text(&disconnected), "Disconnected from instance");
    }
    let failed = hub.call("instances_connect", json!({ "instance_id": "barn" })).await.unwrap();
    assert!(text(&failed).starts_with("Failed to connect: instance not found: barn"), "{failed}");
    assert_eq!(failed["isError"], true);
    let yard = Client::new(&gateway, NEW, "");
    let connected = yard.call("yard__instances_connect", json!({ "instance_id": "shop" })).await.unwrap();
    let handle = connected["structuredContent"]["handle"].as_str().unwrap();
    assert_eq!(text(&connected), format!("Connected to instance shop\nhandle: {handle}"));
}

#[tokio::test(start_paused = true)]
async fn legal_names_stay_and_others_are_mapped_and_both_can_be_called() {
    let (gateway, double) = (gateway(&[]), Double::new(OLD, &["scripts_run", "scripts/run", "läuft"]));
    join(&gateway, "shop", &double);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let hub = Client::new(&gateway, OLD, "hub");
    let connected = hub.call("instances_connect", json!({ "instance_id": "shop" })).await.unwrap();
    let listed = hub.tools().await;
    let is_legal = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    assert!(listed.iter().all(|name| is_legal(name)), "{listed:?}");
    assert!(listed.contains(&"scripts_run".to_owned()));
    let tools: Vec<String> = serde_json::from_value(connected["structuredContent"]["tools"].clone()).unwrap();
    assert!(tools.len() == 3 && tools.iter().all(|name| listed.contains(name)), "{tools:?} {listed:?}");
    let mapped = tools.iter().find(|name| name.starts_with("scripts_run_")).unwrap();
    for (name, own) in [(mapped.as_str(), "scripts/run"), ("scripts/run", "scripts/run"), ("läuft", "läuft")]
    {
        hub.call(name, json!({})).await.unwrap();
        let seen = double.seen.lock();
        let (_, params) = seen.iter().rfind(|(method, _)| *method == Method::TOOLS_CALL).unwrap();
        assert_eq!(params.member("name").unwrap().as_string().unwrap(), own, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn results_of_instances_that_are_not_tool_results_are_wrapped() {
    for client in [OLD, NEW] {
        let gateway = gateway(&[]);
        let plain = json!({ "scripts": { "dev": "vite" } });
        let behaviour: Behaviour = Arc::new(|request, _| {
            let name = request.params.member("name").unwrap().as_string().unwrap();
            let result = match name.as_str() {
                "object" => json!({ "scripts": { "dev": "vite" } }),
                "array" => json!([{ "id": 1 }]),
                _ => json!({ "content": [], "isError": true }),
            };
            Box::pin(async move { Ok(AnswerBody::Whole(result.into(), OLD)) })
        });
        join(&gateway, "shop", &Double::with(OLD, &["object", "array", "own"], behaviour));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let client = Client::new(&gateway, client, "shop");
        let object = client.call("object", json!({})).await.unwrap();
        assert_eq!((text(&object), &object["structuredContent"]), (plain.to_string().as_str(), &plain));
        let array = client.call("array", json!({})).await.unwrap();
        assert_eq!((text(&array), &array["structuredContent"]), (r#"[{"id":1}]"#, &Value::Null));
        let own = client.call("own", json!({})).await.unwrap();
        assert_eq!((&own["content"], &own["isError"]), (&json!([]), &json!(true)));
    }
}

/// A session that is notified of changed lists.
async fn listening(gateway: &Gateway, view: &str) -> Client {
    let client = Client::new(gateway, OLD, view);
    let everything =
        json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true });
    tokio::spawn(client.send("subscriptions/listen", json!({ "notifications": everything })));
    tokio::time::sleep(Duration::from_millis(1)).await;
    client.inbox.received.lock().clear();
    client
}

#[tokio::test(start_paused = true)]
async fn clients_that_saw_an_instance_are_notified_when_it_is_forgotten() {
    let gateway = gateway(&[]);
    let upstream = join(&gateway, "shop", &Double::new(NEW, &["t"]));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (whole, hub, idle) =
        (listening(&gateway, "").await, listening(&gateway, "hub").await, listening(&gateway, "hub").await);
    hub.call("instances_connect", json!({ "instance_id": "shop" })).await.unwrap();
    assert_eq!(hub.inbox.methods(), ["notifications/tools/list_changed"], "only what differs");
    gateway.remove(&upstream);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(whole.inbox.methods(), ["notifications/tools/list_changed"]);
    assert_eq!(hub.inbox.methods().len(), 2);
    assert!(idle.inbox.methods().is_empty());
    let refused = hub.call("t", json!({})).await.unwrap();
    assert_eq!(refused["isError"], true, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn another_name_of_an_instance_is_announced_only_to_the_profiles_that_name_it() {
    let some = |name: &str| ProfilePlan {
        name: name.into(),
        instances: Some(vec![name.into()]),
        ..ProfilePlan::default()
    };
    let gateway = start(&[], |plan| plan.profiles = ["shop", "stall", "other"].map(some).to_vec());
    let upstream = join(&gateway, "market", &Double::new(NEW, &["t"]));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut clients = Vec::new();
    for view in ["p/shop", "p/stall", "p/other", "", "market", "hub"] {
        clients.push(listening(&gateway, view).await);
    }
    call_it(&gateway, &upstream, "stall");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let received: Vec<usize> = clients.iter().map(|client| client.inbox.methods().len()).collect();
    assert_eq!(received, [1, 1, 0, 0, 0, 0]);
    assert_eq!(clients[0].tools().await, Vec::<String>::new());
    assert_eq!(clients[1].tools().await, ["market__t"]);
    call_it(&gateway, &upstream, "stall");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(clients[1].inbox.methods().len(), 1, "nothing is new");
}

#[tokio::test(start_paused = true)]
async fn a_dead_instance_is_tried_when_a_client_connects() {
    let (gateway, double) = (gateway(&[]), Double::new(NEW, &["t"]));
    double.attempts.lock().extend((0..5).map(|_| Attempt::Fails));
    let upstream = join(&gateway, "shop", &double);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(upstream.state().phase.as_str(), "dead");
    let hub = listening(&gateway, "hub").await;
    let began = tokio::time::Instant::now();
    hub.call("instances_connect", json!({ "instance_id": "shop" })).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(hub.tools().await.contains(&"t".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn connecting_lists_only_tools_that_can_be_called() {
    let (gateway, double) = (gateway(&[]), Double::new(NEW, &["t"]));
    double.tools.lock().push(json!({ "name": "strange", "inputSchema": 7 }));
    join(&gateway, "shop", &double);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let hub = listening(&gateway, "hub").await;
    let connected = hub.call("instances_connect", json!({ "instance_id": "shop" })).await.unwrap();
    assert_eq!(connected["structuredContent"]["tools"], json!(["t"]), "{connected}");
    assert!(!hub.tools().await.contains(&"strange".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_level_chosen_before_a_restart_reaches_the_instance_when_it_is_back() {
    let (gateway, double) = (gateway(&[]), Double::new(OLD, &["t"]));
    double.levels.store(true, Ordering::SeqCst);
    let hub = listening(&gateway, "hub").await;
    hub.set_level("warning");
    hub.restore_session("shop");
    tokio::time::sleep(Duration::from_mins(1)).await;
    join(&gateway, "shop", &double);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let seen = double.seen.lock();
    let level = seen.iter().find(|(method, _)| method.as_str() == "logging/setLevel");
    assert_eq!(level.map(|(_, params)| params.as_str()), Some(r#"{"level":"warning"}"#), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_level_chosen_before_connecting_reaches_the_instance() {
    let (gateway, double) = (gateway(&[]), Double::new(OLD, &["t"]));
    double.levels.store(true, Ordering::SeqCst);
    join(&gateway, "shop", &double);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let hub = listening(&gateway, "hub").await;
    hub.set_level("warning");
    hub.call("instances_connect", json!({ "instance_id": "shop" })).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let seen = double.seen.lock();
    let level = seen.iter().find(|(method, _)| method.as_str() == "logging/setLevel");
    assert_eq!(level.map(|(_, params)| params.as_str()), Some(r#"{"level":"warning"}"#), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn subscriptions_at_an_instance_are_restored_when_it_reconnects() {
    // Also before the lists that contain it are made again.
    for (view, pause) in [("hub", 1_000), ("hub", 1), ("shop", 1_000), ("shop", 1), ("", 1_000), ("", 1)] {
        check_watch_after_return(view, Duration::from_millis(pause)).await;
    }
}

/// It is away for this long.
async fn check_watch_after_return(view: &str, pause: Duration) {
    let other = Double::new(OLD, &[]);
    let gateway = gateway(&[("other", &other)]);
    let shop = || {
        let double = Double::new(OLD, &["t"]);
        double.resources.lock().push(json!({ "uri": "test://r", "name": "r" }));
        double
    };
    let upstream = join(&gateway, "shop", &shop());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let client = listening(&gateway, view).await;
    if view == "hub" {
        client.call("instances_connect", json!({ "instance_id": "shop" })).await.unwrap();
    }
    let uri = if view.is_empty() { "yard+test://shop/r" } else { "test://r" };
    let watch = json!({ "notifications": { "resourceSubscriptions": [uri] } });
    tokio::spawn(client.send("subscriptions/listen", watch));
    tokio::time::sleep(Duration::from_secs(1)).await;
    gateway.remove(&upstream);
    other.tools.lock().push(json!({ "name": "new", "inputSchema": { "type": "object" } }));
    other.announce(Method::TOOLS_CHANGED);
    tokio::time::sleep(pause).await;
    client.inbox.received.lock().clear();
    let again = shop();
    join(&gateway, "shop", &again);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let words = client.inbox.methods();
    let updates = words.iter().filter(|word| *word == "notifications/resources/updated").count();
    assert_eq!(updates, 1, "{view} {pause:?}: updates before it was watched were missed: {words:?}");
    let seen: Vec<String> = again.seen.lock().iter().map(|(method, _)| method.as_str().to_owned()).collect();
    assert!(seen.contains(&"resources/subscribe".to_owned()), "{seen:?}");
    client.inbox.received.lock().clear();
    again.say(LinkEvent::Notification(
        None,
        Notification::new(Method::RESOURCE_UPDATED, Raw::from(json!({ "uri": "test://r" }))),
    ));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(client.inbox.methods(), ["notifications/resources/updated"]);
}

#[tokio::test(start_paused = true)]
async fn resources_of_a_disconnected_instance_are_not_resubscribed_on_restore() {
    let gateway = gateway(&[]);
    let shop = |fails: usize| {
        let double = Double::new(OLD, &["t"]);
        double.resources.lock().push(json!({ "uri": "test://r", "name": "r" }));
        double.attempts.lock().extend((0..fails).map(|_| Attempt::Fails));
        double
    };
    let upstream = join(&gateway, "shop", &shop(0));
    join(&gateway, "barn", &Double::new(OLD, &["t"]));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let client = listening(&gateway, "hub").await;
    client.call("instances_connect", json!({ "instance_id": "shop" })).await.unwrap();
    let watch = json!({ "toolsListChanged": true, "resourceSubscriptions": ["test://r"] });
    tokio::spawn(client.send("subscriptions/listen", json!({ "notifications": watch })));
    tokio::time::sleep(Duration::from_secs(1)).await;
    gateway.remove(&upstream);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let again = shop(3);
    join(&gateway, "shop", &again);
    tokio::time::sleep(Duration::from_millis(100)).await;
    client.call("instances_connect", json!({ "instance_id": "barn" })).await.unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    let seen = again.seen.lock();
    let count = |name: &str| seen.iter().filter(|(method, _)| method.as_str() == name).count();
    assert!(again.connects.load(Ordering::SeqCst) > 3, "it is back");
    assert_eq!(count("resources/subscribe"), count("resources/unsubscribe"), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn to_connect_tries_an_instance_at_once_that_waits_for_its_next_attempt_or_was_given_up() {
    for (fails, phase, wait) in [(4, "retrying", 10_000), (5, "dead", 20_000)] {
        let gateway = gateway(&[]);
        let double = Double::new(NEW, &["t"]);
        double.attempts.lock().extend((0..fails).map(|_| Attempt::Fails));
        let upstream = join(&gateway, "shop", &double);
        tokio::time::sleep(Duration::from_millis(wait)).await;
        assert_eq!((upstream.state().phase.as_str(), double.connects.load(Ordering::SeqCst)), (phase, fails));
        let began = tokio::time::Instant::now();
        let client = Client::new(&gateway, OLD, "hub");
        client.call("instances_connect", json!({ "instance_id": "shop" })).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(1), "{phase}: {:?}", began.elapsed());
        assert_eq!(client.call("t", json!({})).await.unwrap()["isError"], Value::Null, "{phase}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_profile_names_apps_by_id_and_instances_by_id_or_name_whenever_they_come() {
    let some = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let double = || Double::new(NEW, &["t", "u"]);
    let gateway = start(&[("files", &double())], |plan| {
        plan.profiles = vec![
            ProfilePlan { name: "all".into(), ..ProfilePlan::default() },
            ProfilePlan { name: "files".into(), upstreams: some(&["files"]), ..ProfilePlan::default() },
            ProfilePlan { name: "app".into(), apps: some(&["watchtower"]), ..ProfilePlan::default() },
            ProfilePlan {
                name: "half".into(),
                apps: some(&["watchtower"]),
                deny: vec!["watchtower:t".into()],
                ..ProfilePlan::default()
            },
            ProfilePlan { name: "id".into(), instances: some(&["shop-01"]), ..ProfilePlan::default() },
            ProfilePlan {
                name: "name".into(),
                upstreams: some(&["files"]),
                instances: some(&["shop"]),
                deny: vec!["shop:t".into()],
                ..ProfilePlan::default()
            },
        ];
    });
    let shown = async |profile: &str| Client::new(&gateway, NEW, &format!("p/{profile}")).tools().await;
    assert_eq!(shown("app").await, Vec::<String>::new());
    let app = plan(&[("WatchTower", &double())]).upstreams.remove(0);
    gateway.join(UpstreamPlan { kind: UpstreamKind::App, ..app }).unwrap();
    // Its file states that its name is `shop`.
    join(&gateway, "shop-01", &double());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (files, app, shop) =
        (["files__t", "files__u"], ["WatchTower__t", "WatchTower__u"], ["shop-01__t", "shop-01__u"]);
    assert_eq!(shown("all").await, [files, app, shop].concat());
    assert_eq!(shown("files").await, files);
    assert_eq!(shown("app").await, app);
    assert_eq!(shown("half").await, ["WatchTower__u"]);
    assert_eq!(shown("id").await, shop);
    assert_eq!(shown("name").await, ["files__t", "files__u", "shop-01__u"]);
}
