//! Apps of the SDK that wait to be dialled: the file with their address, and what becomes of it.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use toolyard_app::App;
use toolyard_tool::{ToolSet, tool};

use crate::support::Yard;

/// Greets the user.
#[tool]
async fn hello() -> String {
    "hello".into()
}

/// Bids farewell.
#[tool]
async fn bye() -> String {
    "bye".into()
}

fn folder(yard: &Yard) -> PathBuf {
    yard.folder().join("toolyard/instances")
}

#[test]
fn connections_are_accepted_as_soon_as_the_file_appears() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("Greeter.json");
    for round in 0..100 {
        let (seen, done) = (path.clone(), Arc::new(AtomicBool::new(false)));
        let stop = done.clone();
        // A watcher connects the moment the file is there, so the file must be complete.
        let watcher = std::thread::spawn(move || {
            loop {
                if let Ok(bytes) = std::fs::read(&seen) {
                    let file: Value = serde_json::from_slice(&bytes).expect("a whole file");
                    let address: SocketAddr =
                        file["endpoint"].as_str().unwrap().strip_prefix("tcp://").unwrap().parse().unwrap();
                    assert_eq!(file["port"], address.port());
                    return TcpStream::connect(address).map(drop);
                }
                assert!(!stop.load(Ordering::Relaxed), "the file did not come");
                std::hint::spin_loop();
            }
        });
        let app =
            App::new("Greeter", ToolSet::new("greeter", "1").with::<hello>()).instances_in(folder.path());
        let listening = runtime.block_on(app.listen("127.0.0.1:0")).unwrap();
        watcher.join().unwrap().unwrap_or_else(|error| panic!("round {round}: {error}"));
        done.store(true, Ordering::Relaxed);
        runtime.block_on(listening.end());
        assert!(!path.exists(), "the file is gone with the app");
    }
}

#[test]
fn an_app_that_listens_is_found_and_called_and_its_tools_come_and_go() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let yard = Yard::start("");
    let tools = Arc::new(ToolSet::new("greeter", "1.0.0").with::<hello>());
    let app = App::sharing("Greeter", &tools).instances_in(folder(&yard));
    let listening = runtime.block_on(app.listen("127.0.0.1:0")).unwrap();
    let mut agent = yard.agent();
    agent.wait_for_tools(&["Greeter__hello"]);
    assert_eq!(agent.call("Greeter__hello", &json!({}))["content"][0]["text"], "hello");
    assert_eq!(agent.upstream("Greeter")["kind"], "instance");
    tools.live().add(ToolSet::new("more", "1").with::<bye>()).unwrap();
    agent.wait_for_tools(&["Greeter__bye", "Greeter__hello"]);
    assert_eq!(agent.call("Greeter__bye", &json!({}))["content"][0]["text"], "bye");
    assert!(tools.live().remove_tool("hello"));
    agent.wait_for_tools(&["Greeter__bye"]);
    // A second one of the same name gets an error, and the first is unharmed.
    let second = App::sharing("Greeter", &tools).instances_in(folder(&yard));
    let refused = runtime.block_on(second.listen("127.0.0.1:0")).unwrap_err();
    assert!(refused.to_string().contains("choose another name"), "{refused}");
    assert_eq!(agent.call("Greeter__bye", &json!({}))["content"][0]["text"], "bye");
    runtime.block_on(listening.end());
    agent.wait_for_tools(&[]);
}

#[test]
fn an_app_that_listens_survives_restarts_of_the_gateway() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut yard = Yard::start("");
    let app = App::new("Greeter", ToolSet::new("greeter", "1").with::<hello>()).instances_in(folder(&yard));
    let _listening = runtime.block_on(app.listen("127.0.0.1:0")).unwrap();
    for _ in 0..3 {
        let mut agent = yard.agent();
        agent.wait_for_tools(&["Greeter__hello"]);
        yard.restart();
    }
}

#[test]
fn an_app_does_not_listen_for_other_machines() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let app = App::new("Greeter", ToolSet::new("greeter", "1")).instances_in(folder.path());
    let refused = runtime.block_on(app.listen("0.0.0.0:0")).unwrap_err();
    assert!(refused.to_string().contains("can be reached from other machines"), "{refused}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
