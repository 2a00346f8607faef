//! `toolyard tools call` at a terminal: a tool asks in the middle of a call, and the user answers.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use nix::pty::openpty;

use crate::fixture::{fixture, serve_fixture};
use crate::gateway::{Gateway, Reach};

/// What the user reads, and what is printed at the end, if each line of `questions` is answered by the line beside it.
fn converse(arguments: &[&str], questions: &[(&str, &str)]) -> (i32, String) {
    let home = tempfile::tempdir().unwrap();
    let terminal = openpty(None, None).unwrap();
    let mut keyboard = fs::File::from(terminal.master);
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolyard"));
    command.args(["tools", "call"]).args(arguments).env_clear().env("HOME", home.path());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).current_dir(home.path());
    command.stdin(Stdio::from(terminal.slave)).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    for (question, answer) in questions {
        let mut line = String::new();
        while line.trim_end() != *question {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it does not ask `{question}`");
        }
        keyboard.write_all(answer.as_bytes()).unwrap();
        keyboard.write_all(b"\n").unwrap();
    }
    let (mut rest, mut printed) = (String::new(), String::new());
    stderr.read_to_string(&mut rest).unwrap();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    (child.wait().unwrap().code().unwrap(), printed)
}

const NAME: (&str, &str) = ("  name (string)", "Ada");

#[test]
fn a_program_of_either_era_is_answered_on_the_terminal() {
    for era in ["legacy", "modern"] {
        let fixture = fixture();
        let words = ["test_streaming_elicitation", "--", &fixture, "--stdio", "--era", era];
        assert_eq!(converse(&words, &[NAME]), (0, "Hello, Ada!\n".to_owned()), "{era}");
    }
}

#[test]
fn a_server_at_an_address_is_answered_on_the_terminal() {
    let (_program, reach) = serve_fixture("both");
    let Reach::Url(url) = reach else { unreachable!("it is behind HTTP") };
    let defaults = [
        ("  name (string, default \"John Doe\"): User name", ""),
        ("  age (integer, default 30): User age", "thirty"),
        ("`age` must be of type integer", "31"),
        ("  score (number, default 95.5): User score", ""),
        ("  status (active|inactive|pending, default \"active\"): User status", "pending"),
        ("  verified (boolean, default true): Verification status", "no"),
    ];
    let (code, printed) = converse(&["test_elicitation_sep1034_defaults", "--url", &url], &defaults);
    let content = r#"{"name":"John Doe","age":31,"score":95.5,"status":"pending","verified":false}"#;
    assert_eq!((code, printed), (0, format!("Elicitation completed: action=accept, content={content}\n")));
}

#[test]
fn a_gateway_that_runs_passes_the_question_on() {
    let gateway = Gateway::before(&[(
        "fix",
        Reach::Child([fixture().as_str(), "--stdio"].map(str::to_owned).to_vec()),
        "",
    )]);
    let (config, state) = (gateway.home().join("config.toml"), gateway.home().join("state"));
    let (config, state) = (config.to_str().unwrap(), state.to_str().unwrap());
    let words = ["fix:test_waiting_elicitation", "--config", config, "--state-dir", state];
    let expected = "Hello, Ada, it was worth the wait!\n".to_owned();
    assert_eq!(converse(&words, &[NAME]), (0, expected));
}
