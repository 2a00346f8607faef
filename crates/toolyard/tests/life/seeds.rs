//! Every tool of the Stravinsky server, called under its own name in a profile with bare names.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use crate::http;
use crate::yard::Yard;

/// A provider that refuses every request.
fn provider() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 8_192]);
            let _ = stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
        }
    });
    format!("http://{address}/v1")
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

/// The tools with their required parameters.
fn table(project: &Path) -> Vec<(&'static str, Value)> {
    let path = |file: &str| project.join(file).display().to_string();
    let at = json!({ "file_path": path("one.word"), "line": 1, "character": 0 });
    let with = |more: Value| {
        let mut at = at.clone();
        at.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        at
    };
    let (query, id, none) = (json!({ "query": "alpha" }), json!({ "task_id": "agent_0" }), json!({}));
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
        ("lsp_code_action_resolve", json!({ "file_path": path("one.word"), "action_code": "x" })),
        ("lsp_extract_refactor", extract),
        ("lsp_servers", none),
        ("lsp_diagnostics", json!({ "file_path": path("one.word") })),
        ("session_list", project.clone()),
        ("session_read", json!({ "session_id": "0" })),
        ("session_search", query),
        ("skill_list", project),
        ("skill_get", json!({ "name": "none" })),
    ]
}

#[test]
fn every_tool_of_stravinsky_answers_under_its_own_name_with_its_required_parameters() {
    let (yard, project) = (Yard::new(&[]), tempfile::tempdir().unwrap());
    std::fs::write(project.path().join("one.word"), "alpha beta\n").unwrap();
    std::fs::write(project.path().join("two.txt"), "a\n").unwrap();
    yard.also(&config(project.path()));
    let gateway = yard.start();
    let url = format!("{}/mcp/p/stravinsky", gateway.url());
    let authorization = [("authorization", "Bearer user")];
    for (name, arguments) in table(project.path()) {
        let params = json!({ "name": name, "arguments": arguments });
        let message = http::read(http::modern_with(&url, &authorization, "tools/call", params)).message();
        let text = message["result"]["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{name}: {message}"));
        for fault in ["is missing", "unknown tool", "not known here"] {
            assert!(!text.contains(fault), "{name}: {text}");
        }
    }
    let listed = http::read(http::modern_with(&url, &authorization, "tools/list", json!({}))).tool_names();
    assert!(listed.contains(&"agent_spawn".to_owned()), "{listed:?}");
    assert!(!listed.iter().any(|name| name.contains("__")), "{listed:?}");
}
