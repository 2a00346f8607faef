//! The pack as clients see it: requests in, answers out.

mod bounds;
mod find;
mod guide;
#[cfg(unix)]
mod jail;
mod shared;
mod watchers;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use toolyard_tool::Server;

use super::*;

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scene = Self { folder };
        std::fs::create_dir(scene.project()).unwrap();
        for (path, text) in [
            (
                "process.py",
                "def kill_children(pid):\n    os.killpg(pid, SIGKILL)\n\n\ndef main():\n    kill_children(1)\n",
            ),
            ("files.rs", "fn slurp(path: &Path) -> String {\n    read_to_string(path).unwrap()\n}\n"),
        ] {
            std::fs::write(scene.project().join(path), text).unwrap();
        }
        scene
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn set(&self, config: Value) -> ToolSet<Code> {
        let config: Config = serde_json::from_value(config).unwrap();
        let (state, cache) = (self.folder.path().join("state"), self.folder.path().join("cache"));
        let set = ToolSet::new("test", "1").state(Code::new(config, Host::inert("code"), &state, &cache));
        set.with::<by_text::find_code>()
            .with::<by_text::grep_search>()
            .with::<by_text::ast_grep_replace>()
            .with::<semantic::semantic_search>()
            .with::<semantic::hybrid_search>()
            .with::<semantic::multi_query_search>()
            .with::<semantic::decomposed_search>()
            .with::<semantic::enhanced_search>()
            .with::<semantic::manage::semantic_index>()
            .with::<semantic::manage::semantic_stats>()
            .with::<semantic::health::semantic_health>()
            .with::<semantic::manage::cancel_indexing>()
            .with::<semantic::manage::delete_index>()
            .with::<watch::start_file_watcher>()
            .with::<watch::stop_file_watcher>()
            .with::<watch::list_file_watchers>()
            .with::<files::read_file>()
            .with::<files::write_file>()
            .with::<files::replace>()
            .with::<files::list_directory>()
            .with::<map::code_context>()
            .with::<map::code_map>()
    }

    /// The result of one call.
    async fn call(&self, write: bool, tool: &str, arguments: Value) -> Value {
        let config = json!({ "projects": [self.project()], "write": write });
        self.calls(config, &[(tool, arguments)]).await.remove(0)
    }

    /// The results of calls of one set, one after the other.
    async fn calls(&self, config: Value, calls: &[(&str, Value)]) -> Vec<Value> {
        let initialize = json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        } });
        let server = Server::start(self.set(config), []).await.unwrap();
        let (client, far_end) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(far_end);
        let (answers, mut requests) = tokio::io::split(client);
        let serving = server.serve_stream(read, write);
        let asking = async {
            requests.write_all(format!("{initialize}\n").as_bytes()).await.unwrap();
            let mut lines = BufReader::new(answers).lines();
            let mut results = Vec::new();
            for (id, (tool, arguments)) in calls.iter().enumerate() {
                let params = json!({ "name": tool, "arguments": arguments });
                let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
                requests.write_all(format!("{request}\n").as_bytes()).await.unwrap();
                let mut answer = Value::Null;
                while answer["id"] != id {
                    let line = lines.next_line().await.unwrap().unwrap();
                    answer = serde_json::from_str(&line).unwrap();
                }
                results.push(answer["result"].clone());
            }
            results
        };
        tokio::select! {
            () = serving => panic!("the server ended before it answered"),
            results = asking => results,
        }
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

