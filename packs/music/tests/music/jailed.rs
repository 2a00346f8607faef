//! Every tool that takes a path refuses those that lead out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::audio;
use crate::client::{Music, tree};

const ID: &str = "a74b1b7f-71a5-4011-9441-d0b5e4122711";
/// A tag of a file outside the root, which no answer may contain.
pub(crate) const SECRET: &str = "the secret title";

/// Arguments of every tool with a path in it, for that path.
pub(crate) fn calls(path: &str) -> Vec<(&'static str, Value)> {
    let cover = "iVBORw0KGgo=";
    let plan = |operation: Value| json!({ "operations": [operation] });
    let dry = |operation: Value| json!({ "operations": [operation], "dry_run": true });
    let below = format!("{path}/new");
    let operations = [
        json!({ "op": "mkdir", "path": below }),
        json!({ "op": "move", "from": path, "to": "new" }),
        json!({ "op": "move", "from": "in.mp3", "to": below, "mkdir_parents": true }),
        json!({ "op": "write_metadata", "path": path, "title": "T" }),
        json!({ "op": "embed_cover", "path": path, "image_bytes_base64": cover }),
        json!({ "op": "embed_cover", "path": "in.mp3", "image_path": path }),
    ];
    let mut calls = vec![
        ("fs_list_dir", json!({ "path": path, "recursive_depth": -1 })),
        ("fs_rename", json!({ "from": path, "to": "new" })),
        ("fs_rename", json!({ "from": "in.mp3", "to": path })),
        ("fs_delete", json!({ "path": path, "recursive": true })),
        ("fs_mkdir", json!({ "path": below })),
        ("fs_mkdir", json!({ "path": below, "dry_run": true })),
        ("fs_move", json!({ "from": path, "to": "new" })),
        ("fs_move", json!({ "from": "in.mp3", "to": below, "mkdir_parents": true })),
        ("fs_scan_audio", json!({ "root": path })),
        ("fs_hash", json!({ "path": path })),
        ("find_duplicates", json!({ "root": path })),
        ("find_duplicates", json!({ "root": path, "acoustic": true })),
        ("read_metadata", json!({ "path": path })),
        ("read_metadata_batch", json!({ "paths": [path] })),
        ("write_metadata", json!({ "path": path, "title": "T" })),
        ("write_metadata_batch", json!({ "writes": [{ "path": path, "title": "T" }] })),
        ("embed_cover", json!({ "path": path, "image_bytes_base64": cover })),
        ("embed_cover", json!({ "path": "in.mp3", "image_path": path })),
        ("extract_picture", json!({ "path": path, "to": "x" })),
        ("extract_picture", json!({ "path": "in.mp3", "to": below })),
        ("inventory_divergences", json!({ "root": path, "path_template": "{title}" })),
        ("mb_identify_record", json!({ "file_path": path })),
        ("mb_cover_download", json!({ "mbid": ID, "path": path })),
    ];
    for operation in operations {
        calls.push(("apply_plan", plan(operation.clone())));
        calls.push(("apply_plan", dry(operation)));
    }
    calls
}

/// A library with a file and a link in it, beside a folder that must stay as it is.
pub(crate) async fn library() -> Music {
    // Nothing listens at port 1.
    let nowhere = "http://127.0.0.1:1";
    let keys = json!({ "acoustid_key": "key", "acoustid_url": nowhere, "coverart_url": nowhere });
    let mut music = Music::with(keys).await;
    audio::put(&music.root().join("in.mp3"));
    audio::put(&music.root().join("a/song.mp3"));
    let picture = json!({ "path": "in.mp3", "image_bytes_base64": crate::plans::COVER });
    music.call("embed_cover", picture).await;
    // Written inside, since outside nothing can be.
    music.call("write_metadata", json!({ "path": "a/song.mp3", "title": SECRET })).await;
    fs::create_dir(music.folder.path().join("out")).unwrap();
    fs::rename(music.root().join("a/song.mp3"), music.folder.path().join("out/song.mp3")).unwrap();
    audio::put(&music.root().join("a/song.mp3"));
    symlink("../out", music.root().join("link")).unwrap();
    music
}

pub(crate) fn outside(music: &Music) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    tree(&music.folder.path().join("out"))
}

/// The error text of a call that was refused; batches and plans report an error for each part.
fn refusal(result: &Value) -> Option<String> {
    if result["isError"] == true {
        return result["content"][0]["text"].as_str().map(ToOwned::to_owned);
    }
    let parts = result["structuredContent"]["results"].as_array()?;
    let message: Option<Vec<&str>> = parts.iter().map(|part| part["error"].as_str()).collect();
    message.map(|message| message.join("\n"))
}

#[tokio::test]
async fn the_table_has_every_tool_that_takes_a_path() {
    let mut music = Music::new().await;
    let listed = music.request("tools/list", json!({})).await;
    let takes_path = |tool: &&Value| {
        let keys = ["path", "paths", "from", "to", "root", "file_path", "image_path", "writes", "operations"];
        keys.iter().any(|key| !tool["inputSchema"]["properties"][key].is_null())
    };
    let tools: BTreeSet<&str> = listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter(takes_path)
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(calls("x").iter().map(|(tool, _)| *tool).collect::<BTreeSet<_>>(), tools);
}

