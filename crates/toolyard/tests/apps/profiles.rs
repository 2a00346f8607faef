//! Profiles that name apps and instances.

use serde_json::json;

use crate::hub::instance::Instance;
use crate::support::{Agent, App, Door, Yard};

const PROFILES: &str = r#"
[profiles.desk]
apps = ["watchtower"]
deny = ["watchtower:Quit"]

[profiles.shop]
instances = ["shop"]

"#;

#[test]
fn a_profile_follows_an_instance_that_is_renamed() {
    let profiles = "[profiles.shop]\ninstances = [\"shop\"]\n\n[profiles.stall]\ninstances = [\"stall\"]\n\n";
    let yard = Yard::start_with("", profiles, &[]);
    let (mut shop, mut stall) = (Agent::in_view(&yard, "p/shop"), Agent::in_view(&yard, "p/stall"));
    let has_it = |tools: &[String]| tools.contains(&"market__test_echo".to_owned());
    let instance = Instance::start_as(&yard, "market", "shop");
    shop.wait_for_news(has_it);
    instance.rename(&yard, "stall");
    stall.wait_for_news(has_it);
    shop.wait_for_news(<[String]>::is_empty);
    let refused = shop.ask("tools/call", json!({ "name": "market__test_echo", "arguments": {} }));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let echoed = stall.call("market__test_echo", &json!({ "text": "here" }));
    assert_eq!(echoed["content"][0]["text"], "here");
}

#[test]
fn a_profile_shows_an_app_or_an_instance_when_it_is_there() {
    let yard = Yard::start_with("", PROFILES, &[]);
    let (mut desk, mut shop) = (Agent::in_view(&yard, "p/desk"), Agent::in_view(&yard, "p/shop"));
    assert_eq!((desk.tools(), shop.tools()), (Vec::new(), Vec::new()));
    let _app = App::register(&yard, Door::Tcp, "WatchTower", &["Click", "Quit"]).echo();
    desk.wait_for_news(|tools| tools == ["WatchTower__Click"]);
    assert!(desk.call("WatchTower__Click", &json!({ "x": 1 }))["isError"].is_null());
    let refused = desk.ask("tools/call", json!({ "name": "WatchTower__Quit", "arguments": {} }));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    // The id of an instance may change with each start; its name stays.
    let _shop = Instance::start_as(&yard, "shop-0a1b", "shop");
    shop.wait_for_news(|tools| tools.contains(&"shop-0a1b__test_echo".to_owned()));
    let echoed = shop.call("shop-0a1b__test_echo", &json!({ "text": "here" }));
    assert_eq!(echoed["content"][0]["text"], "here");
    assert_eq!(desk.tools(), ["WatchTower__Click"]);
    let explanation = yard.run(&["explain", "shop-0a1b:test_echo"]).1;
    assert!(explanation.contains("at /mcp/p/shop, too"), "{explanation}");
    let explanation = yard.run(&["explain", "WatchTower:Click"]).1;
    assert!(explanation.contains("at /mcp/p/desk, too"), "{explanation}");
    assert!(explanation.contains("not at /mcp/p/shop: `apps` does not name WatchTower"), "{explanation}");
    let explanation = yard.run(&["explain", "WatchTower:Quit"]).1;
    assert!(explanation.contains("not at /mcp/p/desk: `deny` matches it"), "{explanation}");
}
