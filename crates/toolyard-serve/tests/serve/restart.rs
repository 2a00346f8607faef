//! A legacy client whose server was restarted behind its back.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use toolyard_serve::Options;

use crate::support::{World, until, world_with};

async fn world_of(folder: &Path) -> World {
    world_with(Options { session_folder: Some(folder.to_owned()), ..Options::default() }).await
}

#[tokio::test]
async fn a_session_is_restored_with_all_that_its_client_set() {
    let folder = tempfile::tempdir().unwrap();
    let first = world_of(folder.path()).await;
    let session = first.initialize("2025-06-18").await;
    first.legacy(&session, "logging/setLevel", json!({ "level": "error" })).await;
    first.endpoint.end(std::time::Duration::from_secs(1)).await;
    let second = world_of(folder.path()).await;
    // At once, so their ids differ.
    let echo = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "echo" } });
    let (echo, json) = (echo.to_string(), "application/json");
    let headers = [("content-type", json), ("mcp-session-id", session.as_str())];
    let (one, two) = tokio::join!(
        second.legacy(&session, "tools/call", json!({ "name": "log" })),
        second.send("POST", "/mcp", &headers, &echo),
    );
    assert_eq!((one.status, two.status, second.endpoint.sessions()), (200, 200, 1));
    let origins = second.double.origins.lock().clone();
    let origin = &origins.last().unwrap();
    assert_eq!(origin.revision.as_str(), "2025-06-18");
    assert_eq!(origin.capabilities.as_str(), r#"{"elicitation":{},"sampling":{},"roots":{}}"#);
    let requests = second.double.requests.lock().clone();
    let levels = requests.iter().filter(|request| request.method.as_str() == "logging/setLevel");
    let levels: Vec<_> = levels.map(|request| request.params.as_str().to_owned()).collect();
    assert_eq!(levels, [r#"{"level":"error"}"#], "the handler gets it, once");
    assert_eq!(one.events().len(), 2, "only what is as grave as it asked for, and the answer: {}", one.body);
}

#[tokio::test]
async fn an_event_from_before_the_restart_does_not_keep_it_from_listening() {
    let folder = tempfile::tempdir().unwrap();
    let session = world_of(folder.path()).await.initialize("2025-11-25").await;
    let world = world_of(folder.path()).await;
    let live = world.open_get(&[("mcp-session-id", &session), ("last-event-id", "s1-7")]).await;
    assert_eq!(live.status, 200);
    assert_eq!(world.endpoint.sessions(), 1);
}

#[tokio::test]
async fn a_session_that_was_ended_stays_ended_and_those_of_other_clients_are_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let first = world_of(folder.path()).await;
    let (kept, ended) = (first.initialize("2025-11-25").await, first.initialize("2025-11-25").await);
    assert_eq!(first.send("DELETE", "/mcp", &[("mcp-session-id", &ended)], "").await.status, 204);
    let second = world_of(folder.path()).await;
    assert_eq!(second.legacy(&ended, "tools/list", json!({})).await.status, 404);
    let other_view = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let headers = [("content-type", "application/json"), ("mcp-session-id", kept.as_str())];
    assert_eq!(second.send("POST", "/mcp/files", &headers, &other_view).await.status, 404);
    assert_eq!(second.legacy(&kept, "tools/list", json!({})).await.status, 200);
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        names.iter().all(|name| !name.to_string_lossy().contains(&kept)),
        "the folder does not tell the ids"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_ended_while_it_is_used_stays_ended() {
    let folder = tempfile::tempdir().unwrap();
    let world = world_of(folder.path()).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for _ in 0..50 {
        let session = world.initialize("2025-11-25").await;
        let headers = [("mcp-session-id", session.as_str())];
        let pings = futures_util::future::join_all((0..8).map(|_| world.post(&headers, &ping)));
        let (ended, _) = tokio::join!(world.send("DELETE", "/mcp", &headers, ""), pings);
        assert_eq!(ended.status, 204);
        assert_eq!(world.legacy(&session, "tools/list", json!({})).await.status, 404);
        assert_eq!(world.endpoint.sessions(), 0);
    }
}

fn only_file(folder: &Path) -> std::path::PathBuf {
    let mut files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.extension().is_some_and(|ending| ending == "json")).unwrap()
}

async fn until_remembered(folder: &Path, what: &str, is: bool) {
    until(what, || std::fs::read_to_string(only_file(folder)).unwrap().contains(what) == is).await;
}

#[tokio::test]
async fn subscriptions_and_log_level_survive_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let first = world_of(folder.path()).await;
    let session = first.initialize("2025-06-18").await;
    for uri in ["a:kept", "a:left"] {
        first.legacy(&session, "resources/subscribe", json!({ "uri": uri })).await;
        until_remembered(folder.path(), uri, true).await;
    }
    first.legacy(&session, "resources/unsubscribe", json!({ "uri": "a:left" })).await;
    until_remembered(folder.path(), "a:left", false).await;
    first.legacy(&session, "logging/setLevel", json!({ "level": "error" })).await;
    until_remembered(folder.path(), r#""level":"error""#, true).await;
    // The first one was not asked to end. The second does not forget before it has subscribed again.
    let second = world_of(folder.path()).await;
    second.double.refusals.store(2, Ordering::SeqCst);
    second.legacy(&session, "ping", json!({})).await;
    until_remembered(folder.path(), "a:kept", true).await;
    until("it is watched again", || second.double.listeners.lock().len() == 2).await;
    until_remembered(folder.path(), "a:kept", true).await;
}

#[tokio::test]
async fn a_session_in_use_is_not_forgotten_for_its_age() {
    let folder = tempfile::tempdir().unwrap();
    let world = world_of(folder.path()).await;
    let session = world.initialize("2025-06-18").await;
    let old = std::time::SystemTime::now() - Duration::from_hours(2);
    let file = std::fs::File::options().append(true).open(only_file(folder.path())).unwrap();
    file.set_modified(old).unwrap();
    tokio::time::pause();
    for _ in 0..3 {
        tokio::time::advance(Duration::from_mins(1)).await;
        tokio::task::yield_now().await;
    }
    tokio::time::resume();
    until("its use is noted", || file.metadata().unwrap().modified().unwrap() > old).await;
    let second = world_of(folder.path()).await;
    assert_eq!(second.legacy(&session, "ping", json!({})).await.status, 200);
}

/// Puts a pipe in place of a file: reading it waits until a message is sent, or for ten seconds. The thread returns
/// whether the message came in time.
fn slow(file: &Path) -> (std::sync::mpsc::Sender<()>, std::thread::JoinHandle<bool>) {
    std::fs::remove_file(file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(file).status().unwrap().success());
    let (finish, finished) = std::sync::mpsc::channel();
    let file = file.to_owned();
    let writer = std::thread::spawn(move || {
        let in_time = finished.recv_timeout(Duration::from_secs(10)).is_ok();
        std::fs::write(file, "{}").unwrap();
        in_time
    });
    (finish, writer)
}

#[tokio::test]
async fn a_session_that_takes_long_to_read_delays_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let session = world_of(folder.path()).await.initialize("2025-06-18").await;
    let world = world_of(folder.path()).await;
    let (finish, writer) = slow(&only_file(folder.path()));
    let others = async {
        tokio::task::yield_now().await;
        assert_eq!(world.modern("tools/list", json!({})).await.status, 200);
        let _ = finish.send(());
    };
    let (restored, ()) = tokio::join!(world.legacy(&session, "ping", json!({})), others);
    assert!(writer.join().unwrap(), "others were answered meanwhile");
    assert_eq!(restored.status, 404, "what was read in the end is not a session");
}
