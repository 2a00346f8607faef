//! Scans in pages: whatever the tree and the size of pages, together they are the whole scan. And scans that
//! are cancelled.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::audio;
use crate::client::Music;

/// All pages of a tool, by what `items` finds on each.
async fn pages(
    music: &mut Music,
    tool: &str,
    mut arguments: Value,
    items: fn(&Value) -> Vec<String>,
) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let page = music.call(tool, arguments.clone()).await;
        let on_page = items(&page);
        let is_last = page["next_cursor"].is_null();
        assert_eq!(page["truncated"], !is_last);
        assert!(is_last || !on_page.is_empty() || tool == "inventory_divergences", "{page}");
        all.extend(on_page);
        if is_last {
            return all;
        }
        arguments["cursor"] = page["next_cursor"].clone();
    }
}

fn scanned(page: &Value) -> Vec<String> {
    page["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
}

fn inventoried(page: &Value) -> Vec<String> {
    let directories = page["directories"].as_array().unwrap();
    directories.iter().map(|directory| directory["path"].as_str().unwrap().to_owned()).collect()
}

fn put(root: &Path, path: &str) {
    let path = root.join(path);
    // A name may be wanted for a file and a folder; the first one has it.
    if fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.exists() {
        fs::write(path, "x").unwrap();
    }
}

#[tokio::test]
async fn pages_of_one_are_the_whole_scan_where_texts_and_paths_sort_differently() {
    let mut music = Music::new().await;
    for path in
        ["a/1.mp3", "a/b/2.mp3", "a b.mp3", "a-b/3.mp3", "a.mp3", "a/b.mp3", "a b/4.mp3", "A.mp3", "ä/5.mp3"]
    {
        put(&music.root(), path);
    }
    let whole = pages(&mut music, "fs_scan_audio", json!({ "root": "." }), scanned).await;
    let single = pages(&mut music, "fs_scan_audio", json!({ "root": ".", "max_results": 1 }), scanned).await;
    assert_eq!(single, whole);
    assert_eq!(whole.len(), 9);
    let below = pages(&mut music, "fs_scan_audio", json!({ "root": "a", "max_results": 1 }), scanned).await;
    assert_eq!(below, ["a/1.mp3", "a/b/2.mp3", "a/b.mp3"]);
}

#[tokio::test]
async fn limits_are_kept_and_cursors_are_checked() {
    let mut music = Music::new().await;
    put(&music.root(), "a/b/c.mp3");
    put(&music.root(), "d.mp3");
    put(&music.root(), "e.txt");
    put(&music.root(), ".f/g.mp3");
    let scan =
        music.call("fs_scan_audio", json!({ "root": ".", "max_results": 100_000, "max_depth": 99 })).await;
    assert_eq!((&scan["total_seen"], &scan["depth_clamped"]), (&json!(2), &json!(true)));
    let flat = music.call("fs_scan_audio", json!({ "root": ".", "max_depth": 2 })).await;
    assert_eq!(scanned(&flat), ["d.mp3"]);
    assert!(flat["warnings"][0].as_str().unwrap().contains("deeper than 2"));
    let texts = music.call("fs_scan_audio", json!({ "root": ".", "extensions": [".TXT"] })).await;
    assert_eq!(scanned(&texts), ["e.txt"]);
    let hidden = music.call("fs_scan_audio", json!({ "root": ".", "include_hidden": true })).await;
    assert_eq!(hidden["total_seen"], 3);
    for cursor in ["", "x", "eyJhZnRlciI6Ii4uL3giLCJzZWVuIjoxfQ"] {
        let refused = music.failure("fs_scan_audio", json!({ "root": ".", "cursor": cursor })).await;
        assert!(refused.contains("cursor is not one"), "{cursor}: {refused}");
    }
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "a b", "a-b", "a.b", "A", "ä", "a!", "0", "~"])
        .prop_map(str::to_owned)
}

fn paths() -> impl Strategy<Value = Vec<String>> {
    let path = (prop::collection::vec(name(), 0..4), name())
        .prop_map(|(folders, name)| folders.into_iter().chain([name + ".mp3"]).collect::<Vec<_>>().join("/"));
    prop::collection::vec(path, 0..25)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_concatenate_to_the_full_scan(paths in paths(), page in 1_usize..6) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut music = Music::new().await;
            for path in &paths {
                put(&music.root(), path);
            }
            let whole = pages(&mut music, "fs_scan_audio", json!({ "root": "." }), scanned).await;
            let paged = pages(&mut music, "fs_scan_audio", json!({ "root": ".", "max_results": page }), scanned).await;
            assert_eq!(paged, whole);
            let mut distinct: Vec<&String> = paths.iter().filter(|path| music.root().join(path).is_file()).collect();
            distinct.sort();
            distinct.dedup();
            assert_eq!(whole.len(), distinct.len());
        });
    }
}

