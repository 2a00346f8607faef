//! Listing, moving, making, deleting, hashing, duplicates, manifests.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::audio;
use crate::client::{Music, tree};

#[tokio::test]
async fn a_folder_is_listed_as_deep_as_asked() {
    let mut music = Music::new().await;
    audio::put(&music.root().join("b/c/a.mp3"));
    fs::write(music.root().join("a.txt"), "12345").unwrap();
    fs::write(music.root().join(".hidden"), "").unwrap();
    symlink("/etc", music.root().join("z")).unwrap();
    let flat = music.call("fs_list_dir", json!({ "path": ".", "detailed": true })).await;
    assert_eq!(
        flat["entries"],
        json!([
            { "name": "a.txt", "type": "file", "size": 5 },
            { "name": "b", "type": "directory" },
            { "name": "z", "type": "symlink" },
        ])
    );
    assert_eq!((&flat["dir_count"], &flat["file_count"]), (&json!(1), &json!(1)));
    let deep = music
        .call("fs_list_dir", json!({ "path": ".", "recursive_depth": -1, "include_hidden": true }))
        .await;
    assert_eq!(deep["entries"][0]["name"], ".hidden");
    assert_eq!(deep["entries"][2]["children"][0]["children"][0]["name"], "a.mp3");
    for index in 0..1001 {
        fs::write(music.root().join(format!("b/{index}")), "").unwrap();
    }
    let many = music.call("fs_list_dir", json!({ "path": "b" })).await;
    assert_eq!(many["entries"].as_array().unwrap().len(), 1000);
    assert!(many["warnings"][0].as_str().unwrap().contains("first 1000"));
    let wrong = music.failure("fs_list_dir", json!({ "path": "nowhere" })).await;
    assert!(wrong.contains("does not exist\nHint: `fs_list_dir`"), "{wrong}");
}

#[tokio::test]
async fn folders_are_made_and_things_are_moved_and_deleted() {
    let mut music = Music::new().await;
    audio::put(&music.root().join("a.mp3"));
    let dry = music.call("fs_mkdir", json!({ "path": "x/y", "dry_run": true })).await;
    assert_eq!(dry["created"], json!(["x", "x/y"]));
    assert!(!music.root().join("x").exists());
    let refused = music.failure("fs_mkdir", json!({ "path": "x/y", "recursive": false })).await;
    assert!(refused.contains("recursive: true"), "{refused}");
    music.call("fs_mkdir", json!({ "path": "x/y" })).await;
    let again = music.call("fs_mkdir", json!({ "path": "x/y" })).await;
    assert_eq!((&again["already_existed"], &again["created"]), (&json!(true), &json!([])));
    let moved = music
        .call(
            "fs_move",
            json!({ "from": "a.mp3", "to": "n/o/a.mp3", "mkdir_parents": true, "dry_run": true }),
        )
        .await;
    assert_eq!(moved["created_parents"], json!(["n", "n/o"]));
    assert!(music.root().join("a.mp3").exists());
    let moved =
        music.call("fs_move", json!({ "from": "a.mp3", "to": "n/o/a.mp3", "mkdir_parents": true })).await;
    assert_eq!((&moved["strategy"], &moved["overwritten"]), (&json!("rename"), &json!(false)));
    let renamed = music.call("fs_rename", json!({ "from": "n/o/a.mp3", "to": "n/o/b.mp3" })).await;
    assert_eq!((&renamed["operation"], &renamed["item_type"]), (&json!("renamed"), &json!("file")));
    let renamed = music.call("fs_rename", json!({ "from": "n/o/b.mp3", "to": "b.mp3" })).await;
    assert_eq!(renamed["operation"], "moved");
    let full = music.failure("fs_delete", json!({ "path": "x" })).await;
    assert!(full.contains("is not empty\nHint: pass `recursive: true`"), "{full}");
    let deleted = music.call("fs_delete", json!({ "path": "x", "recursive": true })).await;
    assert_eq!((&deleted["item_type"], &deleted["recursive"]), (&json!("directory"), &json!(true)));
    music.call("fs_delete", json!({ "path": "b.mp3" })).await;
    assert_eq!(
        tree(&music.root()).keys().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        ["n", "n/o"]
    );
}

