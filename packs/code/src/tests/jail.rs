//! Links and swapped folders: nothing outside of a project is read or changed.

use std::os::unix::fs::symlink;

use super::*;
use crate::change::{FileChange, Journals};
use crate::project::Projects;
use crate::search::grep;

const SECRET: &str = "def secret_of_another():\n    pass\n";

/// A project beside a folder with a secret, and links to the folder and to its file in the project.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("outside/secret.py", SECRET);
    scene.write("project/src/own.py", "def own():\n    pass\n");
    let outside = scene.folder.path().join("outside");
    symlink(&outside, scene.project().join("linked")).unwrap();
    symlink(outside.join("secret.py"), scene.project().join("linked.py")).unwrap();
    symlink(scene.project().join("src"), scene.project().join("inside")).unwrap();
    scene
}

fn secret(scene: &Scene) -> String {
    std::fs::read_to_string(scene.folder.path().join("outside/secret.py")).unwrap()
}

#[tokio::test]
async fn links_that_lead_out_of_a_project_are_not_followed() {
    let scene = scene();
    let config = json!({ "projects": [scene.project()], "write": true });
    let calls = [
        ("grep_search", json!({ "pattern": "secret" })),
        ("find_code", json!({ "query": "def $NAME(): pass", "search_type": "ast" })),
        ("semantic_search", json!({ "query": "the secret of another" })),
        ("code_map", json!({})),
        ("grep_search", json!({ "pattern": "secret", "directory": "linked" })),
        ("read_file", json!({ "path": "linked/secret.py" })),
        ("read_file", json!({ "path": "linked.py" })),
        ("list_directory", json!({ "path": "linked" })),
        ("write_file", json!({ "path": "linked/secret.py", "content": "x" })),
        ("write_file", json!({ "path": "linked/new.py", "content": "x" })),
        ("write_file", json!({ "path": "linked.py", "content": "x" })),
        ("replace", json!({ "path": "linked.py", "old_string": "secret", "new_string": "x" })),
        (
            "ast_grep_replace",
            json!({
                "pattern": "def secret_of_another(): pass", "replacement": "x", "dry_run": false,
            }),
        ),
        ("grep_search", json!({ "pattern": "own", "directory": "inside" })),
    ];
    let results = scene.calls(config, &calls).await;
    for ((tool, arguments), result) in calls.iter().zip(&results) {
        assert!(!result.to_string().contains("secret_of_another"), "{tool} {arguments}: {result}");
    }
    let refused: Vec<bool> = results.iter().map(|result| result["isError"] == true).collect();
    let expected: Vec<bool> = (0..calls.len()).map(|at| (4..12).contains(&at)).collect();
    assert_eq!(refused, expected, "{results:?}");
    assert!(text(&results[13]).starts_with("src/own.py:1:5:"), "a link within the project is followed");
    assert_eq!(secret(&scene), SECRET);
    assert!(!scene.folder.path().join("outside/new.py").exists());
}

#[test]
fn a_folder_that_is_swapped_for_a_link_after_it_was_found_is_neither_read_nor_changed() {
    let scene = scene();
    let place = Projects::new(vec![scene.project()], true).locate("src", None).unwrap();
    std::fs::rename(scene.project().join("src"), scene.project().join("moved")).unwrap();
    symlink(scene.folder.path().join("outside"), scene.project().join("src")).unwrap();
    let query = grep::Query { pattern: "secret", limit: 9, ..grep::Query::default() };
    assert_eq!(grep::grep(&place, &query, &|| true).unwrap().list, []);
    let path = std::path::Path::new("src/secret.py");
    assert_eq!(place.project.text(path), None);
    let journals = Journals::new(scene.folder.path().join("journals"));
    let change = FileChange::new(path, SECRET, "changed");
    let error = journals.apply(&place.project, &[change]).unwrap_err();
    assert_eq!(error.message(), "`src/secret.py` has changed; nothing was written");
    assert_eq!(secret(&scene), SECRET);
}
