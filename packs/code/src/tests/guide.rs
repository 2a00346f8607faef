//! The calls in `docs/guide/code.md`: what the guide shows is what they answer.

use super::*;

const GUIDE: &str = include_str!("../../../../docs/guide/code.md");

/// The calls of the guide with what it shows of their answers. Those of language servers are replayed where one is
/// installed (`cargo xtask lsp`).
fn calls() -> Vec<(&'static str, String)> {
    let mut calls: Vec<(&str, String)> = Vec::new();
    for block in GUIDE.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for line in block.lines() {
            let tool = line.split(' ').next().unwrap();
            if ["find_code", "ast_grep_replace", "lsp_rename"].contains(&tool) {
                calls.push((line, String::new()));
            } else {
                let (_, shown) = calls.last_mut().unwrap_or_else(|| panic!("`{line}` is not a call"));
                shown.push_str(line);
                shown.push('\n');
            }
        }
    }
    calls.retain(|(call, _)| !call.starts_with("lsp_"));
    calls
}

/// A tool and its arguments, as `tool name=value other="two words"`.
fn parsed(call: &str) -> (&str, Value) {
    let (tool, mut rest) = call.split_once(' ').unwrap();
    let mut arguments = json!({});
    while let Some((name, after)) = rest.split_once('=') {
        let quote = after.chars().next().filter(|c| ['"', '\''].contains(c));
        let value = after.trim_start_matches(['"', '\'']);
        let end = value.find(quote.unwrap_or(' ')).unwrap_or(value.len());
        arguments[name.trim()] = value[..end].into();
        rest = value.get(end + 1..).unwrap_or_default();
    }
    (tool, arguments)
}

#[tokio::test]
async fn the_calls_of_the_guide_answer_what_it_shows() {
    let scene = Scene { folder: tempfile::tempdir().unwrap() };
    let kill = "def kill_children(pid):\n    \"\"\"Ends a process and everything it started.\"\"\"\n    \
                os.killpg(os.getpgid(pid), signal.SIGKILL)\n";
    scene.write("project/src/process.py", &format!("import os, signal\n\n\n{kill}"));
    let slurp = "fn slurp(path: &Path) -> String {\n    std::fs::read_to_string(path).unwrap()\n}\n";
    scene.write("project/src/files.rs", &format!("/// Reads a whole file.\n{slurp}"));
    let calls = calls();
    assert_eq!(calls.len(), 3, "{calls:?}");
    for (call, shown) in calls {
        let (tool, arguments) = parsed(call);
        let answer = scene.call(true, tool, arguments).await;
        // Empty lines of a diff begin with a space, which the guide leaves out.
        let lines: Vec<&str> = text(&answer).trim_end().lines().map(str::trim_end).collect();
        assert_eq!(lines, shown.trim_end().lines().collect::<Vec<_>>(), "{call}");
    }
}
