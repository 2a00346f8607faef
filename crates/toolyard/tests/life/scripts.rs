//! The pack `scripts` as an agent uses it: it lists the scripts of a project, starts the dev server, reads its log and
//! stops it, and nothing is left of it when the gateway is killed.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::shims::Client;
use crate::yard::{Yard, command_line, none, soon};

/// A dev server with a helper that does not end by itself.
const DEV: &str =
    "echo 'ready on http://localhost:5173'\necho 'WARN: slow disk' >&2\nsleep 998 &\nexec sleep 999\n";

/// A project with a dev server and a build, which the user has trusted.
fn yard() -> Yard {
    let yard = Yard::new(&[]);
    yard.also("[packs.scripts]\nroot = \".\"\ncommands = { dev = [\"sh\", \"dev.sh\"], build = [\"sh\", \"-c\", \"echo done; exit 3\"] }\n");
    std::fs::write(yard.folder().join("dev.sh"), DEV).unwrap();
    yard
}

fn trust(yard: &Yard) {
    assert!(yard.toolyard().arg("trust").arg(yard.folder()).output().unwrap().status.success());
}

fn call(client: &mut Client, tool: &str, arguments: &Value) -> Value {
    let params = json!({ "name": format!("scripts__{tool}"), "arguments": arguments });
    client.ask("tools/call", &params)["result"].clone()
}

/// The sleeping processes of the dev server.
fn sleeping(yard: &Yard) -> Vec<String> {
    let lines = yard.processes().into_iter().map(|process| command_line(process.id));
    lines.filter(|line| line.starts_with("sleep")).collect()
}

