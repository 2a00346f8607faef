//! The keys of the pack, in every way they can be given: where a relative path starts, what a typo does, and that a
//! secret stays one.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{Client, toolyard};

/// Several folders with a `library` in each, whose content identifies the folder.
fn home() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    for place in ["conf", "elsewhere", ".config/toolyard"] {
        let library = home.path().join(place).join("library");
        fs::create_dir_all(&library).unwrap();
        fs::write(library.join(place.replace('/', "-").trim_start_matches('.')), "").unwrap();
    }
    for place in ["conf", ".config/toolyard"] {
        fs::write(home.path().join(place).join("config.toml"), "[packs.music]\nroot = \"library\"\n")
            .unwrap();
    }
    home
}

/// From a folder that is neither that of the program nor that of a config.
fn elsewhere(home: &Path, words: &[&str]) -> Command {
    let mut command = toolyard(home, words);
    command.current_dir(home.join("elsewhere"));
    command
}

fn names(listed: &Value) -> Vec<&str> {
    let entries = listed["structuredContent"]["entries"].as_array();
    entries
        .unwrap_or_else(|| panic!("{listed}"))
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect()
}

#[test]
fn a_relative_root_starts_where_it_was_written() {
    let home = home();
    let check = |words: &[&str], expected: &str| {
        let mut music = Client::of(elsewhere(home.path(), words));
        let listed = music.call("fs_list_dir", &json!({ "path": "." }));
        assert_eq!(names(&listed), [expected], "{words:?}");
    };
    check(&["pack", "music", "--root", "library"], "elsewhere");
    check(&["pack", "music", "--root", "../conf/library"], "conf");
    check(&["pack", "music", "--config", "../conf/config.toml"], "conf");
    check(&["pack", "music", "--config", "../conf/config.toml", "--root", "library"], "elsewhere");
    check(&["pack", "music"], "config-toolyard");
}

#[test]
fn a_relative_root_starts_where_it_was_written_for_the_gateway_too() {
    let home = home();
    for (config, expected) in [(Some("../conf/config.toml"), "conf"), (None, "config-toolyard")] {
        let mut command = elsewhere(home.path(), &["tools", "call", "music:fs_list_dir", "path=.", "--json"]);
        command.args(config.into_iter().flat_map(|config| ["--config", config]));
        let printed = command.output().unwrap();
        let listed: Value = serde_json::from_slice(&printed.stdout).unwrap_or_else(|_| panic!("{printed:?}"));
        assert_eq!(names(&listed), [expected]);
    }
}

/// Users of a server that is configured by variables can go on using them, by name.
#[test]
fn keys_can_be_taken_from_variables() {
    let home = home();
    let config = "[packs.music]\nroot = \"${MCP_ROOT_PATH}\"\nacoustid_key = \"${MCP_ACOUSTID_API_KEY:-}\"\n";
    fs::write(home.path().join("elsewhere/vars.toml"), config).unwrap();
    let mut command = elsewhere(home.path(), &["pack", "music", "--config", "vars.toml"]);
    command.env("MCP_ROOT_PATH", home.path().join("conf/library"));
    let mut music = Client::of(command);
    assert_eq!(names(&music.call("fs_list_dir", &json!({ "path": "." }))), ["conf"]);
    let refused = elsewhere(home.path(), &["pack", "music", "--config", "vars.toml"]).output().unwrap();
    let printed = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && printed.contains("MCP_ROOT_PATH"), "{printed}");
}

#[test]
fn a_key_that_is_wrong_is_refused_with_its_name() {
    let home = home();
    for (words, expected) in [
        (&["--root", "library", "--allow_symlinks", "maybe"][..], "allow-symlinks"),
        (&["--root", "library", "--alow_symlinks", "true"], "allow-symlinks"),
        (&["--allow_symlinks", "true", "--config", "empty.toml"], "root"),
    ] {
        fs::write(home.path().join("elsewhere/empty.toml"), "").unwrap();
        let refused = elsewhere(home.path(), &[&["pack", "music"], words].concat()).output().unwrap();
        let printed = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && printed.contains(expected), "{words:?}: {printed}");
    }
}

#[test]
fn a_key_that_is_true_or_false_needs_no_value() {
    let home = home();
    let library = home.path().join("elsewhere/library");
    fs::create_dir(library.join("real")).unwrap();
    fs::write(library.join("real/inside"), "").unwrap();
    symlink("real", library.join("link")).unwrap();
    let listed = |words: &[&str]| {
        let mut music = Client::of(elsewhere(home.path(), &[&["pack", "music"], words].concat()));
        music.call("fs_list_dir", &json!({ "path": "link" }))
    };
    let refused = listed(&["--root", "library"]);
    assert!(refused.to_string().contains("allow_symlinks"), "{refused}");
    for words in [["--root", "library", "--allow-symlinks"], ["--allow-symlinks", "--root", "library"]] {
        assert_eq!(names(&listed(&words)), ["inside"], "{words:?}");
    }
}

#[test]
fn a_secret_is_never_shown() {
    let home = home();
    let secret = "very-secret-key";
    let mut command =
        elsewhere(home.path(), &["pack", "music", "-vv", "--root", "library", "--acoustid_key", secret]);
    command.args(["--acoustid_url", "http://127.0.0.1:1"]);
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for (id, method, params) in [
        (
            1,
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } }),
        ),
        (2, "tools/call", json!({ "name": "mb_identify_record", "arguments": { "file_path": "elsewhere" } })),
        (3, "resources/read", json!({ "uri": "music://info" })),
    ] {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(input, "{request}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(!line.contains(secret), "{line}");
    }
    drop(input);
    let mut printed = String::new();
    child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    child.wait().unwrap();
    assert!(!printed.contains(secret), "{printed}");
}
