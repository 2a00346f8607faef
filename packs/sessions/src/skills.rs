//! Skills (`SKILL.md` in a folder of its own) and commands (Markdown files) on disk.

mod frontmatter;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const SKILL_FOLDERS: [&str; 4] = [".claude/skills", ".agents/skills", ".codex/skills", ".gemini/skills"];
const COMMANDS: &str = ".claude/commands";
const MOST_FILE: u64 = 1 << 20;
const MOST_SKILLS: usize = 2000;
/// The limits of the extension for one skill: the number of files, and their total size.
const MOST_FILES: usize = 512;
const MOST_SIZE: usize = 16 << 20;

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
        // A link could lead to a folder that is not meant to be shown.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
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
    let front = frontmatter::read(&text).unwrap_or_default();
    let value = |key: &str| front.get(key).and_then(Value::as_str).map(|text| text.trim().to_owned());
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

/// A skill as the protocol's extension serves it, with all files of its folder. Commands are not skills, and neither is
/// a folder whose name is not that of its skill.
pub(crate) fn served(skill: &Skill) -> Option<toolyard_tool::Skill> {
    let folder = skill.path.parent().filter(|_| !skill.is_command)?;
    let front = frontmatter::read(&skill.text)?;
    let has_text = |key: &str| front.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let is_named = front.get("name").and_then(Value::as_str) == folder.file_name()?.to_str();
    if !is_named || !is_valid_name(&skill.name) || !has_text("description") {
        return None;
    }
    let (mut files, mut size) = (Vec::new(), skill.text.len());
    files_below(folder, "", 4, &mut size, &mut files);
    files.sort();
    let served = toolyard_tool::Skill::new(&skill.name, front, skill.text.as_bytes());
    Some(files.into_iter().fold(served, |served, (path, content)| served.file(path, content)))
}

/// As the specification of skills has it.
fn is_valid_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=64).contains(&name.len())
        && name.chars().all(is_plain)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

/// The files besides `SKILL.md`. Links are not followed, and what is hidden or too large is left out.
fn files_below(
    folder: &Path,
    prefix: &str,
    depth: usize,
    size: &mut usize,
    files: &mut Vec<(String, Vec<u8>)>,
) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
        let path = format!("{prefix}{name}");
        if name.starts_with('.') || path == "SKILL.md" {
            continue;
        }
        if kind.is_dir() && depth > 0 {
            files_below(&entry.path(), &format!("{path}/"), depth - 1, size, files);
        } else if kind.is_file() && files.len() + 1 < MOST_FILES {
            let length = entry.metadata().map_or(u64::MAX, |metadata| metadata.len());
            let Ok(length) = usize::try_from(length) else { continue };
            if size.saturating_add(length) > MOST_SIZE {
                continue;
            }
            if let Ok(content) = std::fs::read(entry.path()) {
                *size += content.len();
                files.push((path, content));
            }
        }
    }
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

    #[test]
    fn a_served_skill_has_the_files_of_its_folder() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".claude/skills/pdf");
        write(&folder.join("SKILL.md"), "---\nname: pdf\ndescription: d\nversion: 2\n---\nBody");
        write(&folder.join("references/forms.md"), "Forms");
        write(&folder.join(".env"), "a secret");
        write(&home.path().join(".claude/skills/other/SKILL.md"), "---\nname: wrong\ndescription: d\n---\n");
        write(&home.path().join(".claude/skills/Bad/SKILL.md"), "---\nname: Bad\ndescription: d\n---\n");
        write(&home.path().join(".claude/commands/c.md"), "---\nname: c\ndescription: d\n---\n");
        let all = find_all(&[], home.path());
        assert_eq!(all.len(), 4);
        let front = serde_json::json!({ "name": "pdf", "description": "d", "version": 2 });
        let text = std::fs::read(folder.join("SKILL.md")).unwrap();
        let expected = toolyard_tool::Skill::new("pdf", front.as_object().unwrap().clone(), text)
            .file("references/forms.md", "Forms");
        assert_eq!(all.iter().filter_map(served).collect::<Vec<_>>(), [expected]);
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
        let elsewhere = folder.path().join("elsewhere");
        write(&elsewhere.join("SKILL.md"), "---\nname: y\ndescription: d\n---\n");
        std::os::unix::fs::symlink(elsewhere, folder.path().join(".claude/skills/y")).unwrap();
        assert_eq!(find_all(&[], folder.path()), []);
    }
}
