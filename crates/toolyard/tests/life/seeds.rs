//! Every tool of the Stravinsky server, called under its own name in a profile with bare names.

use std::path::Path;

use serde_json::{Value, json};

use crate::http;
use crate::provider::{Provider, gemini};
use crate::yard::{Gateway, Yard, soon};

/// A provider that answers in the forms of Gemini and of OpenAI.
fn provider() -> String {
    let script = |request: &Value| {
        if request.get("contents").is_some() {
            return gemini("fine");
        }
        let usage = json!({ "input_tokens": 3, "output_tokens": 2, "total_tokens": 5 });
        vec![
            json!({ "type": "response.output_text.delta", "delta": "fine" }),
            json!({ "type": "response.completed", "response": { "status": "completed", "usage": usage } }),
        ]
    };
    Provider::scripted(script).url
}

fn config(project: &Path) -> String {
    let folder = toml::Value::from(project.to_str().unwrap());
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/life/word_server.py");
    let url = provider();
    format!(
        "[listen]\ntoken = \"user\"\n\
         [packs.code]\nprojects = [{folder}]\nwrite = true\nfiles = true\n\
         [packs.code.servers.words]\ncommand = [\"/usr/bin/env\", \"python3\", \"{server}\"]\nextensions = [\"word\"]\n\
         [packs.models.providers.google]\nkind = \"gemini\"\nbase_url = \"{url}\"\nkey = \"k\"\n\
         [packs.models.providers.openai]\nkind = \"openai\"\nbase_url = \"{url}\"\nkey = \"k\"\n\
         [packs.agents]\nprojects = [{folder}]\n\
         [packs.agents.types.explore]\nprogram = \"command\"\ncommand = [\"cat\"]\n\
         [packs.sessions]\nprograms = [\"claude\"]\nprojects = [{folder}]\n\
         [profiles.stravinsky]\nupstreams = [\"code\", \"models\", \"agents\", \"sessions\", \"dev\"]\nnames = \"bare\"\n"
    )
}

/// The tools that cannot succeed here, and what they answer.
const FAILURES: [(&str, &str); 1] =
    [("system_restart", "an operator restarts the gateway with `toolyard stop` and `toolyard serve`")];

/// A transcript of Claude Code in the home of the yard, and a skill in the project.
fn world(home: &Path, project: &Path) {
    let write = |path: std::path::PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(project.join("one.word"), "alpha beta\n");
    write(project.join("two.txt"), "a\n");
    write(
        project.join(".claude/skills/pdf/SKILL.md"),
        "---\nname: pdf\ndescription: Reads papers\n---\nOpen it.",
    );
    let line = json!({
        "type": "user", "uuid": "a", "parentUuid": null, "sessionId": "5e55-10", "cwd": project,
        "timestamp": "2026-11-03T10:00:00Z", "message": { "role": "user", "content": "alpha" },
    });
    write(home.join(".claude/projects/-p/5e55-10.jsonl"), &format!("{line}\n"));
}

