//! `get_project_context`: what an agent should know of a project before it begins.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Context, Host, ToolError, WithText, tool};

const RULES: &str = ".claude/rules";
const MOST_RULES: usize = 50;
/// Of one file of rules.
const MOST_BYTES: u64 = 64 << 10;
/// Files in which open points are written down, where git cannot be asked for all files.
const NOTES: [&str; 3] = ["TODO.md", "README.md", "CLAUDE.md"];
const MOST_POINTS: usize = 20;
const OPEN: &str = "[ ]";
/// What is shown of a line.
const MOST_LINE: usize = 300;
/// How long git may take for one of two questions.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Wanted {
    /// The folder of the project; the one that the client works in if it is left out.
    project_path: Option<PathBuf>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Project {
    folder: String,
    branch: Option<String>,
    /// How many files are changed or new, if git can be asked.
    changes: Option<usize>,
    /// The rules of the project, by file.
    rules: Vec<Rules>,
    /// The first lines with an open point (`[ ]`), each with its file and its number. Files that git ignores are left out.
    open: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Rules {
    file: String,
    text: String,
}

/// The branch, the rules and the open points of a project.
#[tool(read_only, idempotent)]
pub(crate) async fn get_project_context(
    host: &Host,
    context: &Context,
    args: Wanted,
) -> Result<WithText<Project>, ToolError> {
    let folder = context.folder(args.project_path.as_deref(), &[]).await?;
    let project = look(host, &folder).await;
    let mut text = format!("# {}\n", project.folder);
    if let Some(branch) = &project.branch {
        let _ = writeln!(text, "\nBranch: {branch}");
    }
    if let Some(changes) = project.changes {
        let _ = writeln!(text, "Changed or new files: {changes}");
    }
    for Rules { file, text: rules } in &project.rules {
        let _ = write!(text, "\n## {file}\n{rules}\n");
    }
    if !project.open.is_empty() {
        let _ = write!(text, "\n## Open\n{}\n", project.open.join("\n"));
    }
    Ok(WithText::new(project, text))
}

async fn look(host: &Host, folder: &Path) -> Project {
    let branch = branch(folder);
    let changes = match &branch {
        Some(_) => changes(host, folder).await,
        None => None,
    };
    let open = match changes {
        Some(_) => open_points(host, folder).await,
        None => None,
    };
    let open = open.unwrap_or_else(|| noted_points(folder));
    Project { folder: folder.display().to_string(), branch, changes, rules: rules(folder), open }
}

async fn changes(host: &Host, folder: &Path) -> Option<usize> {
    // What is in a submodule is the business of its own repository, whose config is not to be trusted either.
    let status = git(host, folder, &["status", "--porcelain", "--ignore-submodules=dirty"]).await?;
    Some(status.lines().count())
}

/// Lines with an open point in all files that git does not ignore.
async fn open_points(host: &Host, folder: &Path) -> Option<Vec<String>> {
    let search = [
        "grep",
        "--untracked",
        "--no-color",
        "--no-textconv",
        "--no-recurse-submodules",
        "-n",
        "-I",
        "-F",
        "-e",
        OPEN,
    ];
    let found = git(host, folder, &search).await?;
    let short = |line: &str| match line.char_indices().nth(MOST_LINE) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    };
    Some(found.lines().take(MOST_POINTS).map(short).collect())
}

/// The output of git; nothing if it cannot be asked, or has nothing to say.
async fn git(host: &Host, folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = tokio::time::timeout(PATIENCE, host.git(folder).run(arguments.iter().copied())).await;
    Some(String::from_utf8_lossy(&output.ok()?.ok()?).into_owned())
}

fn noted_points(folder: &Path) -> Vec<String> {
    let mut open = Vec::new();
    for file in NOTES {
        let text = read(&folder.join(file)).unwrap_or_default();
        let lines = text.lines().enumerate().filter(|(_, line)| line.contains(OPEN));
        open.extend(lines.map(|(at, line)| format!("{file}:{}:{line}", at + 1)));
    }
    open.truncate(MOST_POINTS);
    open
}

/// The branch that is checked out, read without running git.
fn branch(folder: &Path) -> Option<String> {
    let root = folder.ancestors().find(|folder| folder.join(".git").exists())?;
    let mut git = root.join(".git");
    if git.is_file() {
        // A worktree names its folder.
        git = root.join(read(&git)?.trim().strip_prefix("gitdir: ")?);
    }
    let head = read(&git.join("HEAD"))?;
    let head = head.trim();
    Some(head.strip_prefix("ref: refs/heads/").unwrap_or(head).to_owned())
}

fn rules(folder: &Path) -> Vec<Rules> {
    let Ok(entries) = fs::read_dir(folder.join(RULES)) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "md"))
        .collect();
    names.sort();
    let rules = names.into_iter().take(MOST_RULES);
    let rules = rules.filter_map(|name| Some((read(&folder.join(RULES).join(&name))?, name)));
    rules.map(|(text, name)| Rules { file: format!("{RULES}/{name}"), text }).collect()
}

/// A file of the project, not one that a link in it leads to.
fn read(path: &Path) -> Option<String> {
    let metadata = fs::symlink_metadata(path).ok()?;
    (metadata.is_file() && metadata.len() <= MOST_BYTES).then(|| fs::read_to_string(path).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn branch_rules_and_open_points_are_read_and_links_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = place.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("app/.git/HEAD", "ref: refs/heads/main\n");
        write("app/.claude/rules/a.md", "Be brief.");
        write("app/.claude/rules/b.txt", "not a rule");
        write("app/TODO.md", "- [x] done\n- [ ] not done\n");
        write("secret.md", "a secret");
        #[cfg(unix)]
        std::os::unix::fs::symlink(
            place.path().join("secret.md"),
            place.path().join("app/.claude/rules/c.md"),
        )
        .unwrap();
        // Without a program to start others, only the notes are read.
        let project = look(&Host::inert("dev"), &place.path().join("app")).await;
        assert_eq!((project.branch.as_deref(), project.changes), (Some("main"), None));
        let rules: Vec<_> = project.rules.iter().map(|rules| rules.text.as_str()).collect();
        assert_eq!((rules, project.open), (vec!["Be brief."], vec!["TODO.md:2:- [ ] not done".to_owned()]));
    }
}
