//! Long-running tools report progress and stop when they are cancelled.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::audio;
use crate::client::Music;

const FILES: usize = 400;

fn paths() -> Vec<String> {
    (0..FILES).map(|index| format!("{:02}/{index}.wav", index / 20)).collect()
}

/// Every tool that goes through many files.
fn calls() -> Vec<(&'static str, Value)> {
    let writes: Vec<Value> = paths().into_iter().map(|path| json!({ "path": path, "title": "T" })).collect();
    let operations: Vec<Value> = paths()
        .into_iter()
        .map(|path| json!({ "op": "move", "from": path, "to": format!("new/{path}"), "mkdir_parents": true }))
        .collect();
    vec![
        ("fs_scan_audio", json!({ "root": "." })),
        ("find_duplicates", json!({ "root": "." })),
        ("find_duplicates", json!({ "root": ".", "acoustic": true })),
        ("inventory_divergences", json!({ "root": ".", "path_template": "{artist}/{title}" })),
        ("read_metadata_batch", json!({ "paths": paths() })),
        ("write_metadata_batch", json!({ "writes": writes })),
        ("apply_plan", json!({ "operations": operations, "dry_run": true })),
        ("apply_plan", json!({ "operations": operations })),
        ("undo_plan", json!({})),
    ]
}

async fn library(content: &[u8]) -> Music {
    let music = Music::with(json!({ "fpcalc": "" })).await;
    for path in paths() {
        let path = music.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    music
}

/// The beginning of a tone, so that listening to all files takes no time.
fn short() -> Vec<u8> {
    let mut bytes = audio::tone("wav")[..44 + 4000].to_vec();
    bytes[4..8].copy_from_slice(&4036_u32.to_le_bytes());
    bytes[40..44].copy_from_slice(&4000_u32.to_le_bytes());
    bytes
}

#[tokio::test]
async fn tools_that_read_many_files_report_progress() {
    let mut music = library(&short()).await;
    for (tool, arguments) in calls() {
        music.call(tool, arguments).await;
        let steps: Vec<f64> = music
            .notifications
            .iter()
            .filter_map(|notification| notification["params"]["progress"].as_f64())
            .collect();
        assert!(steps.len() > 1 && steps.is_sorted(), "{tool}: {steps:?}");
    }
}

/// The next change needs what the cancelled call held, and must have it within a second.
#[tokio::test]
async fn tools_that_read_many_files_stop_when_cancelled() {
    for (tool, arguments) in calls() {
        let mut music = library(&audio::tone("wav")).await;
        if tool == "undo_plan" {
            let (_, plan) = calls().swap_remove(7);
            music.call("apply_plan", plan).await;
        }
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "p" } });
        let id = music.send("tools/call", params).await;
        assert_eq!(music.next().await["method"], "notifications/progress", "{tool}");
        music.notify("notifications/cancelled", json!({ "requestId": id })).await;
        let next =
            music.send("tools/call", json!({ "name": "fs_mkdir", "arguments": { "path": "after" } })).await;
        let answered = tokio::time::timeout(Duration::from_secs(1), music.answer(next)).await;
        assert!(answered.is_ok(), "{tool} went on after it was cancelled");
        // What only reads may have been over before the cancel arrived.
        let last = music
            .notifications
            .iter()
            .filter_map(|notification| notification["params"]["progress"].as_f64())
            .next_back();
        let is_slow = ["write_metadata_batch", "undo_plan"].contains(&tool);
        assert!(!is_slow || last.unwrap_or(0.0) < 390.0, "{tool} went on to {last:?}");
    }
}

/// The size of the unfinished copy in the library, if there is one.
fn draft(music: &Music) -> Option<u64> {
    let entries = fs::read_dir(music.root()).unwrap();
    let mut others = entries.filter_map(Result::ok).filter(|entry| {
        let name = entry.file_name();
        !["large.wav", "moved.wav", "small.wav", ".toolyard"].iter().any(|known| name == *known)
    });
    Some(others.next()?.metadata().ok()?.len())
}

/// The copy of the large file takes many seconds; nothing else may wait for its end.
#[tokio::test]
async fn a_change_of_one_large_file_that_is_cancelled_frees_the_file_at_once() {
    const LARGE: u64 = 8 * 1024 * 1024 * 1024;
    let mut music = Music::new().await;
    fs::File::create(music.root().join("large.wav")).unwrap().set_len(LARGE).unwrap();
    fs::write(music.root().join("small.wav"), audio::tone("wav")).unwrap();
    let arguments = json!({ "path": "large.wav", "title": "T" });
    let id = music.send("tools/call", json!({ "name": "write_metadata", "arguments": arguments })).await;
    let begun = Instant::now();
    while draft(&music).is_none_or(|copied| copied == 0) {
        assert!(begun.elapsed() < Duration::from_secs(30), "the large file is not being copied");
        tokio::task::yield_now().await;
    }
    // A change of another file does not wait for this one, also before the cancel.
    music.call("write_metadata", json!({ "path": "small.wav", "title": "A" })).await;
    assert!(draft(&music).is_some(), "the large file is still being copied");
    music.notify("notifications/cancelled", json!({ "requestId": id })).await;
    let arguments = json!({ "from": "large.wav", "to": "moved.wav" });
    let moved = music.send("tools/call", json!({ "name": "fs_move", "arguments": arguments })).await;
    let mut copied = 0;
    while let Some(so_far) = draft(&music) {
        copied = copied.max(so_far);
        tokio::task::yield_now().await;
    }
    assert!(copied < LARGE, "it was copied to its end");
    let moved = music.answer(moved).await;
    assert_ne!(moved["isError"], true, "{moved}");
    music.call("write_metadata", json!({ "path": "small.wav", "title": "B" })).await;
}
