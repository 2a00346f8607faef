//! The pack as clients see it: requests in, answers out.

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

    fn set(&self, write: bool) -> ToolSet<Code> {
        let config = json!({ "projects": [self.project()], "write": write });
        let config: Config = serde_json::from_value(config).unwrap();
        let (state, cache) = (self.folder.path().join("state"), self.folder.path().join("cache"));
        let set = ToolSet::new("test", "1").state(Code::new(config, Host::inert("code"), &state, &cache));
        set.with::<by_text::find_code>()
            .with::<by_text::grep_search>()
            .with::<by_text::ast_grep_replace>()
            .with::<semantic::semantic_search>()
            .with::<semantic::semantic_stats>()
            .with::<files::read_file>()
            .with::<files::write_file>()
            .with::<files::replace>()
            .with::<files::list_directory>()
            .with::<map::code_context>()
            .with::<map::code_map>()
    }

    /// The result of one call.
    async fn call(&self, write: bool, tool: &str, arguments: Value) -> Value {
        let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        } });
        let params = json!({ "name": tool, "arguments": arguments });
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let server = Server::start(self.set(write), []).await.unwrap();
        let (client, far_end) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(far_end);
        let (answers, mut requests) = tokio::io::split(client);
        let serving = server.serve_stream(read, write);
        let asking = async {
            requests.write_all(format!("{initialize}\n{request}\n").as_bytes()).await.unwrap();
            let mut lines = BufReader::new(answers).lines();
            loop {
                let line = lines.next_line().await.unwrap().unwrap();
                let answer: Value = serde_json::from_str(&line).unwrap();
                if answer["id"] == 1 {
                    return answer;
                }
            }
        };
        let answer = tokio::select! {
            () = serving => panic!("the server ended before it answered"),
            answer = asking => answer,
        };
        answer["result"].clone()
    }
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
    assert_eq!(plain.iter().filter(|name| name.starts_with("lsp_")).count(), 17);
    assert_eq!(files.len(), plain.len() + FILES.len());
}

#[test]
fn the_pack_is_off_until_it_is_configured_with_projects() {
    let pack = pack();
    assert_eq!(pack.name(), "code");
    assert!(pack.check(&json!({ "projects": ["/tmp"], "write": true })).is_empty());
}
