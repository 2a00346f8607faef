//! Local links need no network: they work in a namespace with nothing but loopback.

use serde_json::json;

use crate::health::QUICK;
use crate::support::{Agent, App, Door, Mortal, Yard, eventually, tool};

#[test]
#[ignore = "needs a network namespace; `cargo xtask test` runs it where it can"]
fn without_any_network_but_loopback_apps_and_instances_stay_active() {
    let program = Mortal::program().display();
    let beside = format!(
        "mkdir -p toolyard/instances; setpriv --pdeathsig KILL \"{program}\" instance toolyard/instances shop"
    );
    let yard = Yard::start_offline(QUICK, &beside);
    let mut app = App::connect(&yard, Door::Unix);
    app.send(&json!({ "type": "register", "appName": "App", "tools": [tool("go")] }));
    assert_eq!(app.next()["type"], "registered");
    let mut agent = Agent::local(&yard.socket());
    let about = eventually("five answers", || {
        let about = agent.upstream("shop");
        (about["health"]["answers"].as_u64()? >= 5).then_some(about)
    });
    assert_eq!((&about["state"], &about["health"]["missed"]), (&json!("active"), &json!(0)), "{about}");
    assert_eq!(agent.upstream("App")["state"], "active");
    let answer = agent.call("shop__who", &json!({ "word": "alone" }));
    assert!(answer["content"][0]["text"].as_str().unwrap().ends_with("alone"), "{answer}");
    let listed = agent.call("yard__instances_list", &json!({}))["structuredContent"].take();
    let steps = &listed["instances"][0]["state_stats"]["transitions"];
    assert!(steps.get("active->retrying").is_none(), "{steps}");
}
