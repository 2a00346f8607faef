//! A config that changes while apps and instances are connected: who has a name, and when it is free again.

use serde_json::{Value, json};

use crate::instances::Server;
use crate::support::{App, Door, Listener, Yard, eventually};

/// A server of the config that offers the tools of a pack.
fn server(id: &str) -> String {
    let program = env!("CARGO_BIN_EXE_toolyard");
    format!("[upstreams.{id}]\ncommand = \"{program}\"\nargs = [\"pack\", \"dev\"]\n")
}

fn endpoint(id: &str, listener: &Listener) -> String {
    format!("[apps.endpoints]\n{id} = \"{}\"\n", listener.endpoint())
}

#[test]
fn a_name_goes_from_a_server_to_an_app_and_back_with_one_change_of_the_config() {
    let listener = Listener::tcp();
    let yard = Yard::start(&format!("[apps.endpoints]\n\n{}", server("Paint")));
    let mut agent = yard.agent();
    let is_server =
        |tools: &[String]| tools.iter().any(|tool| tool == "Paint__echo" || tool.starts_with("Paint__s"));
    eventually("the server", || is_server(&agent.tools()).then_some(()));
    yard.reconfigure(&endpoint("Paint", &listener));
    let app = App::accept(&listener, "Paint", &["draw"]);
    agent.wait_for_tools(&["Paint__draw"]);
    assert_eq!(agent.upstream("Paint")["kind"], "app");
    yard.reconfigure(&server("Paint"));
    eventually("the server again", || (agent.upstream("Paint")["kind"] == "server").then_some(()));
    eventually("its tools", || is_server(&agent.tools()).then_some(()));
    assert!(app.is_closed());
}

#[test]
fn an_endpoint_whose_name_is_taken_is_dialled_when_the_name_is_free() {
    let (listener, instance) = (Listener::tcp(), Server::start());
    let yard = Yard::start("[apps.endpoints]\n");
    let mut agent = yard.agent();
    let file = yard.write_instance("toolyard", "Paint.json", &instance.file("Paint").to_string());
    eventually("the instance", || (agent.upstream("Paint")["state"] == "active").then_some(()));
    yard.reconfigure(&endpoint("Paint", &listener));
    eventually("the message", || {
        yard.stderr().contains("belongs to an instance that was found").then_some(())
    });
    let (_, report) = yard.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["report"]["discovery"][0]["skipped"][0]["origin"], "apps.endpoints.Paint", "{report}");
    assert_eq!(agent.upstream("Paint")["kind"], "instance");
    std::fs::remove_file(file).unwrap();
    let _app = App::accept(&listener, "Paint", &["draw"]);
    agent.wait_for_tools(&["Paint__draw"]);
    assert_eq!(yard.stderr().matches("not connected: ").count(), 1, "logged once: {}", yard.stderr());
}

#[test]
fn an_instance_whose_name_is_taken_is_found_when_the_name_is_free() {
    let instance = Server::start();
    let yard = Yard::start(&format!("[apps.endpoints]\n\n{}", server("shop")));
    yard.write_instance("toolyard", "shop.json", &instance.file("shop").to_string());
    eventually("the message", || yard.stderr().contains("not used: the id `shop` belongs to").then_some(()));
    let mut agent = yard.agent();
    assert_eq!(agent.upstream("shop")["kind"], "server");
    yard.reconfigure("");
    eventually("the instance", || {
        let shop = agent.upstream("shop");
        (shop["kind"] == "instance" && shop["state"] == "active").then_some(())
    });
}

#[test]
fn only_the_app_itself_takes_over_the_id_of_an_app_that_was_dialled() {
    let listener = Listener::tcp();
    let yard = Yard::start(&endpoint("Paint", &listener));
    let mut dialled = App::accept(&listener, "Paint", &["draw"]);
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Paint__draw"]);
    let come = |session: &str| {
        let mut app = App::connect(&yard, Door::Tcp);
        let tools = json!([crate::support::tool("steal")]);
        app.send(&json!({ "type": "register", "appName": "Paint", "sessionId": session, "tools": tools }));
        let answer = app.next();
        (app, answer)
    };
    for session in ["", "guessed"] {
        let (_app, answer) = come(session);
        assert_eq!(answer["type"], "refused", "{answer}");
    }
    let id = agent.send_call("Paint__draw", &json!({}));
    let invocation = dialled.invocation();
    dialled.answer(&invocation, &json!("still here"));
    assert_eq!(agent.answer(id)["result"]["content"][0]["text"], "still here");
    let (_app, answer) = come(&dialled.session.clone());
    assert_eq!(answer["type"], "registered", "{answer}");
    agent.wait_for_tools(&["Paint__steal"]);
    assert!(dialled.is_closed());
}
