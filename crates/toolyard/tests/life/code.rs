//! The code pack in the gateway: what it lists, one language server for all clients, and what is left of a change and of
//! processes when something is killed.

use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::http;
use crate::provider::Embeddings;
use crate::shims::Client;
use crate::yard::{Gateway, OPERATOR, Yard, command_line, none, soon, within};

const FILES: [&str; 3] = ["one.word", "two.word", "three.word"];

/// The tools of the seed, all of which are listed with `tools = "all"`.
const SEED: [&str; 31] = [
    "grep_search",
    "glob_files",
    "ast_grep_search",
    "ast_grep_replace",
    "find_code",
    "semantic_search",
    "hybrid_search",
    "semantic_index",
    "semantic_stats",
    "semantic_health",
    "multi_query_search",
    "decomposed_search",
    "enhanced_search",
    "start_file_watcher",
    "stop_file_watcher",
    "list_file_watchers",
    "cancel_indexing",
    "delete_index",
    "lsp_hover",
    "lsp_goto_definition",
    "lsp_find_references",
    "lsp_document_symbols",
    "lsp_workspace_symbols",
    "lsp_prepare_rename",
    "lsp_rename",
    "lsp_code_actions",
    "lsp_code_action_resolve",
    "lsp_extract_refactor",
    "lsp_servers",
    "lsp_health",
    "lsp_diagnostics",
];

