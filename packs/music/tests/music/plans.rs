//! Plans: foreseen, carried out, undone.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::audio;
use crate::client::{Music, tree};

pub(crate) const COVER: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVQI12P4z8AAAAMBAQAY3Y2wAAAAAElFTkSuQmCC";

fn tidy() -> Value {
    json!([
        { "op": "write_metadata", "path": "one.mp3", "title": "One", "artist": "Abba", "track": 1 },
        { "op": "mkdir", "path": "Abba/Arrival" },
        { "op": "move", "from": "one.mp3", "to": "Abba/Arrival/01 One.mp3" },
        { "op": "embed_cover", "path": "Abba/Arrival/01 One.mp3", "image_bytes_base64": COVER },
        { "op": "move", "from": "two.flac", "to": "Abba/Other/02 Two.flac", "mkdir_parents": true },
        { "op": "move", "from": "Abba/Other", "to": "Abba/Ring Ring" },
        { "op": "write_metadata", "path": "Abba/Ring Ring/02 Two.flac", "title": "Two" },
    ])
}

async fn library() -> Music {
    let music = Music::new().await;
    audio::put(&music.root().join("one.mp3"));
    audio::put(&music.root().join("two.flac"));
    music
}

#[tokio::test]
async fn a_dry_run_foresees_everything_and_changes_nothing() {
    let mut music = library().await;
    let before = tree(&music.root());
    let dry = music.call("apply_plan", json!({ "operations": tidy(), "dry_run": true })).await;
    assert_eq!(
        (&dry["ok_count"], &dry["error_count"], &dry["plan_id"]),
        (&json!(7), &json!(0), &Value::Null),
        "{dry}"
    );
    assert_eq!(tree(&music.root()), before);
    assert!(!music.root().join(".toolyard").exists());
    let wrong = json!([
        { "op": "move", "from": "one.mp3", "to": "x/one.mp3" },
        { "op": "move", "from": "one.mp3", "to": "two.flac" },
        { "op": "move", "from": "one.mp3", "to": "three.mp3" },
        { "op": "write_metadata", "path": "one.mp3", "title": "gone" },
        { "op": "write_metadata", "path": "three.mp3", "title": "there" },
        { "op": "move", "from": "three.mp3", "to": "three.mp3/x" },
        { "op": "mkdir", "path": "two.flac/x" },
        { "op": "mkdir", "path": "../x" },
    ]);
    let dry = music.call("apply_plan", json!({ "operations": wrong, "dry_run": true })).await;
    let status: Vec<&str> =
        dry["results"].as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["error", "error", "ok", "error", "ok", "error", "error", "error"], "{dry}");
    assert_eq!(tree(&music.root()), before);
}

#[tokio::test]
async fn a_plan_is_carried_out_and_undone() {
    let mut music = library().await;
    let before = tree(&music.root());
    let done = music.call("apply_plan", json!({ "operations": tidy() })).await;
    assert_eq!((&done["ok_count"], &done["error_count"]), (&json!(7), &json!(0)), "{done}");
    let read = music.call("read_metadata", json!({ "path": "Abba/Arrival/01 One.mp3" })).await;
    assert_eq!((&read["metadata"]["artist"], &read["pictures"][0]["index"]), (&json!("Abba"), &json!(0)));
    let listed = music.call("plan_list", json!({})).await;
    assert_eq!((&listed["plans"][0]["plan_id"], &listed["plans"][0]["done"]), (&done["plan_id"], &json!(7)));
    let undone = music.call("undo_plan", json!({ "plan_id": done["plan_id"] })).await;
    assert_eq!((&undone["complete"], &undone["conflicts"]), (&json!(true), &json!(0)), "{undone}");
    assert_eq!(tree(&music.root()), before);
    let none = music.failure("undo_plan", json!({})).await;
    assert!(none.contains("no such plan") && none.contains("plan_list"), "{none}");
}

#[tokio::test]
async fn a_failure_stops_the_rest_only_if_wished() {
    let mut music = library().await;
    let operations = json!([{ "op": "move", "from": "x", "to": "y" }, { "op": "mkdir", "path": "z" }]);
    let stopped = music.call("apply_plan", json!({ "operations": operations, "stop_on_error": true })).await;
    assert_eq!(
        (&stopped["executed"], &stopped["skipped"], &stopped["stopped_early"]),
        (&json!(1), &json!(1), &json!(true))
    );
    let gone_on = music.call("apply_plan", json!({ "operations": operations })).await;
    assert_eq!((&gone_on["ok_count"], &gone_on["error_count"]), (&json!(1), &json!(1)));
    let many: Vec<Value> = vec![json!({ "op": "mkdir", "path": "z" }); 1001];
    let refused = music.failure("apply_plan", json!({ "operations": many })).await;
    assert!(refused.contains("at most 1000"), "{refused}");
    let unknown =
        music.failure("apply_plan", json!({ "operations": [{ "op": "delete", "path": "z" }] })).await;
    assert!(unknown.contains("operations[0]"), "{unknown}");
}

