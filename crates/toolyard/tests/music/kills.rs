//! Killed in the middle of the work: a file is the old one or the new one, and a plan can be undone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::doors::wav;
use crate::program::Client;

fn music(home: &Path) -> (Client, u32) {
    Client::stdio(home, &["pack", "music", "--root", "library"])
}

fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !look() {
        assert!(Instant::now() < deadline, "{what} never happened");
        std::thread::yield_now();
    }
}

fn end(process: u32) {
    kill(Pid::from_raw(i32::try_from(process).unwrap()), Signal::SIGKILL).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Drafts whose writer was killed.
fn leftovers(folder: &Path) -> Vec<String> {
    names(folder).into_iter().filter(|name| name.starts_with(".toolyard-tmp-")).collect()
}

#[test]
fn a_file_is_the_old_one_or_the_new_one() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("library");
    fs::create_dir(&root).unwrap();
    // Large enough to be met while it is written.
    let mut old = wav();
    let size = 60_000_000_u32;
    old[4..8].copy_from_slice(&(36 + size).to_le_bytes());
    old[40..44].copy_from_slice(&size.to_le_bytes());
    old.resize(44 + size as usize, 0);
    let path = root.join("a.wav");
    fs::write(&path, &old).unwrap();
    let mut met = 0;
    for round in 0..8 {
        let (mut client, process) = music(home.path());
        let left = leftovers(&root);
        let before = fs::read(&path).unwrap();
        let write = json!({ "path": "a.wav", "title": format!("title {round}") });
        client.send("tools/call", &json!({ "name": "write_metadata", "arguments": write }));
        eventually("a draft", || {
            leftovers(&root).iter().any(|name| !left.contains(name))
                || fs::metadata(&path).unwrap().len() != before.len() as u64
        });
        std::thread::sleep(Duration::from_millis(15 * round));
        end(process);
        drop(client);
        let is_old = fs::read(&path).unwrap() == before;
        let (mut client, _) = music(home.path());
        let read = client.call("read_metadata", &json!({ "path": "a.wav", "include_properties": true }));
        let title = read["structuredContent"]["metadata"]["title"].clone();
        assert!(is_old || title == format!("title {round}"), "{read}");
        assert!(
            read["structuredContent"]["properties"]["duration_seconds"].as_f64().unwrap() > 3000.0,
            "{read}"
        );
        met += u32::from(is_old);
        // As if an hour had passed: the next write into the folder removes them.
        for draft in leftovers(&root) {
            let draft = fs::File::options().write(true).open(root.join(draft)).unwrap();
            draft.set_modified(SystemTime::now() - Duration::from_mins(61)).unwrap();
        }
        assert!(leftovers(&root).len() <= 1, "the one before is still there");
    }
    assert!(met > 0, "no process was killed in the middle of writing");
    let (mut client, _) = music(home.path());
    client.call("write_metadata", &json!({ "path": "a.wav", "title": "last" }));
    assert_eq!(names(&root), ["a.wav"]);
}

/// Everything in the library but the pack's own files and unfinished drafts.
fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut todo) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(at) = todo.pop() {
        for name in names(&at).into_iter().filter(|name| !name.starts_with(".toolyard")) {
            let path = at.join(name);
            if path.is_dir() {
                todo.push(path.clone());
            }
            found.insert(path.clone(), fs::read(&path).unwrap_or_default());
        }
    }
    found
}

#[test]
fn a_plan_that_was_cut_off_is_undone() {
    for after in [1, 17, 60] {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("library");
        fs::create_dir(&root).unwrap();
        for index in 0..100 {
            fs::write(root.join(format!("{index:02}.wav")), wav()).unwrap();
        }
        let before = tree(&root);
        let operations: Vec<Value> = (0..100)
            .flat_map(|index| {
                let (from, to) = (format!("{index:02}.wav"), format!("Album {}/{index:02}.wav", index % 7));
                [
                    json!({ "op": "move", "from": from, "to": to, "mkdir_parents": true }),
                    json!({ "op": "write_metadata", "path": to, "title": format!("T{index}") }),
                ]
            })
            .collect();
        let (mut client, process) = music(home.path());
        client
            .send("tools/call", &json!({ "name": "apply_plan", "arguments": { "operations": operations } }));
        let moved = root.join(format!("Album {}/{after:02}.wav", after % 7));
        eventually("a move", || moved.exists());
        end(process);
        drop(client);
        assert_ne!(tree(&root), before);
        let (mut client, _) = music(home.path());
        let listed = client.call("plan_list", &json!({}));
        assert!(
            listed["structuredContent"]["plans"][0]["done"].as_u64().unwrap() < 200,
            "it was over already"
        );
        let undone = client.call("undo_plan", &json!({}));
        assert_eq!(undone["structuredContent"]["complete"], true, "{undone}");
        let after = tree(&root);
        assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
        assert!(after == before, "some content differs");
    }
}
