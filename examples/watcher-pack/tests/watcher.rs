//! The pack with the host that the gateway gives it: folders, children and tasks are real.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolyard_host::{HostSettings, Hosts};
use toolyard_model::{
    Answer, AnswerBody, BoxFuture, ClientKey, Handler, Origin, Peer, Principal, Request, View,
};
use toolyard_proto::{Id, Method, Notification, Raw, Revision};
use toolyard_tool::ToolSet;

/// A gateway whose every tool answers with its name.
struct Names;

impl Handler for Names {
    fn handle(&self, request: Request, _: Peer) -> BoxFuture<Answer> {
        let name = request.params.member("name").and_then(|name| name.as_string()).unwrap_or_default();
        let result = json!({ "content": [{ "type": "text", "text": name }] });
        Box::pin(async { Ok(AnswerBody::ours(result.into())) })
    }

    fn notice(&self, _: &Arc<Origin>, _: Notification) {}

    fn ended(&self, _: &ClientKey) {}
}

struct Scene {
    place: TempDir,
    gateway: Arc<dyn Handler>,
}

impl Scene {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("watched")).unwrap();
        std::fs::write(place.path().join("watched/a.txt"), "one\ntwo\n").unwrap();
        std::fs::write(place.path().join("watched/empty.txt"), "").unwrap();
        Self { place, gateway: Arc::new(Names) }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.place.path().join(name)
    }

    /// The pack after a start of the gateway.
    fn start(&self) -> Arc<ToolSet> {
        let hosts = Hosts::new(HostSettings { state: Some(self.path("state")), ..HostSettings::default() });
        hosts.set_gateway(&self.gateway);
        let config = json!({ "folder": self.path("watched"), "pause_ms": 10 });
        let set = watcher_pack::pack().tools_in(config, hosts.host("watcher")).unwrap();
        let set = Arc::new(set);
        drop(set.connect());
        set
    }
}

async fn request(set: &ToolSet, method: &str, params: Value) -> Value {
    let tasks = json!({ "io.modelcontextprotocol/tasks": {} });
    let origin = Origin::new(View::Everything, Principal::local(), ClientKey::Request(1), Revision::NEWEST)
        .with_capabilities(json!({ "extensions": tasks, "elicitation": {} }).into())
        .with_place(true, None);
    let request = Request::new(Arc::new(origin), Id::number(1), Method::new(method), Raw::from(params));
    match set.handle(request, Peer::none()).await.unwrap() {
        AnswerBody::Whole(result, _) => result.read().unwrap(),
        AnswerBody::Stream(_) => panic!("nothing streams here"),
    }
}

async fn call(set: &ToolSet, tool: &str, arguments: Value) -> String {
    let result = request(set, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

async fn until(set: &ToolSet, id: &Value, status: &str) -> Value {
    for _ in 0..2_000 {
        let task = request(set, "tasks/get", json!({ "taskId": id })).await;
        if task["status"] == status {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it is never {status}");
}

#[tokio::test]
async fn listing_the_pack_creates_nothing() {
    let scene = Scene::new();
    let set = scene.start();
    request(&set, "tools/list", json!({})).await;
    assert!(!scene.path("state").exists());
}

#[tokio::test]
async fn files_are_indexed_counted_by_a_child_and_passed_to_another_tool() {
    let scene = Scene::new();
    let set = scene.start();
    assert!(call(&set, "list_files", json!({})).await.contains("a.txt"));
    assert_eq!(call(&set, "count_lines", json!({ "name": "a.txt" })).await, "2");
    assert_eq!(call(&set, "checksum", json!({ "name": "a.txt" })).await, "dev__hash");
    assert!(call(&set, "count_lines", json!({ "name": "../a.txt" })).await.contains("no file"));
    std::fs::write(scene.path("watched/new.txt"), "x").unwrap();
    for _ in 0..2_000 {
        if call(&set, "list_files", json!({})).await.contains("new.txt") {
            assert!(has(&scene.path("state"), "index.json"));
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the new file is never listed");
}

fn has(folder: &Path, name: &str) -> bool {
    folder.join("packs/watcher").join(name).exists()
}

#[tokio::test]
async fn the_question_of_a_task_is_answered_after_a_restart() {
    let scene = Scene::new();
    let set = scene.start();
    let started = request(&set, "tools/call", json!({ "name": "delete_empty" })).await;
    let id = &started["taskId"];
    until(&set, id, "input_required").await;
    set.end().await;
    drop(set);
    let set = scene.start();
    let asked = until(&set, id, "input_required").await;
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let answers = json!({ key: { "action": "accept", "content": { "sure": true } } });
    request(&set, "tasks/update", json!({ "taskId": id, "inputResponses": answers })).await;
    let done = until(&set, id, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "deleted 1 files");
    assert!(!scene.path("watched/empty.txt").exists() && scene.path("watched/a.txt").exists());
}
