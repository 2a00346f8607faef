//! `toolyard install` at a terminal, where it asks.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use nix::pty::openpty;

use crate::gateway::Home;

const FILE: &str = ".cursor/mcp.json";

/// Answers the question, after `meanwhile`: exit code, and what is printed on stderr after the question.
fn answer(home: &Home, words: &[&str], answer: &str, meanwhile: impl FnOnce()) -> (i32, String) {
    let terminal = openpty(None, None).unwrap();
    let mut command = home.toolyard(words);
    let mut child = command.stdin(Stdio::from(terminal.slave)).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.ends_with("? [y/N]\n") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it asks nothing");
    }
    meanwhile();
    fs::File::from(terminal.master.try_clone().unwrap()).write_all(format!("{answer}\n").as_bytes()).unwrap();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    (child.wait().unwrap().code().unwrap(), rest)
}

#[test]
fn at_a_terminal_it_asks_and_follows_the_answer() {
    let home = Home::new();
    home.write(FILE, "{}\n");
    let text = || fs::read_to_string(home.path(FILE)).unwrap();
    assert_eq!(answer(&home, &["install", "cursor"], "n", || ()), (0, String::new()));
    assert_eq!(text(), "{}\n");
    assert_eq!(answer(&home, &["install", "cursor"], "y", || ()), (0, String::new()));
    assert!(text().contains("\"toolyard\""), "{}", text());
    assert_eq!(answer(&home, &["uninstall", "cursor"], "yes", || ()), (0, String::new()));
    assert_eq!(text(), "{}\n");
}

#[test]
fn changes_of_the_file_during_the_question_are_not_lost() {
    let home = Home::new();
    home.write(FILE, "{}\n");
    let meanwhile = || {
        home.write(FILE, "{ \"mcpServers\": { \"new\": {} } }\n");
    };
    let (code, printed) = answer(&home, &["install", "cursor"], "y", meanwhile);
    assert_eq!(code, 1);
    assert!(printed.contains("another program changed the file"), "{printed}");
    assert_eq!(fs::read_to_string(home.path(FILE)).unwrap(), "{ \"mcpServers\": { \"new\": {} } }\n");
    assert_eq!(fs::read_dir(home.path(".cursor")).unwrap().count(), 1, "nothing is left beside it");
}
