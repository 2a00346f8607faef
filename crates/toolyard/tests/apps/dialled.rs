//! Apps that listen and are dialled: over every kind of endpoint, again after every loss, and under one name
//! with the app that registers by itself.

use std::path::PathBuf;

use serde_json::json;

use crate::instances::Server;
use crate::support::{App, Door, Listener, Yard, eventually};

fn endpoints(of: &[(&str, &str)]) -> String {
    let lines = of.iter().map(|(id, url)| format!("{id} = \"{url}\"\n"));
    format!("[apps.endpoints]\n{}", lines.collect::<String>())
}

/// A call is answered by the app.
fn is_called(yard: &Yard, app: &mut App, data: &str) {
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Paint__draw"]);
    let id = agent.send_call("Paint__draw", &json!({ "x": 1 }));
    let invocation = app.invocation();
    assert_eq!((&invocation["tool"], &invocation["parameters"]), (&json!("draw"), &json!({ "x": 1 })));
    app.answer(&invocation, &json!(data));
    assert_eq!(agent.answer(id)["result"]["content"][0]["text"], data);
}

fn check(listener: &Listener, endpoint: &str) {
    let yard = Yard::start(&endpoints(&[("Paint", endpoint)]));
    let mut app = App::accept(listener, "Paint", &["draw"]);
    is_called(&yard, &mut app, "first");
    let mut agent = yard.agent();
    let id = agent.send_call("Paint__draw", &json!({}));
    app.invocation();
    drop(app);
    let lost = agent.answer(id);
    assert!(
        lost["result"]["content"][0]["text"].as_str().unwrap().contains("app `Paint` was lost"),
        "{lost}"
    );
    let mut app = App::accept(listener, "Paint", &["draw"]);
    is_called(&yard, &mut app, "second");
    // An app that unregisters is removed at once, and connected again when it is back.
    app.send(&json!({ "type": "unregister" }));
    agent.wait_for_tools(&[]);
    let mut app = App::accept(listener, "Paint", &["draw"]);
    is_called(&yard, &mut app, "third");
}

#[test]
fn an_app_that_listens_on_tcp_is_dialled_and_dialled_again() {
    let listener = Listener::tcp();
    check(&listener, &listener.endpoint());
}

#[test]
fn an_app_that_listens_on_a_unix_socket_is_dialled_and_dialled_again() {
    let folder = tempfile::tempdir().unwrap();
    let listener = Listener::unix(folder.path().join("paint.sock"));
    check(&listener, &listener.endpoint());
}

#[test]
fn a_pipe_is_the_socket_that_other_programs_make_of_it() {
    let name = format!("Toolyard.Test.{}", std::process::id());
    let listener = Listener::unix(PathBuf::from(format!("/tmp/CoreFxPipe_{name}")));
    check(&listener, &format!("pipe://{name}"));
}

#[test]
fn an_endpoint_that_does_not_register_is_probed_for_mcp() {
    let (lines, http) = (Server::over("tcp"), Server::over("http"));
    let yard = Yard::start(&endpoints(&[
        ("Lines", &format!("tcp://127.0.0.1:{}", lines.port)),
        ("Web", &format!("http://localhost:{}", http.port)),
    ]));
    let mut agent = yard.agent();
    for id in ["Lines", "Web"] {
        eventually(id, || {
            agent.tools().iter().any(|tool| tool.starts_with(&format!("{id}__"))).then_some(())
        });
        assert_eq!(agent.upstream(id)["kind"], "app");
    }
}

#[test]
fn an_app_that_registers_is_the_same_as_the_endpoint_of_the_config() {
    let silent = Listener::tcp();
    let yard = Yard::start(&endpoints(&[("Paint", &silent.endpoint())]));
    let mut app = App::register(&yard, Door::Tcp, "Paint", &["draw"]);
    is_called(&yard, &mut app, "by itself");
    // It keeps the name while it is connected; afterwards the endpoint is dialled.
    drop(app);
    let accepted = std::thread::spawn(move || {
        // Connections from before the app registered may still be in the queue; the gateway has closed them.
        loop {
            let app = std::panic::catch_unwind(|| App::accept(&silent, "Paint", &["draw"]));
            if let Ok(app) = app {
                return app;
            }
        }
    });
    is_called(&yard, &mut accepted.join().unwrap(), "dialled");
}

#[test]
fn endpoints_come_and_go_with_the_config() {
    let (first, second) = (Listener::tcp(), Listener::tcp());
    let yard = Yard::start(&endpoints(&[("First", &first.endpoint())]));
    let _first = App::accept(&first, "First", &["a"]);
    let mut agent = yard.agent();
    agent.wait_for_tools(&["First__a"]);
    yard.reconfigure(&endpoints(&[("Second", &second.endpoint())]));
    let _second = App::accept(&second, "CallsItselfOtherwise", &["CallsItselfOtherwise:b"]);
    agent.wait_for_tools(&["Second__b"]);
}

#[test]
fn an_endpoint_without_a_listener_is_reported_as_such() {
    let gone = Listener::tcp().endpoint();
    let yard = Yard::start(&endpoints(&[("Paint", &gone)]));
    let mut agent = yard.agent();
    let reason = eventually("a reason", || agent.upstream("Paint")["reason"].as_str().map(str::to_owned));
    assert!(reason.contains(&format!("nothing answers at {gone}")), "{reason}");
}
