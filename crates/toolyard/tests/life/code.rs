//! The code pack in the gateway: what it lists, one language server for all clients, and what is left of a change and of
//! processes when something is killed.

use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::http;
use crate::shims::Client;
use crate::yard::{Gateway, OPERATOR, Yard, command_line, none, soon};

const FILES: [&str; 3] = ["one.word", "two.word", "three.word"];

/// A project of three files with a language server of its own.
struct Scene {
    yard: Yard,
    project: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let yard = Yard::new(&[]);
        let project = tempfile::tempdir().unwrap();
        for file in FILES {
            std::fs::write(project.path().join(file), "alpha beta\nalpha 🦀 alpha\n".repeat(2_000)).unwrap();
        }
        let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/life/word_server.py");
        let folder = toml::Value::from(project.path().to_str().unwrap());
        yard.also(&format!(
            "[listen]\noperator_token = \"{OPERATOR}\"\n[packs.code]\nprojects = [{folder}]\nwrite = true\nfiles = true\n\
             [packs.code.servers.words]\ncommand = [\"/usr/bin/env\", \"python3\", \"{server}\"]\nextensions = [\"word\"]\n"
        ));
        Self { yard, project }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.project.path().join(file)
    }

    /// How many words of the files are `word`.
    fn count(&self, word: &str) -> [usize; 3] {
        FILES.map(|file| std::fs::read_to_string(self.path(file)).unwrap().matches(word).count())
    }

    fn servers(&self) -> Vec<i32> {
        let all = self.yard.processes().into_iter().map(|process| process.id);
        let is_server = |id: &i32| {
            let line = command_line(*id);
            line.contains("word_server.py")
                && line.split(' ').next().is_some_and(|program| program.contains("python"))
        };
        all.filter(is_server).collect()
    }

    fn hover(&self, gateway: &Gateway) -> Value {
        let at = json!({ "file_path": self.path("one.word"), "line": 2, "character": 9 });
        gateway.call("code__lsp_hover", &at)["structuredContent"]["contents"].clone()
    }
}

#[test]
fn ten_tools_of_the_code_pack_are_listed_and_all_can_be_called_and_found() {
    let scene = Scene::new();
    let gateway = scene.yard.start();
    let listed = gateway.tools().into_iter().filter(|name| name.starts_with("code__")).count();
    assert_eq!(listed, 15, "ten, and five for files");
    let found = gateway.call("code__glob_files", &json!({ "pattern": "*.word" }));
    assert_eq!(found["structuredContent"]["total"], 3, "{found}");
    let search = gateway.call("yard__search_tools", &json!({ "query": "hover" }));
    assert_eq!(search["structuredContent"]["tools"][0]["name"], "code__lsp_hover", "{search}");
}