/// So many files that an index of them is written in ten parts.
const MANY: u64 = 2_000;

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
fn all_tools_of_the_code_pack_are_listed_if_the_config_asks_for_them() {
    let yard = Yard::new(&[]);
    yard.also("[packs.code]\ntools = \"all\"\n");
    let listed = yard.start().tools();
    let missing: Vec<&&str> = SEED.iter().filter(|name| !listed.contains(&format!("code__{name}"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
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
    let yard = Yard::new(&[]);
    let project = tempfile::tempdir().unwrap();
    let folder = toml::Value::from(project.path().to_str().unwrap());
    // A model that answers every question with two lines.
    let answer = r#"arguments = { text = "open a door\nwhere the key is" }"#;
    yard.also(&format!(
        "[packs.dev]\n[packs.code]\nprojects = [{folder}]\nreword = {{ tool = \"dev__echo\", {answer} }}\n"
    ));
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
    let related = json!({ "file": "door.py", "changed_with": [{ "file": "key.py", "commits": 3 }] });
    soon("the history, which is read in the background", || {
        let found = gateway.call("code__semantic_search", &question)["structuredContent"].clone();
        assert_eq!(found["results"][0]["name"], "open_door", "{found}");
        if found["related"][0] == related { Ok(()) } else { Err(found.to_string()) }
    });
    let expanded = gateway.call("code__multi_query_search", &question)["structuredContent"].clone();
    assert_eq!(expanded["note"], "Also searched for: open a door; where the key is.", "{expanded}");
    assert_eq!(expanded["results"][0]["name"], "open_door", "{expanded}");
    let parts = gateway.call("code__decomposed_search", &question)["structuredContent"].clone();
    assert_eq!(parts["note"], "Searched for each part: open a door; where the key is.", "{parts}");
    assert!(parts["results"].to_string().contains("KEY = 2"), "the second part finds its own: {parts}");
    let by_name = json!({ "query": "open the door", "search_type": "hybrid" });
    let found = gateway.call("code__find_code", &by_name)["structuredContent"]["answers"].clone();
    let enhanced = gateway.call("code__enhanced_search", &question)["structuredContent"].clone();
    let hybrid = gateway.call("code__hybrid_search", &question)["structuredContent"].clone();
    for answers in [found, expanded, parts, enhanced, hybrid] {
        assert!(answers["related"].as_array().is_some_and(|all| all.contains(&related)), "{answers}");
    }
    let context = gateway.call("code__code_context", &json!({ "task": "open the door" }));
    let shown = context["content"][0]["text"].as_str().unwrap();
    assert!(shown.contains("## Files that changed together\ndoor.py: key.py (3 commits)\n"), "{shown}");
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
    let command = json!({
        "command": "echo begun; echo warning >&2; sleep 999 & sleep 999",
        "dir_path": scene.project.path(),
        "timeout_seconds": 5,
    });
    let refused = gateway.call("code__run_shell_command", &command);
    assert!(refused.to_string().contains("does not prove its user"), "{refused}");
    let refused = call(&gateway, "code__run_shell_command", &command);
    assert!(refused.to_string().contains("toolyard trust"), "{refused}");
    drop(gateway);
    let mut trust = scene.yard.toolyard();
    assert!(trust.arg("trust").arg(scene.project.path()).output().unwrap().status.success());
    let gateway = scene.yard.start();
    let stopped = call(&gateway, "code__run_shell_command", &command);
    let expected = json!({ "stdout": "begun\n", "stderr": "warning\n", "timed_out": true });
    assert_eq!(stopped["structuredContent"], expected, "{stopped}");
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
        let renaming = gateway.begin_as_operator("code__lsp_rename", &rename);
        soon("the first changed file", || match scene.count(&after) {
            [0, 0, 0] => Err("nothing changed".to_owned()),
            _ => Ok(()),
        });
        // Each round is cut off at another moment.
        std::thread::sleep(Duration::from_micros(round * 700));
        gateway.signal(Signal::SIGKILL);
        drop(renaming);
        drop(gateway);
        // The next call that may change the project finishes what was decided. Another one changes nothing.
        let gateway = scene.yard.start();
        let left = (scene.count(&before), scene.count(&after));
        gateway.call("code__glob_files", &json!({ "pattern": "*.word" }));
        assert_eq!((scene.count(&before), scene.count(&after)), left, "{round}");
        call(&gateway, "code__glob_files", &json!({ "pattern": "*.word" }));
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

/// A gateway's project with many files.
fn large() -> (Yard, tempfile::TempDir) {
    let (yard, project) = (Yard::new(&[]), tempfile::tempdir().unwrap());
    for number in 0..MANY {
        let function =
            |n: u64| format!("def handle_{number}_{n}(request):\n    return request.part({n})\n\n\n");
        std::fs::write(
            project.path().join(format!("m{number}.py")),
            (0..4).map(function).collect::<String>(),
        )
        .unwrap();
    }
    let folder = toml::Value::from(project.path().to_str().unwrap());
    yard.also(&format!("[packs.code]\nprojects = [{folder}]\n"));
    (yard, project)
}

fn files(stats: &Value) -> u64 {
    stats["structuredContent"]["files"].as_u64().unwrap_or_else(|| panic!("{stats}"))
}

/// Waits until a part of the index is written.
fn wait_for_a_part(mut stats: impl FnMut() -> Value) -> u64 {
    within(Duration::from_mins(1), "a part of the index", || match files(&stats()) {
        0 => Err("nothing is indexed".to_owned()),
        files => Ok(files),
    })
}

#[test]
fn an_index_that_was_cut_off_by_kill_9_is_continued_by_the_next_gateway() {
    let (yard, _project) = large();
    let gateway = yard.start();
    let call = json!({ "name": "code__semantic_index", "arguments": {} });
    let indexing = http::modern(gateway.url(), "tools/call", call);
    let written = wait_for_a_part(|| gateway.call("code__semantic_stats", &json!({})));
    gateway.signal(Signal::SIGKILL);
    drop((indexing, gateway));
    let gateway = yard.start();
    let update = gateway.call("code__semantic_index", &json!({}))["structuredContent"].clone();
    let count = |key: &str| update[key].as_u64().unwrap_or_else(|| panic!("{update}"));
    assert!(count("reused_files") >= written, "what was written is used: {update}");
    assert!(count("indexed_files") > 0, "it was cut off before its end: {update}");
    assert_eq!(count("reused_files") + count("indexed_files"), MANY);
    let stats = gateway.call("code__semantic_stats", &json!({}));
    assert_eq!(files(&stats), MANY);
    assert_eq!(stats["structuredContent"]["vectors"], stats["structuredContent"]["chunks"]);
    let found = gateway.call("code__semantic_search", &json!({ "query": "handle 1999 3" }));
    assert_eq!(found["structuredContent"]["results"][0]["name"], "handle_1999_3", "{found}");
}

#[test]
fn indexing_is_a_task_that_can_be_cancelled_and_reports_progress() {
    let (yard, _project) = large();
    let mut client = Client::start_with(&yard, &["--upstream", "code"]);
    let start = json!({ "name": "semantic_index", "arguments": {}, "task": {} });
    let task = client.ask("tools/call", &start)["result"]["task"].clone();
    assert_eq!(task["status"], "working", "{task}");
    let task = json!({ "taskId": task["taskId"] });
    let stats = json!({ "name": "semantic_stats", "arguments": {} });
    let written = wait_for_a_part(|| client.ask("tools/call", &stats)["result"].clone());
    let cancelled = client.ask("tasks/cancel", &task);
    assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
    drop(client);

    let gateway = yard.start();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": "p",
    });
    let params = json!({ "name": "code__semantic_index", "arguments": {}, "_meta": meta });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "code__semantic_index"),
    ];
    let body = http::post(gateway.url(), &headers, &call).body;
    let messages: Vec<Value> =
        body.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
    let update = messages.iter().find_map(|message| message["result"].get("structuredContent")).unwrap();
    let (indexed, reused) =
        (update["indexed_files"].as_u64().unwrap(), update["reused_files"].as_u64().unwrap());
    assert!(indexed > 0 && reused >= written, "the task ended early, and its part stays: {update}");
    let progress: Vec<&Value> =
        messages.iter().filter(|message| message["method"] == "notifications/progress").collect();
    let done: Vec<u64> = progress.iter().filter_map(|one| one["params"]["progress"].as_u64()).collect();
    assert!(!done.is_empty() && done.is_sorted(), "{done:?}");
    assert!(progress.iter().all(|one| one["params"]["total"] == indexed), "{progress:?}");
}

