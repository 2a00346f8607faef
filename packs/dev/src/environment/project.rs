//! `get_project_context`: what an agent should know of a project before it begins.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Context, ToolError, WithText, tool};

const RULES: &str = ".claude/rules";
const MOST_RULES: usize = 50;
/// Of one file of rules.
const MOST_BYTES: u64 = 64 << 10;
/// Files in which open points are written down.
const NOTES: [&str; 3] = ["TODO.md", "README.md", "CLAUDE.md"];
const MOST_POINTS: usize = 20;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Wanted {
    /// The folder of the project; the one that the client works in if it is left out.
    project_path: Option<PathBuf>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Project {
    folder: String,
    branch: Option<String>,
    /// The rules of the project, by file.
    rules: Vec<Rules>,
    /// Open points of its notes.
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
    context: &Context,
    args: Wanted,
) -> Result<WithText<Project>, ToolError> {
    let folder = context.folder(args.project_path.as_deref(), &[]).await?;
    let project = look(&folder);
    let mut text = format!("# {}\n", project.folder);
    if let Some(branch) = &project.branch {
        let _ = writeln!(text, "\nBranch: {branch}");
    }
    for Rules { file, text: rules } in &project.rules {
        let _ = write!(text, "\n## {file}\n{rules}\n");
    }
    if !project.open.is_empty() {
        let _ = write!(text, "\n## Open\n{}\n", project.open.join("\n"));
    }
    Ok(WithText::new(project, text))
}

fn look(folder: &Path) -> Project {
    let open = NOTES.iter().filter_map(|file| read(&folder.join(file)));
    let open: Vec<String> = open
        .flat_map(|text| {
            text.lines().filter(|line| line.contains("[ ]")).map(str::to_owned).collect::<Vec<_>>()
        })
        .take(MOST_POINTS)
        .collect();
    Project { folder: folder.display().to_string(), branch: branch(folder), rules: rules(folder), open }
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

    #[test]
    fn branch_rules_and_open_points_are_read_and_links_are_not_followed() {
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
        let project = look(&place.path().join("app"));
        assert_eq!(project.branch.as_deref(), Some("main"));
        let rules: Vec<_> = project.rules.iter().map(|rules| rules.text.as_str()).collect();
        assert_eq!((rules, project.open), (vec!["Be brief."], vec!["- [ ] not done".to_owned()]));
    }
}
