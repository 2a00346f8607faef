//! A program with tasks that last, killed between every two steps of a task's life. The program is this test itself,
//! started again: it reads requests from stdin and writes answers to stdout.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![expect(clippy::print_stdout, reason = "the program answers on stdout")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolyard_host::{HostSettings, Hosts};
use toolyard_model::{AnswerBody, ClientKey, Handler, Origin, Peer, Principal, Request, View};
use toolyard_proto::{Id, Method, Raw, Revision};
use toolyard_tool::{Context, Pack, ToolError, ToolSet, tool};

const FOLDER: &str = "TOOLYARD_TEST_TASKS";

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

struct Place(PathBuf);

/// Ends when a file is there.
#[tool(task, keep = "1h")]
async fn wait(place: &Place) -> &'static str {
    while !place.0.join("go").exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    "done"
}

/// Asks twice, and can be run again.
#[tool(task, keep = "1h", resume)]
async fn greet(context: &Context) -> Result<String, ToolError> {
    let first = context.ask::<Name>("Your first name?").await?.accepted()?.name;
    let last = context.ask::<Name>("Your last name?").await?.accepted()?.name;
    Ok(format!("Hello, {first} {last}"))
}

/// The program; nothing when the tests are run.
#[tokio::test]
async fn program() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let hosts = Hosts::new(HostSettings { state: Some(folder.clone()), ..HostSettings::default() });
    let pack = Pack::with_host("kills", "Lasts.", move |_: Nothing, _| {
        ToolSet::new("kills", "1").state(Place(folder.clone())).with::<wait>().with::<greet>()
    });
    let set = Arc::new(pack.tools_in(json!({}), hosts.host("kills")).unwrap());
    let _connected = set.connect();
    println!();
    for line in std::io::stdin().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(20), answer(&set, &request)).await.unwrap();
        println!("{answer}");
    }
}

async fn answer(set: &ToolSet, request: &Value) -> Value {
    let tasks = json!({ "io.modelcontextprotocol/tasks": {} });
    let (principal, revision) = match request["as"].as_str() {
        Some("legacy") => (Principal::local(), Revision::V2025_11_25),
        Some(name) => (Principal::token(name), Revision::NEWEST),
        None => (Principal::local(), Revision::NEWEST),
    };
    let origin = Origin::new(View::Everything, principal, ClientKey::Request(1), revision)
        .with_capabilities(json!({ "extensions": tasks, "elicitation": {} }).into())
        .with_place(true, None);
    let method = Method::new(request["method"].as_str().unwrap());
    let request = Request::new(Arc::new(origin), Id::number(1), method, Raw::from(request["params"].clone()));
    match set.handle(request, Peer::none()).await {
        Ok(AnswerBody::Whole(result, _)) => result.read().unwrap(),
        Ok(AnswerBody::Stream(_)) => panic!("nothing streams here"),
        Err(error) => json!({ "error": error.message() }),
    }
}