/// The tools with their required parameters. `id` is that of an agent.
fn table(project: &Path, id: &str) -> Vec<(&'static str, Value)> {
    let path = |file: &str| project.join(file).display().to_string();
    let at = json!({ "file_path": path("one.word"), "line": 1, "character": 0 });
    let with = |more: Value| {
        let mut at = at.clone();
        at.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        at
    };
    let (query, id, none) = (json!({ "query": "alpha" }), json!({ "task_id": id }), json!({}));
    let project = json!({ "project_path": project });
    let in_project = |mut arguments: Value| {
        arguments["project_path"] = project["project_path"].clone();
        arguments
    };
    let extract = json!({ "file_path": path("one.word"), "start_line": 1, "start_char": 0, "end_line": 1, "end_char": 3, "new_name": "x" });
    vec![
        ("stravinsky_version", none.clone()),
        ("system_restart", none.clone()),
        ("tool_search", json!({ "query": "rename symbol" })),
        ("get_system_health", none.clone()),
        ("get_project_context", project.clone()),
        ("get_cost_report", none.clone()),
        ("list_directory", json!({ "path": path("") })),
        ("read_file", json!({ "path": path("one.word") })),
        ("write_file", json!({ "path": path("new.txt"), "content": "x" })),
        (
            "replace",
            json!({ "path": path("two.txt"), "old_string": "a", "new_string": "b", "instruction": "i" }),
        ),
        ("run_shell_command", json!({ "command": "true", "description": "d", "dir_path": path("") })),
        ("invoke_gemini", json!({ "prompt": "p" })),
        ("invoke_gemini_agentic", json!({ "prompt": "p" })),
        ("invoke_openai", json!({ "prompt": "p" })),
        ("agent_spawn", json!({ "prompt": "p" })),
        ("agent_output", id.clone()),
        ("agent_progress", id.clone()),
        ("agent_cancel", id.clone()),
        ("agent_list", none.clone()),
        ("agent_retry", id.clone()),
        ("agent_cleanup", none.clone()),
        ("task_spawn", json!({ "prompt": "p" })),
        ("task_status", id),
        ("task_list", none.clone()),
        ("ast_grep_search", json!({ "pattern": "f($A)", "directory": path("") })),
        ("ast_grep_replace", json!({ "pattern": "f($A)", "replacement": "g($A)", "directory": path("") })),
        ("grep_search", json!({ "pattern": "alpha", "directory": path("") })),
        ("glob_files", json!({ "pattern": "*.word", "directory": path("") })),
        ("find_code", in_project(query.clone())),
        ("semantic_search", in_project(query.clone())),
        ("hybrid_search", in_project(query.clone())),
        ("semantic_index", project.clone()),
        ("semantic_stats", project.clone()),
        ("semantic_health", project.clone()),
        ("multi_query_search", in_project(query.clone())),
        ("decomposed_search", in_project(query.clone())),
        ("enhanced_search", in_project(query.clone())),
        ("start_file_watcher", project.clone()),
        ("stop_file_watcher", project.clone()),
        ("list_file_watchers", none.clone()),
        ("cancel_indexing", project.clone()),
        ("delete_index", project.clone()),
        ("lsp_hover", at.clone()),
        ("lsp_goto_definition", at.clone()),
        ("lsp_prepare_rename", at.clone()),
        ("lsp_code_actions", at.clone()),
        ("lsp_find_references", at.clone()),
        ("lsp_document_symbols", json!({ "file_path": path("one.word") })),
        ("lsp_workspace_symbols", json!({ "query": "alpha", "directory": path("") })),
        ("lsp_rename", with(json!({ "new_name": "gamma" }))),
        ("lsp_code_action_resolve", json!({ "file_path": path("one.word"), "action_code": "Shout" })),
        ("lsp_extract_refactor", extract),
        ("lsp_servers", none.clone()),
        ("lsp_health", none),
        ("lsp_diagnostics", json!({ "file_path": path("one.word") })),
        ("session_list", project.clone()),
        ("session_read", json!({ "session_id": "5e55" })),
        ("session_search", query),
        ("skill_list", project),
        ("skill_get", json!({ "name": "pdf" })),
    ]
}

/// The result of a call under a bare name.
fn call(gateway: &Gateway, name: &str, arguments: &Value) -> Value {
    let url = format!("{}/mcp/p/stravinsky", gateway.url());
    let params = json!({ "name": name, "arguments": arguments });
    let authorization = [("authorization", "Bearer user")];
    let message = http::read(http::modern_with(&url, &authorization, "tools/call", params)).message();
    assert!(message["result"]["content"][0]["text"].is_string(), "{name}: {message}");
    message["result"].clone()
}

#[test]
fn every_tool_of_stravinsky_answers_under_its_own_name_with_its_required_parameters() {
    let (yard, project) = (Yard::new(&[]), tempfile::tempdir().unwrap());
    world(yard.folder(), project.path());
    yard.also(&config(project.path()));
    let trusted = yard.toolyard().arg("trust").arg(project.path()).output().unwrap();
    assert!(trusted.status.success(), "{trusted:?}");
    let gateway = yard.start();
    let spawned = call(&gateway, "agent_spawn", &json!({ "prompt": "p", "blocking": true }));
    let id = spawned["structuredContent"]["id"].as_str().unwrap_or_else(|| panic!("{spawned}"));
    let mut failures = Vec::new();
    for (name, arguments) in table(project.path(), id) {
        let result = call(&gateway, name, &arguments);
        let text = result["content"][0]["text"].as_str().unwrap();
        if result["isError"] == true {
            failures.push((name, text.to_owned()));
        }
    }
    let is_expected = |failed: &(&str, String)| {
        FAILURES.iter().any(|(name, text)| *name == failed.0 && failed.1.contains(text))
    };
    let unexpected: Vec<_> = failures.iter().filter(|failed| !is_expected(failed)).collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    assert_eq!(failures.len(), FAILURES.len(), "a tool that could not succeed here does: {failures:#?}");
    let url = format!("{}/mcp/p/stravinsky", gateway.url());
    let authorization = [("authorization", "Bearer user")];
    let listed = http::read(http::modern_with(&url, &authorization, "tools/list", json!({}))).tool_names();
    assert!(listed.contains(&"agent_spawn".to_owned()), "{listed:?}");
    assert!(!listed.iter().any(|name| name.contains("__")), "{listed:?}");
}