#[tokio::test]
async fn nothing_is_replaced_unless_asked_and_the_root_stays() {
    let mut music = Music::new().await;
    fs::create_dir_all(music.root().join("d/e")).unwrap();
    for name in ["a", "b"] {
        fs::write(music.root().join(name), name).unwrap();
    }
    let before = tree(&music.root());
    let mut check = async |tool: &str, arguments: Value, words: &str| {
        let message = music.failure(tool, arguments).await;
        assert!(message.contains(words), "{message}");
        assert_eq!(tree(&music.root()), before);
    };
    check("fs_rename", json!({ "from": "a", "to": "b" }), "exists already").await;
    check("fs_move", json!({ "from": "a", "to": "b" }), "exists already").await;
    check("fs_move", json!({ "from": "a", "to": "b", "dry_run": true }), "exists already").await;
    check("fs_move", json!({ "from": "d", "to": "d/e/f" }), "into itself").await;
    check("fs_move", json!({ "from": "a", "to": "new/a" }), "mkdir_parents").await;
    check("fs_rename", json!({ "from": "a", "to": "new/a" }), "does not exist").await;
    check("fs_delete", json!({ "path": ".", "recursive": true }), "root folder itself").await;
    check("fs_move", json!({ "from": ".", "to": "d/x" }), "root folder itself").await;
    check("fs_delete", json!({ "path": "d/..", "recursive": true }), "outside of the root").await;
    let moved = music.call("fs_move", json!({ "from": "a", "to": "b", "overwrite": true })).await;
    assert_eq!(moved["overwritten"], true);
    assert_eq!(fs::read(music.root().join("b")).unwrap(), b"a");
}

#[tokio::test]
async fn a_link_is_deleted_itself() {
    let mut music = Music::with(json!({ "allow_symlinks": true })).await;
    fs::write(music.root().join("kept"), "").unwrap();
    symlink("kept", music.root().join("link")).unwrap();
    let deleted = music.call("fs_delete", json!({ "path": "link" })).await;
    assert_eq!(deleted["item_type"], "symlink");
    assert!(music.root().join("kept").exists());
}

#[tokio::test]
async fn files_of_the_same_content_are_found() {
    let mut music = Music::new().await;
    for name in ["a.mp3", "x/b.mp3", "x/c.MP3"] {
        fs::create_dir_all(music.root().join("x")).unwrap();
        fs::write(music.root().join(name), audio::tone("mp3")).unwrap();
    }
    let mut near = audio::tone("mp3");
    *near.last_mut().unwrap() ^= 1;
    fs::write(music.root().join("near.mp3"), near).unwrap();
    audio::put(&music.root().join("other.flac"));
    let found = music.call("find_duplicates", json!({ "root": "." })).await;
    let hash = music.call("fs_hash", json!({ "path": "a.mp3" })).await;
    assert_eq!(
        found["groups"],
        json!([{ "sha256": hash["sha256"], "bytes": hash["bytes"], "paths": ["a.mp3", "x/b.mp3", "x/c.MP3"] }])
    );
    assert_eq!(
        (&found["files_scanned"], &found["files_hashed"]),
        (&json!(5), &json!(4)),
        "other sizes are not read"
    );
    let cut = music.call("find_duplicates", json!({ "root": ".", "max_files": 2 })).await;
    assert_eq!((&cut["truncated"], &cut["files_scanned"]), (&json!(true), &json!(2)));
}

#[tokio::test]
async fn a_hash_is_that_of_the_standard() {
    let mut music = Music::new().await;
    fs::write(music.root().join("abc"), "abc").unwrap();
    let hash = music.call("fs_hash", json!({ "path": "abc" })).await;
    assert_eq!(hash["sha256"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    fs::File::create(music.root().join("huge")).unwrap().set_len(500 * 1024 * 1024 + 1).unwrap();
    let huge = music.failure("fs_hash", json!({ "path": "huge" })).await;
    assert!(huge.contains("larger than 500 MiB"), "{huge}");
}

#[tokio::test]
async fn manifests_stay_with_the_library() {
    let mut music = Music::new().await;
    let none = music.call("manifest_read", json!({ "id": "todo" })).await;
    assert_eq!(none, json!({ "id": "todo", "error": "NotFound" }));
    let empty = music.call("manifest_list", json!({})).await;
    assert_eq!(empty["total"], 0);
    let written = music.call("manifest_write", json!({ "id": "todo", "content": { "left": [1, 2] } })).await;
    assert_eq!(written["path"], ".toolyard/manifests/todo.json");
    music.call("manifest_write", json!({ "id": "todo", "content": { "left": [2] } })).await;
    let read = music.call("manifest_read", json!({ "id": "todo" })).await;
    assert_eq!(read["content"], json!({ "left": [2] }));
    let list = music.call("manifest_list", json!({})).await;
    assert_eq!((&list["total"], &list["manifests"][0]["id"]), (&json!(1), &json!("todo")));
    for id in ["", ".x", "a/b", "..", "ä", &"x".repeat(129)] {
        let refused = music.failure("manifest_write", json!({ "id": id, "content": 1 })).await;
        assert!(refused.contains("`id` must"), "{id}: {refused}");
    }
    let kept_out = music.failure("fs_delete", json!({ "path": ".toolyard", "recursive": true })).await;
    assert!(kept_out.contains("manifest_"), "{kept_out}");
}