#[test]
fn without_configured_projects_the_callers_own_repository_is_open_to_a_proven_client_only() {
    let yard = Yard::new(&[]);
    yard.also("[packs.code]\n");
    for (path, text) in [(".git/HEAD", ""), ("src/slow.py", "def crawl():\n    pass\n")] {
        let path = yard.folder().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let mut client = Client::start(&yard);
    let search = json!({ "name": "code__glob_files", "arguments": { "pattern": "slow.*" } });
    let found = client.ask("tools/call", &search);
    assert_eq!(found["result"]["structuredContent"]["files"][0], "src/slow.py", "{found}");
    let outside = json!({ "name": "code__glob_files", "arguments": { "pattern": "*", "directory": "/etc" } });
    let refused = client.ask("tools/call", &outside);
    assert!(refused.to_string().contains("outside of the configured projects"), "{refused}");
    drop(client);
    let gateway = yard.start();
    let arguments = json!({ "pattern": "slow.*" });
    let refused = gateway.call("code__glob_files", &arguments);
    assert!(refused.to_string().contains("not known which project is meant"), "{refused}");
}

#[test]
fn results_name_files_that_changed_together_and_another_tool_rewords_the_question() {
    let yard = Yard::new(&["forks"]);
    let project = tempfile::tempdir().unwrap();
    let folder = toml::Value::from(project.path().to_str().unwrap());
    yard.also(&format!("[packs.code]\nprojects = [{folder}]\nreword = {{ tool = \"forks__go\" }}\n"));
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.current_dir(&project).env("GIT_CONFIG_GLOBAL", "/dev/null").args(["-c", "user.name=t"]);
        let output = git.args(["-c", "user.email=t@example.org"]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    git(&["init", "--quiet"]);
    for number in 0..3 {
        let source = format!("def open_door():\n    return {number}\n");
        std::fs::write(project.path().join("door.py"), source).unwrap();
        std::fs::write(project.path().join("key.py"), format!("KEY = {number}\n")).unwrap();
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", "change"]);
    }
    let gateway = yard.start();
    let question = json!({ "query": "open the door" });
    let found = gateway.call("code__semantic_search", &question)["structuredContent"].clone();
    let related = json!({ "file": "door.py", "changed_with": [{ "file": "key.py", "commits": 3 }] });
    assert_eq!(
        (&found["results"][0]["name"], &found["related"][0]),
        (&json!("open_door"), &related),
        "{found}"
    );
    let expanded = gateway.call("code__multi_query_search", &question)["structuredContent"].clone();
    assert_eq!(expanded["note"], "Also searched for: well.", "{expanded}");
    assert_eq!(expanded["results"][0]["name"], "open_door", "{expanded}");
}

#[test]
fn clients_share_one_language_server_which_ends_with_the_gateway_however_that_ends() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let scene = Scene::new();
        let gateway = scene.yard.start();
        let answers: Vec<Value> = std::thread::scope(|scope| {
            let calls: Vec<_> = (0..4).map(|_| scope.spawn(|| scene.hover(&gateway))).collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        assert_eq!(scene.servers().len(), 1);
        let running = scene.yard.processes();
        gateway.signal(signal);
        soon("the end of all processes", || none(&scene.yard.left_of(&running)));
    }
}

/// A call on a connection that proves its user.
fn call(gateway: &Gateway, tool: &str, arguments: &Value) -> Value {
    http::read(gateway.begin_as_operator(tool, arguments)).message()["result"].clone()
}

#[test]
fn a_shell_command_runs_in_trusted_projects_only_and_is_stopped_with_all_that_it_started() {
    let scene = Scene::new();
    let gateway = scene.yard.start();
    let command =
        json!({ "command": "sleep 999 & sleep 999", "dir_path": scene.project.path(), "timeout_seconds": 1 });
    let refused = gateway.call("code__run_shell_command", &command);
    assert!(refused.to_string().contains("does not prove its user"), "{refused}");
    let refused = call(&gateway, "code__run_shell_command", &command);
    assert!(refused.to_string().contains("toolyard trust"), "{refused}");
    drop(gateway);
    let mut trust = scene.yard.toolyard();
    assert!(trust.arg("trust").arg(scene.project.path()).output().unwrap().status.success());
    let gateway = scene.yard.start();
    let stopped = call(&gateway, "code__run_shell_command", &command);
    assert_eq!(stopped["structuredContent"]["timed_out"], true, "{stopped}");
    let sleeping = || scene.yard.processes().into_iter().map(|process| command_line(process.id));
    let sleeping = || sleeping().filter(|line| line.starts_with("sleep")).collect::<Vec<_>>();
    soon("the end of the command", || none(&sleeping()));
    let command = json!({ "command": "echo out; echo err >&2; exit 3", "dir_path": scene.project.path() });
    let ran = call(&gateway, "code__run_shell_command", &command)["structuredContent"].clone();
    assert_eq!(
        (&ran["stdout"], &ran["stderr"], &ran["exit_code"]),
        (&json!("out\n"), &json!("err\n"), &json!(3))
    );
}

#[test]
fn a_killed_language_server_is_replaced_and_leaves_nothing() {
    let scene = Scene::new();
    let gateway = scene.yard.start();
    let first = scene.hover(&gateway);
    let server = nix::unistd::Pid::from_raw(scene.servers()[0]);
    nix::sys::signal::kill(server, Signal::SIGKILL).unwrap();
    let second = soon("an answer of another server", || match scene.hover(&gateway) {
        Value::String(text) if *text != first => Ok(text),
        other => Err(other.to_string()),
    });
    assert!(second.starts_with("🦀") || second.starts_with("alpha"), "{second}");
    soon("one server", || if scene.servers().len() == 1 { Ok(()) } else { Err("more".to_owned()) });
}

#[test]
fn a_rename_over_three_files_is_done_in_all_or_in_none_when_the_gateway_is_killed() {
    let scene = Scene::new();
    let mut before = "alpha".to_owned();
    for round in 0..6_u64 {
        let gateway = scene.yard.start();
        scene.hover(&gateway);
        let after = format!("name{round}x");
        let rename = json!({
            "file_path": scene.path("one.word"), "line": 1, "character": 0, "new_name": after, "dry_run": false,
        });
        // The language server was started for others; what a caller may do is its own.
        let refused = gateway.call("code__lsp_rename", &rename);
        assert!(refused.to_string().contains("does not prove its user"), "{refused}");
        let call = gateway.begin_as_operator("code__lsp_rename", &rename);
        soon("the first changed file", || match scene.count(&after) {
            [0, 0, 0] => Err("nothing changed".to_owned()),
            _ => Ok(()),
        });
        // Each round is cut off at another moment.
        std::thread::sleep(Duration::from_micros(round * 700));
        gateway.signal(Signal::SIGKILL);
        drop(call);
        drop(gateway);
        // The next call of the pack finishes what was decided.
        let gateway = scene.yard.start();
        gateway.call("code__glob_files", &json!({ "pattern": "*.word" }));
        let (old, new) = (scene.count(&before), scene.count(&after));
        assert!(
            (old, new) == ([6_000; 3], [0; 3]) || (old, new) == ([0; 3], [6_000; 3]),
            "{round}: {old:?} {new:?}"
        );
        if new[0] > 0 {
            before = after;
        }
    }
}