/// The names of the tools that a search in this view finds.
fn found(gateway: &Gateway, view: &str, tool: &str, arguments: &Value) -> Vec<String> {
    let params = json!({ "name": tool, "arguments": arguments });
    let url = format!("{}{view}", gateway.url());
    let user = [("authorization", "Bearer user")];
    let message = http::read(http::modern_with(&url, &user, "tools/call", params)).message();
    let found = message["result"]["structuredContent"]["tools"].as_array();
    let found = found.unwrap_or_else(|| panic!("{message}"));
    found.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn tool_search_ranks_as_the_search_of_the_gateway_does_and_knows_categories() {
    let (yard, project) = (Yard::new(&[]), tempfile::tempdir().unwrap());
    world(yard.folder(), project.path());
    yard.also(&config(project.path()));
    let gateway = yard.start();
    let names = |tool: &str, arguments: Value| found(&gateway, "/mcp", tool, &arguments);
    let search = |more: Value| {
        let mut arguments = json!({ "query": "rename symbol" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        names("dev__tool_search", arguments)
    };
    let found = soon("the tools of the packs", || {
        let found = search(json!({ "top_k": 8 }));
        if found.len() == 8 { Ok(found) } else { Err(format!("{found:?}")) }
    });
    assert_eq!(found[0], "code__lsp_rename", "{found:?}");
    let ranked = names("yard__search_tools", json!({ "query": "rename symbol", "limit": 8 }));
    assert_eq!(found, ranked);
    let language = search(json!({ "category": "lsp" }));
    assert_eq!(language[0], "code__lsp_rename");
    assert!(language.iter().all(|name| name.starts_with("code__lsp_")), "{language:?}");
    let elsewhere = search(json!({ "category": "agents" }));
    assert!(elsewhere.iter().all(|name| name.starts_with("agents__")), "{elsewhere:?}");
}

#[test]
fn tool_search_ranks_alike_in_a_profile_without_the_tools_of_the_gateway_and_with_bare_names() {
    let (yard, project) = (Yard::new(&[]), tempfile::tempdir().unwrap());
    world(yard.folder(), project.path());
    // The same tools in a view that has the search of the gateway.
    let lean = "[profiles.lean]\nupstreams = [\"code\", \"models\", \"agents\", \"sessions\", \"dev\"]\nnames = \"bare\"\nexposure = \"search\"\n";
    yard.also(&(config(project.path()) + lean));
    let gateway = yard.start();
    let bare = |arguments: Value| found(&gateway, "/mcp/p/stravinsky", "tool_search", &arguments);
    // The last two have words that stand for those of the tools.
    for query in ["rename symbol", "find text in files", "start a sub-agent"] {
        let ranked = soon("the tools of the packs", || {
            let arguments = json!({ "query": query, "limit": 8 });
            let ranked = found(&gateway, "/mcp/p/lean", "search_tools", &arguments);
            if ranked.len() == 8 { Ok(ranked) } else { Err(format!("{ranked:?}")) }
        });
        assert_eq!(bare(json!({ "query": query, "top_k": 8 })), ranked, "{query}");
        assert!(ranked.iter().all(|name| !name.contains("__")), "as the view lists them: {ranked:?}");
    }
    let of_pack = bare(json!({ "query": "rename symbol", "category": "code", "top_k": 3 }));
    assert_eq!((of_pack.len(), of_pack[0].as_str()), (3, "lsp_rename"), "{of_pack:?}");
    let elsewhere = bare(json!({ "query": "spawn an agent", "category": "agents", "top_k": 50 }));
    assert!(elsewhere.contains(&"agent_spawn".to_owned()), "{elsewhere:?}");
    assert!(!elsewhere.contains(&"lsp_rename".to_owned()), "{elsewhere:?}");
}