/// The program, running.
struct Program {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Program {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["program", "--exact", "--nocapture"]).env(FOLDER, folder);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, stdin, stdout: BufReader::new(stdout) }
    }

    fn request(&mut self, request: &Value) -> Value {
        writeln!(self.stdin, "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the program ended");
            // The test harness writes lines, too.
            if line.starts_with('{') {
                return serde_json::from_str(&line).unwrap();
            }
        }
    }

    fn start_task(&mut self, tool: &str) -> Value {
        let started = self.request(&json!({ "method": "tools/call", "params": { "name": tool } }));
        started["taskId"].clone()
    }

    fn until(&mut self, id: &Value, status: &str) -> Value {
        for _ in 0..2_000 {
            let task = self.request(&json!({ "method": "tasks/get", "params": { "taskId": id } }));
            if task["status"] == status {
                return task;
            }
            assert!(["working", "input_required"].contains(&task["status"].as_str().unwrap()), "{task}");
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it is never {status}");
    }

    /// A task that is cancelled has no question any longer.
    fn until_cancelled(&mut self, id: &Value) {
        assert_eq!(self.until(id, "cancelled").get("inputRequests"), None);
    }

    fn answer(&mut self, id: &Value, key: &str, name: &str) {
        let answers = json!({ key: { "action": "accept", "content": { "name": name } } });
        let params = json!({ "taskId": id, "inputResponses": answers });
        assert_eq!(
            self.request(&json!({ "method": "tasks/update", "params": params }))["error"],
            Value::Null
        );
    }

    /// SIGKILL, and another one with the same folder.
    fn kill(mut self, folder: &Path) -> Self {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        Self::start(folder)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_resumable_task_survives_a_kill_after_each_of_its_steps() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::start(folder.path());
    let id = program.start_task("greet");
    program = program.kill(folder.path());
    let asked = program.until(&id, "input_required");
    program = program.kill(folder.path());
    assert_eq!(program.until(&id, "input_required")["inputRequests"], asked["inputRequests"]);
    program.answer(&id, "question-1", "Ann");
    program = program.kill(folder.path());
    let second = loop {
        let task = program.until(&id, "input_required");
        if task["inputRequests"].get("question-2").is_some() {
            break task;
        }
    };
    assert_eq!(second["inputRequests"].as_object().unwrap().len(), 1, "the first is answered: {second}");
    program.answer(&id, "question-1", "Eve");
    program = program.kill(folder.path());
    program.answer(&id, "question-2", "Lee");
    program = program.kill(folder.path());
    let done = program.until(&id, "completed");
    assert_eq!(done["result"]["content"][0]["text"], "Hello, Ann Lee");
    program = program.kill(folder.path());
    assert_eq!(program.until(&id, "completed")["result"], done["result"]);
}

#[test]
fn a_task_that_cannot_be_resumed_has_failed_after_a_kill_and_what_has_ended_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::start(folder.path());
    let (running, cancelled) = (program.start_task("wait"), program.start_task("wait"));
    program.request(&json!({ "method": "tasks/cancel", "params": { "taskId": cancelled } }));
    program = program.kill(folder.path());
    let lost = program.until(&running, "failed");
    assert_eq!(lost["error"]["message"], "the gateway was stopped while the task was running");
    program.until(&cancelled, "cancelled");
    let done = program.start_task("wait");
    std::fs::write(folder.path().join("go"), "").unwrap();
    program.until(&done, "completed");
    program = program.kill(folder.path());
    program.until(&done, "completed");
    let listed = program.request(&json!({ "as": "legacy", "method": "tasks/list", "params": {} }));
    let mut statuses: Vec<_> =
        listed["tasks"].as_array().unwrap().iter().map(|task| task["status"].as_str().unwrap()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["cancelled", "completed", "failed"]);
    let result = json!({ "as": "legacy", "method": "tasks/result", "params": { "taskId": done } });
    assert_eq!(program.request(&result)["content"][0]["text"], "done");
    let other = json!({ "as": "bob", "method": "tasks/get", "params": { "taskId": done } });
    assert!(program.request(&other)["error"].as_str().unwrap().contains("unknown task"));
}

#[test]
fn a_task_that_waits_for_an_answer_is_cancelled_after_a_kill_and_stays_cancelled_after_another() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::start(folder.path());
    let (asked_again, untouched) = (program.start_task("greet"), program.start_task("greet"));
    for id in [&asked_again, &untouched] {
        program.until(id, "input_required");
    }
    program = program.kill(folder.path());
    program.until(&asked_again, "input_required");
    for id in [&asked_again, &untouched] {
        let cancelled = program.request(&json!({ "method": "tasks/cancel", "params": { "taskId": id } }));
        assert_eq!(cancelled["error"], Value::Null);
        program.until_cancelled(id);
    }
    program = program.kill(folder.path());
    for id in [&asked_again, &untouched] {
        program.until_cancelled(id);
        program.answer(id, "question-1", "Ann");
        program.until_cancelled(id);
    }
}
