//! Watchers of indexes.

use super::*;

#[tokio::test]
async fn a_watcher_that_runs_is_not_started_again() {
    let scene = Scene::new();
    let config = json!({ "projects": [scene.project()] });
    let nothing = json!({});
    let start = ("start_file_watcher", json!({ "debounce_seconds": 0.5 }));
    let again = ("start_file_watcher", json!({ "debounce_seconds": 9.0 }));
    let stop = ("stop_file_watcher", nothing.clone());
    let list = ("list_file_watchers", nothing);
    let results = scene.calls(config, &[start, again, list.clone(), stop.clone(), stop, list]).await;
    let status = |at: usize| &results[at]["structuredContent"]["status"];
    assert_eq!((status(0), status(1)), (&json!("started"), &json!("running")), "{results:?}");
    let debounce = &results[1]["structuredContent"]["debounce_seconds"];
    assert_eq!(debounce, &json!(0.5), "that of the one that runs");
    let watched = |at: usize| text(&results[at]).matches("project_path").count();
    assert_eq!((watched(2), watched(5)), (1, 0), "{results:?}");
    let stopped = |at: usize| &results[at]["structuredContent"]["stopped"];
    assert_eq!((stopped(3), stopped(4)), (&json!(true), &json!(false)), "{results:?}");
}

#[tokio::test]
async fn each_provider_has_a_watcher_of_its_own() {
    let scene = Scene::new();
    let config = json!({ "projects": [scene.project()], "providers": { "fine": {
        "provider": "ollama", "model": "fine", "base_url": "http://127.0.0.1:1",
    } } });
    let start = |provider: &str| ("start_file_watcher", json!({ "provider": provider }));
    let (list, stop) = (("list_file_watchers", json!({})), ("stop_file_watcher", json!({})));
    let calls = [start("fast"), start("fine"), start("fine"), list.clone(), stop, list];
    let results = scene.calls(config, &calls).await;
    let of = |at: usize, key: &str| results[at]["structuredContent"][key].clone();
    let states = [0, 1, 2].map(|at| of(at, "status"));
    assert_eq!(states, ["started", "started", "running"], "{results:?}");
    assert!(of(0, "model") != of(1, "model") && of(1, "model") == of(2, "model"), "{results:?}");
    let watched = |at: usize| text(&results[at]).matches("project_path").count();
    assert_eq!((watched(3), watched(5)), (2, 0), "{results:?}");
}
