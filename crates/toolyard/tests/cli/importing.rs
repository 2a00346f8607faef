//! `toolyard import` at a terminal: it shows what it would import, offers the store for secrets, and asks before it
//! writes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use nix::pty::openpty;

use crate::gateway::Home;

const SERVERS: &str =
    r#"{ "mcpServers": { "github": { "command": "server", "env": { "GITHUB_TOKEN": "hunter2" } } } }"#;
const IMPORT: [&str; 3] = ["import", "--from", "servers.json"];
const STORE: &str = "put 1 of their secrets into the store of `toolyard secret`? [y/N]\n";

/// What is printed up to each question, which is answered with one of `answers`, and what is printed after the last.
fn converse(home: &Home, words: &[&str], answers: &[&str]) -> Vec<String> {
    let terminal = openpty(None, None).unwrap();
    let mut keyboard = fs::File::from(terminal.master);
    // One pipe for both, so that their order is seen.
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = home.toolyard(words);
    command.stdin(Stdio::from(terminal.slave)).stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut reader = BufReader::new(reader);
    let mut parts = Vec::new();
    for answer in answers {
        let mut part = String::new();
        while !part.ends_with("? [y/N]\n") {
            assert!(reader.read_line(&mut part).unwrap() > 0, "it does not ask after {parts:?}: {part}");
        }
        keyboard.write_all(format!("{answer}\n").as_bytes()).unwrap();
        parts.push(part);
    }
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{parts:?} {rest}");
    parts.push(rest);
    parts
}

fn home() -> Home {
    let home = Home::new();
    home.write("servers.json", SERVERS);
    home
}

fn config(home: &Home) -> String {
    fs::read_to_string(home.path(".config/toolyard/config.toml")).unwrap_or_default()
}

fn secrets(home: &Home) -> String {
    home.run(&["secret", "list"]).1
}

#[test]
fn it_offers_the_store_for_secrets_after_it_has_shown_what_would_be_imported() {
    let home = home();
    let parts = converse(&home, &IMPORT, &["y", "y"]);
    let plan = "+ github  server\n    github is off until GITHUB_TOKEN is set";
    assert!(parts[0].contains(plan) && parts[0].ends_with(STORE), "{parts:?}");
    let plan = "+ github  server\n    github: a secret goes into the store as github/GITHUB_TOKEN\nwrite 1 server to";
    assert!(parts[1].contains(plan), "{parts:?}");
    assert!(parts[2].contains("wrote 1 server to"), "{parts:?}");
    let config = config(&home);
    assert!(config.contains("${secret:github/GITHUB_TOKEN}") && !config.contains("hunter2"), "{config}");
    assert_eq!(secrets(&home), "github/GITHUB_TOKEN\n");
}

#[test]
fn secrets_stay_where_they_are_if_the_store_is_declined() {
    let home = home();
    let parts = converse(&home, &IMPORT, &["n", "y"]);
    assert!(!parts[1].contains("+ github") && parts[1].starts_with("write 1 server to"), "{parts:?}");
    let config = config(&home);
    assert!(config.contains("\"${GITHUB_TOKEN}\"") && !config.contains("hunter2"), "{config}");
    assert_eq!(secrets(&home), "");
}

#[test]
fn nothing_is_stored_if_the_import_is_declined() {
    let home = home();
    let parts = converse(&home, &IMPORT, &["y", "n"]);
    assert!(parts[2].contains("nothing was written"), "{parts:?}");
    assert_eq!((config(&home), secrets(&home)), (String::new(), String::new()));
}