/// How many chunks and vectors an index has.
fn chunks_and_vectors(gateway: &Gateway) -> (usize, usize) {
    let stats = gateway.call("code__semantic_stats", &json!({}))["structuredContent"].clone();
    let count = |key: &str| stats[key].as_u64().and_then(|n| usize::try_from(n).ok());
    count("chunks").zip(count("vectors")).unwrap_or_else(|| panic!("{stats}"))
}

/// Searches until an answer has this name and meaning counts for all chunks.
fn find(gateway: &Gateway, name: &str) {
    soon(name, || {
        let found = gateway.call("code__semantic_search", &json!({ "query": name.replace('_', " ") }));
        let found = &found["structuredContent"];
        let is_found = found["results"][0]["name"] == name && found["coverage"].as_f64() == Some(1.0);
        if is_found { Ok(()) } else { Err(found.to_string()) }
    });
}

#[test]
fn two_live_gateways_share_one_index_and_one_that_is_killed_does_not_harm_the_other() {
    let (service, project) = (Embeddings::start(), tempfile::tempdir().unwrap());
    let write = |file: &str, name: &str| {
        std::fs::write(project.path().join(file), format!("def {name}():\n    pass\n")).unwrap();
    };
    for (file, name) in [("door.py", "open_door"), ("key.py", "turn_key"), ("lamp.py", "light_lamp")] {
        write(file, name);
    }
    let first = Yard::new(&[]);
    let second = first.sharing_cache();
    let folder = toml::Value::from(project.path().to_str().unwrap());
    for yard in [&first, &second] {
        yard.also(&format!(
            "[packs.code]\nprojects = [{folder}]\n[packs.code.embeddings]\nprovider = \"ollama\"\n\
             model = \"nomic-embed-text\"\nbase_url = \"{}\"\n",
            service.url
        ));
    }
    let (one, other) = (first.start(), second.start());
    one.call("code__semantic_index", &json!({}));
    find(&one, "open_door");
    assert_eq!((chunks_and_vectors(&one), service.passages()), ((3, 3), 3));
    find(&other, "turn_key");
    assert_eq!((chunks_and_vectors(&other), service.passages()), ((3, 3), 3), "nothing is computed again");

    write("lamp.py", "dim_lamp");
    find(&other, "dim_lamp");
    find(&one, "dim_lamp");
    assert_eq!(service.passages(), 4, "the edit is computed once, and reaches both");

    write("key.py", "lose_key");
    let gate = service.gate.lock();
    let computing =
        http::modern(one.url(), "tools/call", json!({ "name": "code__semantic_index", "arguments": {} }));
    soon("a request of the first gateway", || match service.passages() {
        5 => Ok(()),
        count => Err(count.to_string()),
    });
    one.signal(Signal::SIGKILL);
    drop(gate);
    drop((computing, one));
    find(&other, "lose_key");
    assert_eq!((chunks_and_vectors(&other), service.passages()), ((3, 3), 6), "the other computes it");
    let one = first.start();
    find(&one, "lose_key");
    assert_eq!((chunks_and_vectors(&one), service.passages()), ((3, 3), 6));
}
