//! Sessions and the history of a repository, joined by the gateway.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::http;
use crate::shims::Client;
use crate::yard::Yard;

/// Commits all files of a folder, which becomes a repository with the first commit.
fn commit(folder: &Path, message: &str) -> String {
    let git = |arguments: &[&str]| {
        let name = ["-c", "user.name=a", "-c", "user.email=a@example"];
        let git = Command::new("git").args(name).args(arguments).current_dir(folder).output().unwrap();
        assert!(git.status.success(), "{git:?}");
        String::from_utf8(git.stdout).unwrap()
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", message]);
    format!("{} {message}", &git(&["rev-parse", "HEAD"])[..10])
}

/// A line of a session of Claude Code that puts `text` into `tower.rs`.
fn edit(project: &Path, session: &str, text: &str) -> String {
    let input = json!({ "file_path": project.join("tower.rs"), "old_string": "x", "new_string": text });
    let block = json!([{ "type": "tool_use", "id": "t", "name": "Edit", "input": input }]);
    let line = json!({
        "type": "assistant", "uuid": "a", "parentUuid": null, "sessionId": session, "cwd": project,
        "timestamp": "2026-11-03T10:00:00Z", "message": { "role": "assistant", "content": block },
    });
    format!("{line}\n")
}

#[test]
fn the_lines_of_a_file_have_the_session_that_wrote_them_and_the_commit_they_are_from() {
    let (yard, project) = (Yard::new(&[]), tempfile::tempdir().unwrap());
    let file = project.path().join("tower.rs");
    std::fs::write(&file, "fn light() {}\n").unwrap();
    let first = commit(project.path(), "Light the tower");
    std::fs::write(&file, "fn light() {}\nfn stairs() {}\nfn by_hand() {}\n").unwrap();
    let second = commit(project.path(), "Build stairs");
    let sessions = yard.folder().join(".claude/projects/-tower");
    std::fs::create_dir_all(&sessions).unwrap();
    for (session, text) in [("1ight", "fn light() {}\n"), ("57a125", "fn stairs() {}\n")] {
        let line = edit(project.path(), session, text);
        std::fs::write(sessions.join(format!("{session}.jsonl")), line).unwrap();
    }
    let folder = toml::Value::from(project.path().to_str().unwrap());
    yard.also(&format!(
        "[listen]\ntoken = \"user\"\n[packs.sessions]\nprograms = [\"claude\"]\nprojects = [{folder}]\n"
    ));
    let gateway = yard.start();
    let params = json!({ "name": "sessions__session_blame", "arguments": { "path": file } });
    let user = [("authorization", "Bearer user")];
    let url = format!("{}/mcp", gateway.url());
    let message = http::read(http::modern_with(&url, &user, "tools/call", params)).message();
    let found = message["result"]["structuredContent"]["result"].as_array();
    let found = found.unwrap_or_else(|| panic!("{message}"));
    let mut writers: Vec<(&str, &Value, &Value)> = found
        .iter()
        .map(|writer| (writer["session"]["id"].as_str().unwrap(), &writer["lines"], &writer["commits"]))
        .collect();
    writers.sort_by_key(|writer| writer.0);
    let expected = [("1ight", json!([1]), json!([first])), ("57a125", json!([2]), json!([second]))];
    assert_eq!(writers, expected.each_ref().map(|(id, lines, commits)| (*id, lines, commits)));
}

/// A client that declares no roots, as Codex, and starts the shim in the folder of its project.
fn client_in(yard: &Yard, folder: &Path) -> Client {
    let mut shim = yard.toolyard();
    shim.args(["stdio", "--state-dir"]).arg(yard.folder().join("state"));
    shim.arg("--config").arg(yard.folder().join("config.toml")).current_dir(folder);
    shim.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    Client::run(shim)
}

#[test]
fn a_client_without_roots_reads_the_sessions_and_skills_of_the_folder_that_it_started_the_shim_in() {
    let yard = Yard::new(&[]);
    let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let sessions = yard.folder().join(".claude/projects/-tower");
    std::fs::create_dir_all(&sessions).unwrap();
    for (session, project) in [("0111-own", &own), ("0222-other", &other)] {
        let line = edit(project.path(), session, "fn light() {}\n");
        std::fs::write(sessions.join(format!("{session}.jsonl")), line).unwrap();
    }
    let skill = own.path().join(".agents/skills/paint");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(skill.join("SKILL.md"), "---\nname: paint\ndescription: Paints towers\n---\n").unwrap();
    std::fs::write(own.path().join("tower.rs"), "fn light() {}\n").unwrap();
    yard.also("[packs.sessions]\nprograms = [\"claude\"]\n");
    let _gateway = yard.start();
    let mut client = client_in(&yard, own.path());
    let mut call = |tool: &str, arguments: Value| {
        let params = json!({ "name": format!("sessions__{tool}"), "arguments": arguments });
        client.ask("tools/call", &params)["result"].clone()
    };
    let listed = call("session_list", json!({}));
    let ids: Vec<&Value> = listed["structuredContent"]["result"]
        .as_array()
        .unwrap_or_else(|| panic!("{listed}"))
        .iter()
        .map(|session| &session["id"])
        .collect();
    assert_eq!(ids, ["0111-own"], "{listed}");
    let refused = call("session_list", json!({ "project_path": other.path() }));
    assert!(refused.to_string().contains("is not a folder of this client"), "{refused}");
    let blamed = call("session_blame", json!({ "path": own.path().join("tower.rs") }));
    assert_eq!(blamed["structuredContent"]["result"][0]["session"]["id"], "0111-own", "{blamed}");
    let skills = call("skill_list", json!({}));
    assert_eq!(skills["structuredContent"]["result"][0]["name"], "paint", "{skills}");
    assert_eq!(skills["structuredContent"]["result"][0]["origin"], "project", "{skills}");
}