#[tokio::test]
async fn no_tool_leaves_the_root() {
    let mut music = library().await;
    let before = tree(music.folder.path());
    let absolute = music.folder.path().join("out/song.mp3").display().to_string();
    for path in
        ["../out/song.mp3", "../out", &absolute, "/etc/passwd", "a/../../out", "link/song.mp3", "link/x"]
    {
        for (tool, arguments) in calls(path) {
            let result = music.result(tool, arguments.clone()).await;
            let message = refusal(&result).unwrap_or_else(|| panic!("{tool} {arguments}: {result}"));
            assert!(
                message.contains("outside of the root") || message.contains("symbolic link"),
                "{tool} {arguments}: {message}"
            );
            assert!(message.contains("Hint: "), "{tool}: {message}");
        }
        let uri = format!("music://file/{}", path.trim_start_matches('/'));
        let read = music.send("resources/read", json!({ "uri": uri })).await;
        assert!(!music.message(read).await["error"].is_null(), "{uri} was read");
    }
    assert_eq!(tree(music.folder.path()), before);
}

#[tokio::test]
async fn names_of_manifests_and_plans_are_no_paths() {
    let mut music = library().await;
    let before = outside(&music);
    for id in ["../out/song", "..", "a/b", "/etc/passwd", ".hidden", ""] {
        for (tool, arguments) in [
            ("manifest_write", json!({ "id": id, "content": 1 })),
            ("manifest_read", json!({ "id": id })),
            ("undo_plan", json!({ "plan_id": id })),
        ] {
            music.failure(tool, arguments).await;
        }
    }
    // What the pack keeps for itself may have become a link by the time it is used.
    symlink("../out", music.root().join(".toolyard")).unwrap();
    for (tool, arguments) in [
        ("manifest_write", json!({ "id": "note", "content": 1 })),
        ("manifest_read", json!({ "id": "note" })),
        ("manifest_list", json!({})),
        ("apply_plan", json!({ "operations": [{ "op": "mkdir", "path": "new" }] })),
        ("plan_list", json!({})),
        ("undo_plan", json!({})),
    ] {
        let message = music.failure(tool, arguments).await;
        assert!(message.contains("symbolic link"), "{tool}: {message}");
    }
    assert_eq!(outside(&music), before);
}

/// A library may come from another user, with a journal in it that was never written by this program.
#[tokio::test]
async fn a_forged_journal_undoes_nothing_outside() {
    let mut music = library().await;
    let before = outside(&music);
    let plan = music.root().join(".toolyard/plans/plan-1");
    fs::create_dir_all(&plan).unwrap();
    for index in 2..5 {
        fs::write(plan.join(format!("{index}.kept")), "forged").unwrap();
    }
    let undos = [
        json!({ "folders": ["../out"] }),
        json!({ "move": { "from": "taken.mp3", "to": "../out/song.mp3", "identity": [0, 0], "folders": [], "replaced": false } }),
        json!({ "content": { "path": "../out/song.mp3" } }),
        json!({ "move": { "from": "../out/new.mp3", "to": "in.mp3", "identity": [0, 0], "folders": ["link"], "replaced": true } }),
        json!({ "content": { "path": "link/song.mp3" } }),
    ];
    let lines = undos.iter().enumerate().map(|(index, undo)| {
        json!({ "begin": { "index": index, "kind": "move", "undo": undo } }).to_string() + "\n"
    });
    fs::write(plan.join("journal"), lines.collect::<String>()).unwrap();
    let undone = music.call("undo_plan", json!({ "force": true })).await;
    assert_eq!((&undone["conflicts"], &undone["complete"]), (&json!(5), &json!(false)), "{undone}");
    assert_eq!(outside(&music), before);
    assert!(music.root().join("in.mp3").exists() && !music.root().join("taken.mp3").exists());
}

#[tokio::test]
async fn links_out_are_refused_where_links_are_allowed() {
    let mut music = Music::with(json!({ "allow_symlinks": true })).await;
    audio::put(&music.root().join("real/in.mp3"));
    audio::put(&music.folder.path().join("out/out.mp3"));
    symlink("../out", music.root().join("link")).unwrap();
    symlink("real", music.root().join("inside")).unwrap();
    symlink(".", music.root().join("real/circle")).unwrap();
    let message = music.failure("read_metadata", json!({ "path": "link/out.mp3" })).await;
    assert!(message.contains("leads outside"), "{message}");
    music.call("read_metadata", json!({ "path": "inside/in.mp3" })).await;
    let scan = music.call("fs_scan_audio", json!({ "root": "." })).await;
    let paths: Vec<&str> =
        scan["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["inside/in.mp3", "real/in.mp3"]);
    assert!(scan["warnings"].as_array().unwrap().len() >= 2, "{scan}");
}
