//! The folder of the caller's project over HTTP: the header `toolyard-folder`, and the roots of the client. Both count only
//! on a connection that proves its user.

use std::process::Command;

use serde_json::{Value, json};

use crate::http;
use crate::wire;
use crate::yard::{Gateway, Yard};

const USER: (&str, &str) = ("authorization", "Bearer user");
const PLAN: &str = "the private plan";

/// A gateway with or without a token, and a project.
fn scene(listen: &str) -> (Yard, Gateway, tempfile::TempDir) {
    let (yard, project) = (Yard::new(&[]), tempfile::tempdir().unwrap());
    std::fs::write(project.path().join("TODO.md"), format!("- [ ] {PLAN}\n")).unwrap();
    yard.also(listen);
    let gateway = yard.start();
    (yard, gateway, project)
}

/// A call of `dev__get_project_context`, with the answer to a question if there is one.
fn project_context(gateway: &Gateway, headers: &[(&str, &str)], capabilities: &Value, back: &Value) -> Value {
    let mut params = json!({ "name": "dev__get_project_context", "arguments": {} });
    params.as_object_mut().unwrap().extend(back.as_object().unwrap().clone());
    let stream = wire::modern_of(gateway.url(), headers, "tools/call", params, capabilities);
    http::read(stream).message()["result"].clone()
}

#[test]
fn the_folder_in_the_header_counts_on_a_proven_connection_only() {
    for (listen, is_proven) in [("[listen]\ntoken = \"user\"\n", true), ("", false)] {
        let (_yard, gateway, project) = scene(listen);
        let folder = ("toolyard-folder", project.path().to_str().unwrap());
        let found = project_context(&gateway, &[USER, folder], &json!({}), &json!({})).to_string();
        assert_eq!(found.contains(PLAN), is_proven, "{listen}: {found}");
        let none = project_context(&gateway, &[USER], &json!({}), &json!({})).to_string();
        assert!(none.contains("it is not known which project is meant"), "{none}");
        let relative = project_context(&gateway, &[USER, ("toolyard-folder", ".")], &json!({}), &json!({}));
        assert!(relative.to_string().contains("it is not known which project is meant"), "{relative}");
    }
}

#[test]
fn the_first_root_of_the_client_counts_on_a_proven_connection_only() {
    for (listen, is_proven) in [("[listen]\ntoken = \"user\"\n", true), ("", false)] {
        let (_yard, gateway, project) = scene(listen);
        let capabilities = json!({ "roots": {} });
        let asked = project_context(&gateway, &[USER], &capabilities, &json!({}));
        let questions = asked["inputRequests"].as_object().unwrap_or_else(|| panic!("{asked}"));
        let (key, question) = questions.iter().next().unwrap();
        assert_eq!(question["method"], "roots/list", "{asked}");
        let uri = format!("file://{}", project.path().display());
        let answer = json!({ "roots": [{ "uri": uri, "name": "project" }, { "uri": "file:///" }] });
        let back =
            json!({ "inputResponses": { key.as_str(): answer }, "requestState": asked["requestState"] });
        let found = project_context(&gateway, &[USER], &capabilities, &back).to_string();
        assert_eq!(found.contains(PLAN), is_proven, "{listen}: {found}");
        assert_eq!(found.contains("does not prove its user"), !is_proven, "{listen}: {found}");
    }
}

#[test]
fn the_context_of_a_repository_has_its_changes_and_the_open_points_of_all_its_files() {
    let (_yard, gateway, project) = scene("[listen]\ntoken = \"user\"\n");
    let write = |path: &str, text: &str| {
        let path = project.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let git = |arguments: &[&str]| {
        let name = ["-c", "user.name=a", "-c", "user.email=a@example"];
        let git =
            Command::new("git").args(name).args(arguments).current_dir(project.path()).output().unwrap();
        assert!(git.status.success(), "{git:?}");
    };
    write("notes/plan.txt", "1. [x] done\n2. [ ] in a folder\n");
    write(".gitignore", "ignored/\n");
    write("ignored/plan.md", "- [ ] ignored\n");
    git(&["init", "--quiet", "--initial-branch", "trunk"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "x"]);
    // A repository must not run a program of its own.
    let mark = project.path().join("ran");
    git(&["config", "core.fsmonitor", &format!("touch {}", mark.display())]);
    let folder = ("toolyard-folder", project.path().to_str().unwrap());
    let context = || project_context(&gateway, &[USER, folder], &json!({}), &json!({}));
    let clean = context();
    let about = &clean["structuredContent"];
    assert_eq!((&about["branch"], &about["changes"]), (&json!("trunk"), &json!(0)), "{clean}");
    let open = json!([format!("TODO.md:1:- [ ] {PLAN}"), "notes/plan.txt:2:2. [ ] in a folder"]);
    assert_eq!(about["open"], open, "{clean}");
    write("notes/plan.txt", "changed\n");
    write("new.md", "- [ ] new\n");
    let changed = context();
    let about = &changed["structuredContent"];
    let open = json!([format!("TODO.md:1:- [ ] {PLAN}"), "new.md:1:- [ ] new"]);
    assert_eq!((&about["changes"], &about["open"]), (&json!(2), &open), "{changed}");
    assert!(changed["content"][0]["text"].as_str().unwrap().contains("Changed or new files: 2"), "{changed}");
    assert!(!mark.exists(), "a program of the repository was run");
}