#[test]
fn an_agent_starts_the_dev_server_reads_its_log_and_stops_it() {
    let yard = yard();
    let mut client = Client::start(&yard);
    let listed = call(&mut client, "list", &json!({}));
    let ids: Vec<&Value> = listed["structuredContent"]["scripts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|script| &script["id"])
        .collect();
    assert_eq!(ids, ["build", "dev"], "{listed}");
    let refused = call(&mut client, "run", &json!({ "script": "dev" }));
    assert!(refused.to_string().contains("toolyard trust"), "{refused}");
    trust(&yard);
    let started = call(&mut client, "run", &json!({ "script": "dev" }))["structuredContent"].clone();
    assert_eq!((&started["id"], &started["state"]), (&json!("dev#1"), &json!("running")), "{started}");
    let ready = call(&mut client, "logs", &json!({ "script": "dev", "matching": "ready on", "wait": 30 }));
    let ready = &ready["structuredContent"];
    assert_eq!(ready["lines"][0]["text"], "ready on http://localhost:5173", "{ready}");
    let warned = call(&mut client, "logs", &json!({ "script": "dev", "level": "warn", "wait": 30 }));
    let warned = &warned["structuredContent"]["lines"];
    assert_eq!((&warned[0]["text"], &warned[0]["stream"]), (&json!("WARN: slow disk"), &json!("stderr")));
    let again = call(&mut client, "run", &json!({ "script": "dev" }));
    assert!(again.to_string().contains("runs already, as `dev#1`"), "{again}");
    soon("both processes", || if sleeping(&yard).len() == 2 { Ok(()) } else { Err("fewer".to_owned()) });
    let stopped = call(&mut client, "stop", &json!({ "script": "dev#1" }))["structuredContent"].clone();
    assert_eq!(stopped["state"], "stopped", "{stopped}");
    soon("the end of the dev server and its helper", || none(&sleeping(&yard)));
    call(&mut client, "run", &json!({ "script": "build" }));
    let built = call(&mut client, "logs", &json!({ "script": "build", "after": 1, "wait": 30 }));
    let built = &built["structuredContent"];
    assert_eq!((&built["state"], &built["exit_code"]), (&json!("exited"), &json!(3)), "{built}");
    let status = call(&mut client, "status", &json!({}))["structuredContent"].clone();
    assert_eq!(
        (&status["scripts"][0]["id"], &status["scripts"][1]["state"]),
        (&json!("build#2"), &json!("stopped"))
    );
}

#[test]
fn an_agent_reads_only_the_lines_of_the_last_seconds() {
    let yard = yard();
    let text = "echo old\nsleep 3\necho new\nexec sleep 999\n";
    std::fs::write(yard.folder().join("dev.sh"), text).unwrap();
    trust(&yard);
    let mut client = Client::start(&yard);
    call(&mut client, "run", &json!({ "script": "dev" }));
    call(&mut client, "logs", &json!({ "script": "dev", "matching": "new", "wait": 60 }));
    let mut read = |since: Option<u64>| {
        let mut wanted = json!({ "script": "dev" });
        if let Some(since) = since {
            wanted["since_seconds"] = json!(since);
        }
        let read = call(&mut client, "logs", &wanted)["structuredContent"].clone();
        let lines = read["lines"].as_array().unwrap_or_else(|| panic!("{read}")).clone();
        lines
            .iter()
            .map(|line| (line["text"].clone(), line["seconds_ago"].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    // The second answer may come late; the new line is three seconds younger, however long it takes.
    soon("the new line alone", || {
        let all = read(None);
        assert_eq!([&all[0].0, &all[1].0], ["old", "new"]);
        let lines: Vec<Value> = read(Some(all[0].1 - 1)).into_iter().map(|(text, _)| text).collect();
        assert!(!lines.contains(&json!("old")), "{lines:?}");
        if lines == ["new"] { Ok(()) } else { Err(format!("{lines:?}")) }
    });
    assert_eq!(read(Some(1_000)).len(), 2);
}

#[test]
fn nothing_of_a_dev_server_is_left_when_the_gateway_is_killed() {
    let yard = yard();
    trust(&yard);
    let mut client = Client::start(&yard);
    call(&mut client, "run", &json!({ "script": "dev" }));
    soon("both processes", || if sleeping(&yard).len() == 2 { Ok(()) } else { Err("fewer".to_owned()) });
    let running = yard.processes();
    let gateway = running.iter().find(|process| command_line(process.id).contains("--while-needed")).unwrap();
    kill(Pid::from_raw(gateway.id), Signal::SIGKILL).unwrap();
    soon("the end of the dev server and its helper", || none(&sleeping(&yard)));
}

#[test]
fn a_script_in_the_foreground_ends_with_its_code_and_is_ended_with_the_command() {
    let yard = yard();
    let run = |arguments: &[&str]| yard.toolyard().arg("run").args(arguments).output().unwrap();
    let ran = run(&["--", "sh", "-c", "echo out; echo 'error: bad' >&2; exit 5"]);
    assert_eq!(ran.status.code(), Some(5), "{ran:?}");
    let ran = run(&["--level", "error", "--", "sh", "-c", "echo out; echo 'error: bad' >&2"]);
    assert_eq!((ran.status.code(), String::from_utf8_lossy(&ran.stdout).as_ref()), (Some(0), "error: bad\n"));
    let mut running = yard.toolyard().args(["run", "--", "sh", "dev.sh"]).spawn().unwrap();
    soon("both processes", || if sleeping(&yard).len() == 2 { Ok(()) } else { Err("fewer".to_owned()) });
    running.kill().unwrap();
    running.wait().unwrap();
    soon("the end of the dev server and its helper", || none(&sleeping(&yard)));
}

#[test]
fn a_reader_in_another_process_gets_every_line_of_a_burst() {
    let yard = yard();
    let script = "echo ready; until test -e go; do sleep 0.05; done; seq 5000; until test -e done; do sleep 0.05; done";
    let mut running =
        yard.toolyard().args(["run", "--", "sh", "-c", script]).stdout(Stdio::null()).spawn().unwrap();
    soon("the run", || {
        let listed = yard.toolyard().args(["run", "--status", "--json"]).output().unwrap();
        if String::from_utf8_lossy(&listed.stdout).contains("command") {
            Ok(())
        } else {
            Err(format!("{listed:?}"))
        }
    });
    let mut reader =
        yard.toolyard().args(["run", "--logs", "command", "-f"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(reader.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "ready");
    std::fs::write(yard.folder().join("go"), "").unwrap();
    for number in 1..=5000 {
        assert_eq!(lines.next().unwrap(), number.to_string());
    }
    std::fs::write(yard.folder().join("done"), "").unwrap();
    assert_eq!(lines.next(), None);
    assert!(reader.wait().unwrap().success() && running.wait().unwrap().success());
}