/// The names of the results of a search by meaning.
fn names(result: &Value) -> Vec<&str> {
    let results = result["structuredContent"]["results"].as_array();
    results.unwrap_or_else(|| panic!("{result}")).iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn find_code_searches_as_the_query_is_put() {
    let scene = Scene::new();
    for (query, search_type, file) in [
        ("$A.unwrap()", "ast", "/matches/matches/0/file"),
        ("kill_children", "grep", "/matches/matches/0/file"),
        ("kill a process and its children", "semantic", "/answers/results/0/file"),
    ] {
        let result = scene.call(false, "find_code", json!({ "query": query })).await;
        let found = &result["structuredContent"];
        assert_eq!(found["search_type"], search_type, "{result}");
        assert!(found.pointer(file).is_some(), "{result}");
    }
}

#[tokio::test]
async fn a_hybrid_query_prefers_code_that_has_its_parts_as_they_are_joined() {
    let scene = Scene::new();
    scene.write("project/net.py", "def retry_request(url):\n    # backoff grows\n    return url\n\n\ndef retry_forever(url):\n    return retry_forever(url)\n");
    let find = async |query: &str, search_type: &str| {
        let result =
            scene.call(false, "find_code", json!({ "query": query, "search_type": search_type })).await;
        let found = result["structuredContent"].clone();
        assert_eq!(found["search_type"], "hybrid", "{result}");
        let first = found["answers"]["results"][0]["name"].as_str().unwrap_or_default().to_owned();
        (first, found["matches"]["matches"].as_array().unwrap().len(), text(&result).to_owned())
    };
    let (first, matches, shown) = find("retry AND backoff", "auto").await;
    assert_eq!((first.as_str(), matches), ("retry_request", 4), "{shown}");
    assert!(shown.contains("1. net.py:1-3 retry_request") && shown.contains("net.py:2:7: "), "{shown}");
    let (first, ..) = find("retry NOT backoff", "auto").await;
    assert_eq!(first, "retry_forever", "its code has no `backoff`");
    let (first, matches, shown) = find("read_to_string($A) AND unwrap", "hybrid").await;
    assert_eq!((first.as_str(), matches), ("slurp", 2), "one by syntax and one by text: {shown}");
}

#[tokio::test]
async fn hybrid_search_uses_its_pattern_and_every_filter() {
    let scene = Scene::new();
    scene.write(
        "project/web.py",
        "class Base:\n    pass\n\n\nclass Child(Base):\n    pass\n\n\n@route(\"/x\")\nasync def handle_slow(request):\n    \
         print(request)\n\n\ndef handle_request(request):\n    return request\n",
    );
    let search = async |more: Value| {
        let mut arguments = json!({ "query": "handle a request" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        scene.call(false, "hybrid_search", arguments).await
    };
    let plain = search(json!({})).await;
    assert_eq!(names(&plain)[0], "handle_request", "{plain}");
    let with_pattern = search(json!({ "pattern": "print($A)", "language": "python" })).await;
    assert_eq!(names(&with_pattern)[0], "handle_slow", "{with_pattern}");
    assert!(names(&with_pattern).len() > 1, "the others follow");
    assert_eq!(with_pattern["structuredContent"]["note"], "1 results contain `print($A)` and come first.");
    for (filter, expected) in [
        (json!({ "decorator": "route" }), &["handle_slow"][..]),
        (json!({ "is_async": true }), &["handle_slow"]),
        (json!({ "base_class": "Base" }), &["Child"]),
        (json!({ "is_async": true, "pattern": "return $A" }), &["handle_slow"]),
        (json!({ "node_type": "class", "language": "rust" }), &[]),
    ] {
        let found = search(filter.clone()).await;
        assert_eq!(names(&found), expected, "{filter}");
    }
    let classes = search(json!({ "node_type": "class" })).await;
    assert!(names(&classes).iter().all(|name| ["Base", "Child"].contains(name)), "{classes}");
}

#[tokio::test]
async fn answers_state_how_much_could_be_compared_by_meaning() {
    let scene = Scene::new();
    let question = json!({ "query": "kill children", "task": "kill children", "search_type": "semantic" });
    let tools = [
        "find_code",
        "semantic_search",
        "hybrid_search",
        "multi_query_search",
        "decomposed_search",
        "enhanced_search",
        "code_context",
    ];
    let calls = tools.map(|tool| (tool, question.clone()));
    let unreachable = json!({ "provider": "ollama", "base_url": "http://127.0.0.1:9", "model": "m" });
    for (config, expected) in [
        (json!({ "projects": [scene.project()] }), json!(1.0)),
        (json!({ "projects": [scene.project()], "embeddings": unreachable }), json!(0.0)),
    ] {
        for (tool, result) in tools.iter().zip(scene.calls(config, &calls).await) {
            let all = &result["structuredContent"];
            let answers = if *tool == "find_code" { &all["answers"] } else { all };
            assert_eq!(answers["coverage"], expected, "{tool}: {result}");
            let note = answers["note"].as_str().unwrap_or_default();
            let (has_note, has_line) =
                (note.contains("Meaning did not count everywhere"), text(&result).contains("Coverage: 0 %"));
            assert_eq!((has_note, has_line), (expected == 0.0, expected == 0.0), "{tool}: {result}");
        }
    }
}

#[tokio::test]
async fn the_context_of_a_task_has_the_uses_of_its_best_code() {
    let scene = Scene::new();
    let task = json!({ "task": "kill a process and its children", "budget": 500 });
    let context = scene.call(false, "code_context", task).await;
    let shown = text(&context);
    assert!(shown.starts_with("## process.py:1-2 kill_children\ndef kill_children(pid):"), "{shown}");
    assert!(shown.contains("## Uses of kill_children\nprocess.py:5 main\n"), "{shown}");
    assert!(shown.contains("## Outline\nfiles.rs:\n  1: fn slurp(path: &Path) -> String\n"), "{shown}");
    assert_eq!(context["structuredContent"]["files"][0], "process.py:1", "{context}");
    assert!(shown.chars().count() <= 2_000, "{shown}");
}

const TWO_THINGS: &str = "kill the child processes and read a file into a string";

#[tokio::test]
async fn each_mode_of_enhanced_search_does_what_its_name_states() {
    let scene = Scene::new();
    for (mode, is_decomposed, is_expanded) in
        [("auto", true, false), ("decompose", true, false), ("expand", false, true), ("both", true, true)]
    {
        let found = scene.call(false, "enhanced_search", json!({ "query": TWO_THINGS, "mode": mode })).await;
        let note = found["structuredContent"]["note"].as_str().unwrap();
        assert_eq!(
            note.contains("Searched for each part: kill the child processes; read a file"),
            is_decomposed,
            "{mode}: {note}"
        );
        assert_eq!(
            note.contains("Not expanded into 3 wordings: no model is configured."),
            is_expanded,
            "{mode}: {note}"
        );
        let names = names(&found);
        assert!(names.contains(&"kill_children") && names.contains(&"slurp"), "{mode}: {names:?}");
        let distinct: std::collections::HashSet<&&str> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{mode}: each result once");
    }
    let short = scene.call(false, "enhanced_search", json!({ "query": "kill children" })).await;
    assert!(text(&short).contains("Not expanded"), "a short question is expanded: {short}");
}

#[tokio::test]
async fn without_a_model_answers_state_that_none_was_used() {
    let scene = Scene::new();
    let expanded = scene.call(false, "multi_query_search", json!({ "query": "kill children" })).await;
    assert!(text(&expanded).contains("Not expanded into 3 wordings: no model is configured."), "{expanded}");
    assert_eq!(names(&expanded)[0], "kill_children");
    let no_model = "No model was used: no model is configured; parts are what `and` and commas join.";
    let parts = scene.call(false, "decomposed_search", json!({ "query": TWO_THINGS })).await;
    assert!(text(&parts).contains(&format!("read a file into a string. {no_model}")), "{parts}");
    let one = scene.call(false, "decomposed_search", json!({ "query": "kill children" })).await;
    assert!(text(&one).contains(&format!("asks for one thing. {no_model}")), "{one}");
}

#[tokio::test]
async fn delete_index_removes_the_index_of_its_project_and_no_other() {
    let scene = Scene::new();
    for folder in ["one/app", "two/app"] {
        scene.write(&format!("{folder}/src/a.py"), "def kill_children(pid):\n    pass\n");
    }
    let path = |name: &str| scene.folder.path().join(name);
    let config = json!({ "projects": [path("one/app"), path("two/app")] });
    let search =
        |name: &str| ("semantic_search", json!({ "query": "kill children", "project_path": path(name) }));
    let delete = ("delete_index", json!({ "project_path": path("one/app/src") }));
    let stats = |name: &str| ("semantic_stats", json!({ "project_path": path(name) }));
    let all = ("delete_index", json!({ "delete_all": true }));
    let calls = [
        search("one/app"),
        search("two/app"),
        delete.clone(),
        delete,
        stats("one/app"),
        stats("two/app"),
        search("one/app"),
        all.clone(),
        all,
    ];
    let results = scene.calls(config, &calls).await;
    assert!(
        text(&results[2]).ends_with("one/app`.") && text(&results[2]).starts_with("Deleted"),
        "{results:?}"
    );
    assert!(text(&results[3]).ends_with("has no index."), "{results:?}");
    let files = |at: usize| &results[at]["structuredContent"]["files"];
    assert_eq!((files(4), files(5)), (&json!(0), &json!(1)), "{results:?}");
    assert_eq!(names(&results[6]), ["kill_children"], "the next search makes a new index");
    assert_eq!((text(&results[7]), text(&results[8])), ("Deleted all indexes.", "There was no index."));
    assert!(path("one/app/src/a.py").exists());
}

#[tokio::test]
async fn a_provider_that_is_not_configured_is_refused_with_the_configured_one() {
    let scene = Scene::new();
    let with_provider =
        |tool: &'static str, provider: &str| (tool, json!({ "query": "kill", "provider": provider }));
    let tools = [
        "find_code",
        "semantic_search",
        "hybrid_search",
        "multi_query_search",
        "decomposed_search",
        "enhanced_search",
        "semantic_index",
        "semantic_stats",
        "cancel_indexing",
        "delete_index",
        "start_file_watcher",
    ];
    let config = json!({ "projects": [scene.project()] });
    for provider in ["gemini", "nonsense"] {
        let calls = tools.map(|tool| with_provider(tool, provider));
        for (tool, result) in tools.iter().zip(scene.calls(config.clone(), &calls).await) {
            assert_eq!(result["isError"], true, "{tool}: {result}");
            let expected = format!(
                "the provider `{provider}` is not configured; configured is `built-in`, also called `fast`"
            );
            assert!(text(&result).contains(&expected), "{tool}: {result}");
        }
    }
    for provider in ["built-in", "fast"] {
        let result =
            scene.calls(config.clone(), &[with_provider("semantic_search", provider)]).await.remove(0);
        assert_eq!(names(&result)[0], "kill_children", "{result}");
    }
    let ollama = json!({ "projects": [scene.project()], "embeddings": {
        "provider": "ollama", "model": "mxbai-embed-large", "base_url": "http://127.0.0.1:9",
    } });
    let calls = ["ollama", "mxbai", "openai"].map(|provider| with_provider("semantic_stats", provider));
    let results = scene.calls(ollama, &calls).await;
    let is_refused: Vec<bool> = results.iter().map(|result| result["isError"] == true).collect();
    assert_eq!(is_refused, [false, false, true], "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_health_of_a_provider_is_that_of_a_vector_that_it_has_just_computed() {
    let scene = Scene::new();
    let call = [("semantic_health", json!({}))];
    let online = scene.calls(json!({ "projects": [scene.project()] }), &call).await.remove(0);
    assert_eq!(online["structuredContent"]["is_online"], true, "{online}");
    let config = json!({ "projects": [scene.project()], "embeddings": {
        "provider": "ollama", "model": "mxbai-embed-large", "base_url": "http://127.0.0.1:9",
    } });
    let offline = scene.calls(config, &call).await.remove(0);
    assert_eq!(offline["structuredContent"]["is_online"], false, "{offline}");
    assert!(text(&offline).contains(": offline: "), "{offline}");
}

#[tokio::test]
async fn an_outline_uses_its_budget_to_two_per_cent() {
    let scene = Scene::new();
    let project = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let budgets = [300, 500, 1_000, 2_000, 4_000];
    let calls = budgets.map(|budget| ("code_map", json!({ "budget": budget })));
    let results = scene.calls(json!({ "projects": [project] }), &calls).await;
    for (budget, result) in budgets.iter().zip(&results) {
        let map = result["structuredContent"]["map"].as_str().unwrap();
        let (used, budget) = (map.chars().count(), budget * 4);
        assert!(
            result["structuredContent"]["shown"].as_u64() < result["structuredContent"]["total"].as_u64()
        );
        assert!(used <= budget * 102 / 100 && used >= budget * 98 / 100, "{used} of {budget} characters");
    }
}

#[tokio::test]
async fn a_rewrite_is_previewed_then_applied_as_previewed() {
    let scene = Scene::new();
    let arguments = json!({ "pattern": "$A.unwrap()", "replacement": "$A?" });
    let preview = scene.call(true, "ast_grep_replace", arguments).await;
    let preview = &preview["structuredContent"];
    assert_eq!((&preview["applied"], &preview["changes"]), (&json!(false), &json!(1)));
    assert!(preview["diff"].as_str().unwrap().contains("+    read_to_string(path)?\n"), "{preview}");

    let stale =
        json!({ "pattern": "$A.unwrap()", "replacement": "$A?", "dry_run": false, "preview": "0000" });
    assert_eq!(scene.call(true, "ast_grep_replace", stale).await["isError"], true);
    let apply = json!({ "pattern": "$A.unwrap()", "replacement": "$A?", "dry_run": false, "preview": preview["preview"] });
    assert_eq!(
        scene.call(false, "ast_grep_replace", apply.clone()).await["isError"],
        true,
        "read-only by default"
    );
    let applied = scene.call(true, "ast_grep_replace", apply).await;
    assert_eq!(applied["structuredContent"]["applied"], true, "{applied}");
    let text = std::fs::read_to_string(scene.project().join("files.rs")).unwrap();
    assert!(text.contains("read_to_string(path)?"), "{text}");
}

#[tokio::test]
async fn a_path_outside_of_the_projects_is_refused() {
    let scene = Scene::new();
    let result = scene.call(false, "grep_search", json!({ "pattern": "root", "directory": "/etc" })).await;
    assert_eq!(result["isError"], true);
    assert!(
        result["content"][0]["text"].as_str().unwrap().contains("outside of the configured projects"),
        "{result}"
    );
}

#[tokio::test]
async fn context_and_map_stay_within_their_budgets() {
    let scene = Scene::new();
    let context =
        scene.call(false, "code_context", json!({ "task": "kill child processes", "budget": 200 })).await;
    let text = context["structuredContent"]["context"].as_str().unwrap();
    assert!(text.contains("kill_children") && text.chars().count() <= 820, "{text}");
    let map = scene.call(false, "code_map", json!({})).await;
    assert_eq!(map["structuredContent"]["shown"], 3, "{map}");
}

#[tokio::test]
async fn files_are_read_written_replaced_and_listed_within_the_project() {
    let scene = Scene::new();
    let lines = (0..300).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n") + "\n";
    let write = json!({ "path": "logs/new/build.log", "content": lines });
    assert_eq!(scene.call(false, "write_file", write.clone()).await["isError"], true, "read-only by default");
    assert_eq!(scene.call(true, "write_file", write).await["isError"], Value::Null);
    let log = scene.call(false, "read_file", json!({ "path": "logs/new/build.log" })).await;
    let log = &log["structuredContent"];
    assert_eq!((&log["offset"], &log["lines"], &log["truncated"]), (&json!(200), &json!(300), &json!(true)));
    let part = json!({ "path": "logs/new/build.log", "offset": 5, "limit": 2 });
    assert_eq!(scene.call(false, "read_file", part).await["structuredContent"]["text"], "line 5\nline 6\n");

    let change = |expected: usize| {
        let arguments = json!({ "path": "process.py", "old_string": "kill_children", "new_string": "stop" });
        let mut arguments = arguments;
        arguments["expected_replacements"] = json!(expected);
        arguments
    };
    assert_eq!(scene.call(true, "replace", change(1)).await["isError"], true, "it occurs twice");
    assert_eq!(scene.call(true, "replace", change(2)).await["isError"], Value::Null);
    let text = std::fs::read_to_string(scene.project().join("process.py")).unwrap();
    assert_eq!((text.matches("stop").count(), text.matches("kill_children").count()), (2, 0));

    let listing = scene.call(false, "list_directory", json!({})).await;
    assert_eq!(listing["content"][0]["text"], "[DIR] logs\n[FILE] files.rs\n[FILE] process.py");
    for path in ["../escape", "/etc/new-file"] {
        let outside = json!({ "path": path, "content": "x" });
        assert_eq!(scene.call(true, "write_file", outside).await["isError"], true, "{path}");
    }
}

#[test]
fn ten_tools_are_listed_by_default_and_file_tools_exist_only_if_they_are_switched_on() {
    let names = |config: Value| -> Vec<&'static str> { pack().tools(config).unwrap().tool_names().collect() };
    let (plain, files) =
        (names(json!({ "projects": ["/tmp"] })), names(json!({ "projects": ["/tmp"], "files": true })));
    assert!(BEST.iter().all(|name| plain.contains(name)), "{plain:?}");
    assert_eq!(plain.iter().filter(|name| name.starts_with("lsp_")).count(), 18);
    assert_eq!(files.len(), plain.len() + FILES.len());
}

#[test]
fn the_pack_is_off_until_it_is_configured_with_projects() {
    let pack = pack();
    assert_eq!(pack.name(), "code");
    assert!(pack.check(&json!({ "projects": ["/tmp"], "write": true })).is_empty());
}
