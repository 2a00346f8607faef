//! A pack in memory: listing makes nothing, the first call makes what all of them share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolyard_tool::{Host, Pack, ToolError, ToolSet, tool};

use super::support::{Client, text};

#[derive(Deserialize, JsonSchema)]
struct Config {
    /// Who is greeted.
    name: String,
}

struct Greeting(String);

/// Greets.
#[tool]
async fn greet(greeting: &Greeting) -> String {
    greeting.0.clone()
}

#[tokio::test]
async fn its_state_is_made_by_the_first_call() {
    let made = Arc::new(AtomicU32::new(0));
    let counted = made.clone();
    let pack = Pack::with_config("greeter", "Greets", move |config: Config| {
        let (counted, name) = (counted.clone(), config.name);
        let greeting = move || {
            counted.fetch_add(1, Ordering::SeqCst);
            let text = format!("Hello, {name}!");
            async { Ok(Greeting(text)) }
        };
        ToolSet::new("greeter", "1").state_with(greeting).with::<greet>()
    });
    let (set, client) = (pack.tools(json!({ "name": "Ada" })).unwrap(), Client::newest());
    let list = client.request(&set, "tools/list", json!({})).await.unwrap();
    assert_eq!((list["tools"][0]["name"].as_str(), made.load(Ordering::SeqCst)), (Some("greet"), 0));
    for _ in 0..2 {
        assert_eq!(text(&client.call(&set, "greet", json!({})).await), "Hello, Ada!");
    }
    assert_eq!(made.load(Ordering::SeqCst), 1);
}

#[derive(Deserialize, JsonSchema)]
#[schemars(extend("not" = { "required": ["token", "token_file"] }, "minProperties" = 1))]
#[expect(dead_code, reason = "it is only checked")]
struct Access {
    token: Option<String>,
    token_file: Option<String>,
}

#[test]
fn a_condition_between_keys_is_blamed_on_no_key() {
    let pack = Pack::with_config("access", "Has access", |_: Access| ToolSet::new("access", "1"));
    let problems_of = |config| -> Vec<(String, String)> {
        pack.check(&config).into_iter().map(|wrong| (wrong.key.clone(), wrong.to_string())).collect()
    };
    let wrong = |what: &str| vec![(String::new(), what.to_owned())];
    assert_eq!(problems_of(json!({ "token": "a" })), []);
    assert_eq!(
        problems_of(json!({ "token": "a", "token_file": "b" })),
        wrong("`token` and `token_file` must not be given together")
    );
    assert_eq!(problems_of(json!({})), wrong("the whole must have at least 1 field, not 0"));
}

/// Returns where it keeps its data.
#[tool]
async fn place(host: &Host) -> Result<String, ToolError> {
    host.spawn("watch", std::future::pending());
    Ok(host.state()?.display().to_string())
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[tokio::test]
async fn a_pack_uses_its_host_only_when_called_and_its_background_work_ends_with_its_set() {
    let pack = Pack::with_host("keeper", "Keeps things", |_: Nothing, host: Host| {
        ToolSet::new("keeper", "1").state(host).with::<place>()
    });
    let pack = pack.idle(std::time::Duration::from_mins(5));
    assert_eq!(pack.idle_limit(), Some(std::time::Duration::from_mins(5)));
    let folder = tempfile::tempdir().unwrap();
    let host = Host::for_tests(folder.path());
    let (set, client) = (pack.tools_in(json!({}), host.clone()).unwrap(), Client::newest());
    client.request(&set, "tools/list", json!({})).await.unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "listing made something");
    let kept = text(&client.call(&set, "place", json!({})).await).to_owned();
    assert!(std::path::Path::new(&kept).starts_with(folder.path()), "{kept}");
    assert_eq!(host.running(), ["watch"]);
    set.end().await;
    assert_eq!(host.running(), Vec::<String>::new());
    // Served alone, the pack reports what is missing.
    let alone = pack.tools(json!({})).unwrap();
    let missing = client.call(&alone, "place", json!({})).await;
    assert!(text(&missing).contains("offers no folders to the pack `keeper`"), "{missing}");
}
