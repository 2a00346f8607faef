//! Every tool that takes a path refuses those that lead out.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::audio;
use crate::client::{Music, tree};

/// Arguments of every tool with a path in it, for that path.
fn calls(path: &str) -> Vec<(&'static str, Value)> {
    let cover = "iVBORw0KGgo=";
    vec![
        ("fs_list_dir", json!({ "path": path })),
        ("fs_rename", json!({ "from": path, "to": "new" })),
        ("fs_rename", json!({ "from": "in.mp3", "to": path })),
        ("fs_delete", json!({ "path": path, "recursive": true })),
        ("fs_mkdir", json!({ "path": format!("{path}/new") })),
        ("fs_move", json!({ "from": path, "to": "new" })),
        ("fs_move", json!({ "from": "in.mp3", "to": format!("{path}/new"), "mkdir_parents": true })),
        ("fs_scan_audio", json!({ "root": path })),
        ("fs_hash", json!({ "path": path })),
        ("find_duplicates", json!({ "root": path })),
        ("read_metadata", json!({ "path": path })),
        ("write_metadata", json!({ "path": path, "title": "T" })),
        ("embed_cover", json!({ "path": path, "image_bytes_base64": cover })),
        ("embed_cover", json!({ "path": "in.mp3", "image_path": path })),
        ("extract_picture", json!({ "path": path, "to": "x" })),
        ("inventory_divergences", json!({ "root": path, "path_template": "{title}" })),
    ]
}

#[tokio::test]
async fn no_tool_leaves_the_root() {
    let mut music = Music::new().await;
    audio::put(&music.root().join("in.mp3"));
    audio::put(&music.folder.path().join("out/out.mp3"));
    symlink("../out", music.root().join("link")).unwrap();
    let before = tree(music.folder.path());
    let absolute = music.folder.path().join("out/out.mp3").display().to_string();
    for path in ["../out/out.mp3", "../out", &absolute, "/etc/passwd", "a/../../out", "link/out.mp3"] {
        for (tool, arguments) in calls(path) {
            let said = music.failure(tool, arguments.clone()).await;
            assert!(
                said.contains("outside of the root") || said.contains("symbolic link"),
                "{tool} {arguments}: {said}"
            );
            assert!(said.contains("Hint: "), "{tool}: {said}");
        }
    }
    assert_eq!(tree(music.folder.path()), before);
}

#[tokio::test]
async fn links_out_are_refused_where_links_are_allowed() {
    let mut music = Music::with(json!({ "allow_symlinks": true })).await;
    audio::put(&music.root().join("real/in.mp3"));
    audio::put(&music.folder.path().join("out/out.mp3"));
    symlink("../out", music.root().join("link")).unwrap();
    symlink("real", music.root().join("inside")).unwrap();
    symlink(".", music.root().join("real/circle")).unwrap();
    let said = music.failure("read_metadata", json!({ "path": "link/out.mp3" })).await;
    assert!(said.contains("leads outside"), "{said}");
    music.call("read_metadata", json!({ "path": "inside/in.mp3" })).await;
    let scan = music.call("fs_scan_audio", json!({ "root": "." })).await;
    let paths: Vec<&str> =
        scan["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["inside/in.mp3", "real/in.mp3"]);
    assert!(scan["warnings"].as_array().unwrap().len() >= 2, "{scan}");
}