#[tokio::test]
async fn an_inventory_never_splits_a_folder() {
    let mut music = Music::new().await;
    for path in ["a/1.mp3", "a/2.mp3", "a/b/3.mp3", "a b/4.mp3", "a b/5.mp3", "c/d/6.mp3"] {
        audio::put(&music.root().join(path));
    }
    let arguments = |max: u32| json!({ "root": ".", "path_template": "{artist}/{title}", "max_files": max });
    let whole = pages(&mut music, "inventory_divergences", arguments(5000), inventoried).await;
    assert_eq!(whole, ["a", "a/b", "a b", "c/d"]);
    assert_eq!(pages(&mut music, "inventory_divergences", arguments(1), inventoried).await, whole);
}

#[tokio::test]
async fn an_inventory_shows_where_tags_and_paths_differ() {
    let mut music = Music::new().await;
    let mut write = async |path: &str, artist: &str, track: u32, title: &str| {
        audio::put(&music.root().join(path));
        music
            .call("write_metadata", json!({ "path": path, "artist": artist, "track": track, "title": title }))
            .await;
    };
    write("AC-DC/01 TNT.mp3", "AC/DC", 1, "tnt").await;
    write("AC-DC/02 Rocker.mp3", "AC/DC", 3, "Rocker").await;
    write("AC-DC/loose.mp3", "AC/DC", 4, "Loose").await;
    let found = music
        .call(
            "inventory_divergences",
            json!({ "root": ".", "path_template": "{artist}/{track:02d} {title}" }),
        )
        .await;
    assert_eq!((&found["files_scanned"], &found["files_with_divergences"]), (&json!(3), &json!(2)));
    let directory = &found["directories"][0];
    assert_eq!(directory["path_inferred"], json!({ "artist": "AC-DC" }));
    assert_eq!(directory["field_value_counts"]["artist"], json!({ "AC/DC": 3 }));
    assert_eq!(
        directory["files"][0]["divergences"],
        json!([{ "field": "track", "path_value": "02", "tag_value": "3" }])
    );
    assert_eq!(directory["files"][1]["path_inferred"], Value::Null);
    let strict = json!({ "root": ".", "path_template": "{artist}/{track:02d} {title}", "case_sensitive": true, "fields_to_compare": ["title"] });
    let found = music.call("inventory_divergences", strict).await;
    assert_eq!(found["directories"][0]["files"][0]["divergences"][0]["tag_value"], "tnt");
    let unclear = music
        .failure("inventory_divergences", json!({ "root": ".", "path_template": "{artist}{title}" }))
        .await;
    assert!(unclear.contains("cannot be separated"), "{unclear}");
}

#[tokio::test]
async fn a_scan_reports_progress_and_ends_when_cancelled() {
    let mut music = Music::new().await;
    // Enough that the scan cannot be over before the cancel arrives, which is sent at the first progress.
    for folder in 0..50 {
        for file in 0..100 {
            put(&music.root(), &format!("{folder:02}/{file:02}.mp3"));
        }
    }
    music.call("fs_scan_audio", json!({ "root": "." })).await;
    let steps: Vec<i64> = music
        .notifications
        .iter()
        .filter_map(|notification| notification["params"]["progress"].as_i64())
        .collect();
    assert!(steps.len() >= 20 && steps.is_sorted(), "{steps:?}");
    let params =
        json!({ "name": "find_duplicates", "arguments": { "root": "." }, "_meta": { "progressToken": "p" } });
    let id = music.send("tools/call", params).await;
    let first = music.next().await;
    assert_eq!(first["method"], "notifications/progress");
    music.notify("notifications/cancelled", json!({ "requestId": id })).await;
    // The next answer is that of the next request: the cancelled one is never answered, and has let go.
    let ping = music.send("ping", json!({})).await;
    music.answer(ping).await;
    let reported = music
        .notifications
        .iter()
        .filter(|notification| notification["method"] == "notifications/progress")
        .count();
    assert!(reported < 40, "{reported} steps were reported after the cancel");
}