#[tokio::test]
async fn undo_leaves_later_changes_alone() {
    let mut music = library().await;
    let operations = json!([
        { "op": "write_metadata", "path": "one.mp3", "title": "One" },
        { "op": "move", "from": "two.flac", "to": "three.flac" },
    ]);
    music.call("apply_plan", json!({ "operations": operations })).await;
    music.call("write_metadata", json!({ "path": "one.mp3", "title": "Mine" })).await;
    fs::rename(music.root().join("three.flac"), music.root().join("four.flac")).unwrap();
    let undone = music.call("undo_plan", json!({})).await;
    assert_eq!((&undone["conflicts"], &undone["complete"]), (&json!(2), &json!(false)), "{undone}");
    let read = music.call("read_metadata", json!({ "path": "one.mp3" })).await;
    assert_eq!(read["metadata"]["title"], "Mine");
    fs::rename(music.root().join("four.flac"), music.root().join("three.flac")).unwrap();
    let forced = music.call("undo_plan", json!({ "force": true })).await;
    assert_eq!(forced["complete"], true, "{forced}");
    assert_eq!(fs::read(music.root().join("one.mp3")).unwrap(), audio::tone("mp3"));
    assert!(music.root().join("two.flac").exists());
}

#[tokio::test]
async fn undo_restores_a_file_that_a_move_replaced() {
    let mut music = library().await;
    fs::write(music.root().join("old.mp3"), "old").unwrap();
    let before = tree(&music.root());
    let operations = json!([{ "op": "move", "from": "one.mp3", "to": "old.mp3", "overwrite": true }]);
    music.call("apply_plan", json!({ "operations": operations })).await;
    assert_eq!(fs::read(music.root().join("old.mp3")).unwrap(), audio::tone("mp3"));
    music.call("undo_plan", json!({})).await;
    assert_eq!(tree(&music.root()), before);
}

fn place() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a.mp3",
        "b.mp3",
        "c",
        "c/a.mp3",
        "c/d",
        "c/d/b.mp3",
        "e/f",
        "e/g.mp3",
        "c/d/e",
    ])
    .prop_map(str::to_owned)
}

fn operation() -> impl Strategy<Value = Value> {
    prop_oneof![
        place().prop_map(|path| json!({ "op": "mkdir", "path": path })),
        (place(), place(), any::<bool>(), any::<bool>()).prop_map(|(from, to, parents, overwrite)| {
            json!({ "op": "move", "from": from, "to": to, "mkdir_parents": parents, "overwrite": overwrite })
        }),
        (place(), "[a-z]{1,5}")
            .prop_map(|(path, title)| json!({ "op": "write_metadata", "path": path, "title": title })),
        place().prop_map(|path| json!({ "op": "embed_cover", "path": path, "image_bytes_base64": COVER })),
    ]
}

fn prepare(root: &Path) {
    for path in ["a.mp3", "b.mp3", "c/d/b.mp3"] {
        audio::put(&root.join(path));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn undo_brings_back_every_tree(operations in prop::collection::vec(operation(), 1..15)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut music = Music::new().await;
            prepare(&music.root());
            let before = tree(&music.root());
            let foreseen = music.call("apply_plan", json!({ "operations": operations, "dry_run": true })).await;
            assert_eq!(tree(&music.root()), before, "a dry run has changed something");
            let done = music.call("apply_plan", json!({ "operations": operations })).await;
            assert_eq!(statuses(&foreseen), statuses(&done), "{foreseen}\n{done}");
            let undone = music.call("undo_plan", json!({ "plan_id": done["plan_id"] })).await;
            assert_eq!(undone["complete"], true, "{undone}");
            assert_eq!(tree(&music.root()), before, "{done}");
        });
    }
}

/// The status of each operation up to the first failure: what a plan predicts after a failure is only a guess.
fn statuses(answer: &Value) -> Vec<String> {
    let all =
        answer["results"].as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap().to_owned());
    let mut until = Vec::new();
    for status in all {
        until.push(status.clone());
        if status == "error" {
            break;
        }
    }
    until
}
