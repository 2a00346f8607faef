//! `.mcpproxy.json`, the config of the proxy that Toolyard replaces: each of its keys has an effect.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use toolyard_proto::token::Secret;

use crate::support::{App, Door, Listener, Way, Yard, eventually, tool};

/// A gateway with these keys, on a free port, without discovery.
fn yard(keys: &Value, way: Way) -> Yard {
    let mut proxy = json!({ "BindAddress": "localhost:0", "DiscoveryScanInterval": "01:00:00" });
    for (key, value) in keys.as_object().unwrap() {
        proxy[key] = value.clone();
    }
    Yard::of_proxy(&json!({ "Proxy": proxy }), way)
}

#[test]
fn bind_address_sets_where_apps_register_named_by_flag_or_variable() {
    for way in [Way::Flag, Way::Variable] {
        let yard = yard(&json!({ "BindAddress": "[::1]:0" }), way);
        assert!(yard.apps_tcp().starts_with("[::1]:"), "{}", yard.apps_tcp());
        let _app = App::register(&yard, Door::Tcp, "App", &["go"]);
        yard.local_agent().wait_for_tools(&["App__go"]);
    }
}

#[test]
fn max_connections_is_how_many_apps_there_can_be() {
    let yard = yard(&json!({ "MaxConnections": 1 }), Way::Flag);
    let _app = App::register(&yard, Door::Tcp, "App", &["go"]);
    let mut line = String::new();
    BufReader::new(TcpStream::connect(yard.apps_tcp()).unwrap()).read_line(&mut line).unwrap();
    let refused: Value = serde_json::from_str(&line).unwrap();
    assert!(refused["reason"].as_str().unwrap().contains("1 apps are connected"), "{refused}");
}

#[test]
fn apps_are_dialled_and_their_descriptions_published() {
    let listener = Listener::tcp();
    let apps = json!([
        { "Name": "WatchTower", "Endpoint": listener.endpoint(), "Description": "Watches towers" },
        { "Name": "ComesByItself" },
    ]);
    let yard = yard(&json!({ "Apps": apps }), Way::Flag);
    let _dialled = App::accept(&listener, "WatchTower", &["WatchTower:look"]);
    let _came = App::register(&yard, Door::Tcp, "ComesByItself", &["go"]);
    let mut agent = yard.local_agent();
    agent.wait_for_tools(&["ComesByItself__go", "WatchTower__look"]);
    let instructions = agent.ask("server/discover", json!({}))["result"]["instructions"].to_string();
    assert!(instructions.contains("Watches towers"), "{instructions}");
}

#[test]
fn tool_timeout_is_how_long_a_call_may_take() {
    let yard = yard(&json!({ "ToolTimeout": "00:00:01" }), Way::Flag);
    let app = App::register(&yard, Door::Tcp, "App", &["hang"]);
    let mut agent = yard.local_agent();
    agent.wait_for_tools(&["App__hang"]);
    let began = Instant::now();
    let text = agent.failure("App__hang");
    assert!(text.contains("1 s"), "{text}");
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    drop(app);
}

#[test]
fn connect_timeout_is_how_long_an_app_may_take_to_register() {
    let yard = yard(&json!({ "ConnectTimeout": "00:00:01" }), Way::Flag);
    let began = Instant::now();
    let silent = App::connect(&yard, Door::Tcp);
    let refused = silent.next();
    assert!(refused["reason"].as_str().unwrap().contains("within 1 s"), "{refused}");
    // The usual time is ten seconds.
    assert!((1..9).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[test]
fn with_a_shared_secret_tokens_are_asked_for_and_expire() {
    let secret = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let mint = |age: u64| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        Secret::parse(secret).unwrap().mint("App", now - age)
    };
    let register = |yard: &Yard, token: Option<String>| {
        let mut app = App::connect(yard, Door::Tcp);
        app.send(&json!({ "type": "register", "appName": "App", "authToken": token, "tools": [tool("go")] }));
        app.next()["type"].as_str().unwrap().to_owned()
    };
    let usual = yard(&json!({ "SharedSecret": secret }), Way::Flag);
    assert_eq!(register(&usual, None), "refused");
    assert_eq!(register(&usual, Some(mint(600))), "registered");
    let brief = yard(&json!({ "SharedSecret": secret, "TokenExpiry": "00:01:00" }), Way::Flag);
    assert_eq!(register(&brief, Some(mint(600))), "refused");
    assert_eq!(register(&brief, Some(mint(0))), "registered");
}

#[test]
fn catalog_debounce_is_how_long_changes_are_gathered() {
    let yard = yard(&json!({ "CatalogDebounce": "00:00:02" }), Way::Flag);
    let mut app = App::register(&yard, Door::Tcp, "App", &["first"]);
    let mut agent = yard.local_agent();
    agent.wait_for_tools(&["App__first"]);
    let began = Instant::now();
    app.send(&json!({ "type": "toolsChanged", "tools": [tool("second")] }));
    agent.wait_for_tools(&["App__second"]);
    // The last change was noticed a moment ago, so nearly the whole interval is still to wait.
    assert!(began.elapsed() > Duration::from_secs(1), "{:?}", began.elapsed());
}

#[test]
fn log_level_sets_how_much_is_logged() {
    let here = |level: &str| json!({ "Proxy": { "LogLevel": level } });
    let there = |level: &str| json!({ "Proxy": {}, "Logging": { "LogLevel": { "Default": level } } });
    for (mut file, is_logged) in [
        (here("Information"), true),
        (here("Error"), false),
        (there("Information"), true),
        (there("Error"), false),
        (there("None"), false),
    ] {
        file["Proxy"]["BindAddress"] = json!("localhost:0");
        file["Proxy"]["DiscoveryScanInterval"] = json!("01:00:00");
        let yard = Yard::of_proxy(&file, Way::Flag);
        let _app = App::register(&yard, Door::Tcp, "App", &["go"]);
        yard.local_agent().wait_for_tools(&["App__go"]);
        if is_logged {
            eventually("a line of the log", || yard.stderr().contains("registered").then_some(()));
        }
        assert_eq!(yard.stderr().contains("registered"), is_logged, "{file}: {}", yard.stderr());
    }
}

#[test]
fn both_names_of_the_section_are_accepted() {
    let file = json!({ "McpProxy": { "BindAddress": "localhost:0", "MaxConnections": 1,
        "DiscoveryScanInterval": "01:00:00" } });
    let yard = Yard::of_proxy(&file, Way::Flag);
    let _app = App::register(&yard, Door::Tcp, "App", &["go"]);
    let mut line = String::new();
    BufReader::new(TcpStream::connect(yard.apps_tcp()).unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("1 apps are connected"), "{line}");
}
