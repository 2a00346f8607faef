//! Skills (`SKILL.md` in a folder of its own) and commands (Markdown files) on disk.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

const SKILL_FOLDERS: [&str; 4] = [".claude/skills", ".agents/skills", ".codex/skills", ".gemini/skills"];
const COMMANDS: &str = ".claude/commands";
const MOST_FILE: u64 = 1 << 20;
const MOST_SKILLS: usize = 2000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skill {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) is_command: bool,
    pub(crate) of_project: bool,
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) digest: String,
    /// A skill of the same name that is left out.
    pub(crate) hides: Option<PathBuf>,
}

impl Skill {
    pub(crate) fn origin(&self) -> &'static str {
        if self.of_project { "project" } else { "user" }
    }
}

/// All skills, those of projects before those of the user. Of two with the same name the first one counts.
pub(crate) fn find_all(projects: &[PathBuf], home: &Path) -> Vec<Skill> {
    let places = projects.iter().map(|project| (project.as_path(), true)).chain([(home, false)]);
    let mut found: Vec<Skill> = Vec::new();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    for (base, of_project) in places {
        let mut here = Vec::new();
        for folder in SKILL_FOLDERS {
            skills_in(&base.join(folder), of_project, &mut here);
        }
        commands_in(&base.join(COMMANDS), "", of_project, 4, &mut here);
        here.sort_by(|a, b| a.is_command.cmp(&b.is_command).then_with(|| a.name.cmp(&b.name)));
        for skill in here {
            match by_name.get(&skill.name) {
                Some(first) if found[*first].path == skill.path => {}
                Some(first) => found[*first].hides = found[*first].hides.take().or(Some(skill.path)),
                None => {
                    by_name.insert(skill.name.clone(), found.len());
                    found.push(skill);
                }
            }
        }
    }
    found
}

fn skills_in(folder: &Path, of_project: bool, found: &mut Vec<Skill>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten().take(MOST_SKILLS) {
        let name = entry.file_name().to_string_lossy().into_owned();
        found.extend(read(&entry.path().join("SKILL.md"), name, false, of_project));
    }
}

/// `a/b.md` is the command `a:b`.
fn commands_in(folder: &Path, prefix: &str, of_project: bool, depth: usize, found: &mut Vec<Skill>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten().take(MOST_SKILLS) {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        if kind.is_dir() && depth > 0 {
            commands_in(&path, &format!("{prefix}{name}:"), of_project, depth - 1, found);
        } else if let Some(name) = name.strip_suffix(".md") {
            found.extend(read(&path, format!("{prefix}{name}"), true, of_project));
        }
    }
}

fn read(path: &Path, name: String, is_command: bool, of_project: bool) -> Option<Skill> {
    // A link could lead to a file that is not meant to be shown.
    let metadata = std::fs::symlink_metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > MOST_FILE {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    let front = frontmatter(&text);
    let value = |key: &str| front.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
    let first_line = || text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("---"));
    Some(Skill {
        name: value("name").filter(|_| !is_command).unwrap_or(name),
        description: value("description").or_else(|| Some(first_line()?.to_owned())).unwrap_or_default(),
        is_command,
        of_project,
        path: path.to_owned(),
        digest: HEXLOWER.encode(&Sha256::digest(text.as_bytes())),
        text,
        hides: None,
    })
}

/// The keys at the top level of the block between two lines `---`. A value may continue in indented lines.
fn frontmatter(text: &str) -> Vec<(String, String)> {
    let mut lines = text.lines();
    if lines.next().map(str::trim_end) != Some("---") {
        return Vec::new();
    }
    let mut keys: Vec<(String, String)> = Vec::new();
    for line in lines.take_while(|line| line.trim_end() != "---") {
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = keys.last_mut() {
                let more = line.trim();
                *value = if value.is_empty() { more.to_owned() } else { format!("{value} {more}") };
            }
        } else if let Some((key, value)) = line.split_once(':') {
            let value = value.trim();
            let value = if matches!(value, "|" | ">" | "|-" | ">-") { "" } else { value };
            keys.push((key.trim().to_owned(), unquoted(value).to_owned()));
        }
    }
    keys
}

fn unquoted(value: &str) -> &str {
    let within = |quote| value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote));
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn a_skill_of_the_project_hides_one_of_the_user_and_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let (project, home) = (folder.path().join("project"), folder.path().join("home"));
        write(
            &project.join(".claude/skills/pdf/SKILL.md"),
            "---\nname: pdf\ndescription: >\n  Reads\n  papers\n---\nBody",
        );
        write(&home.join(".codex/skills/pdf/SKILL.md"), "---\nname: pdf\ndescription: mine\n---\n");
        write(&home.join(".claude/commands/git/sync.md"), "Pull, then push.");
        let found = find_all(std::slice::from_ref(&project), &home);
        let shown: Vec<(&str, &str, &str)> = found
            .iter()
            .map(|skill| (skill.name.as_str(), skill.origin(), skill.description.as_str()))
            .collect();
        assert_eq!(shown, [("pdf", "project", "Reads papers"), ("git:sync", "user", "Pull, then push.")]);
        assert_eq!(found[0].hides, Some(home.join(".codex/skills/pdf/SKILL.md")));
        assert_eq!(found[0].digest.len(), 64);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("secret.md"), "a secret");
        std::fs::create_dir_all(folder.path().join(".claude/skills/x")).unwrap();
        std::os::unix::fs::symlink(
            folder.path().join("secret.md"),
            folder.path().join(".claude/skills/x/SKILL.md"),
        )
        .unwrap();
        assert_eq!(find_all(&[], folder.path()), []);
    }
}
