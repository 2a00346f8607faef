//! Hooks that add what the project has to say: rules, skills, and its own description. The project is the member
//! `project` of an event, or the setting `root`.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use globset::{Glob, GlobSet, GlobSetBuilder};
use parking_lot::Mutex;
use regex_lite::Regex;

use super::{Judge, Settings, prompt, with_prompt};
use crate::{Event, Verdict};

/// A token is about four characters.
const CHARS_PER_TOKEN: usize = 4;
/// The longest file that is read.
const LARGEST: u64 = 256 * 1024;
const MOST_SESSIONS: usize = 256;
const MOST_RULES: usize = 200;

fn root(event: &Event, usual: &str) -> Option<PathBuf> {
    let root = PathBuf::from(event.text("project").unwrap_or(usual));
    (root.is_absolute() && root.is_dir()).then_some(root)
}

fn read_small(path: &Path) -> Option<String> {
    let is_small = path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST);
    is_small.then(|| std::fs::read_to_string(path).ok()).flatten()
}

/// One file of `.claude/rules`.
struct Rule {
    name: String,
    priority: i64,
    globs: Option<GlobSet>,
    text: String,
}

impl Rule {
    /// Parses a file of rules; `None` if it is switched off.
    fn parse(name: &str, text: &str) -> Option<Self> {
        let (front, body) = match text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---")) {
            Some((front, body)) => (front, body.trim_start_matches('-').trim_start()),
            None => ("", text),
        };
        let member = |key: &str| {
            let value = front.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'));
            value.map(|value| value.trim().trim_matches(['"', '\'']).to_owned())
        };
        if member("enabled").is_some_and(|enabled| enabled == "false") {
            return None;
        }
        let priority = member("priority").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut globs: Vec<String> = member("globs").into_iter().flat_map(|list| words(&list)).collect();
        globs.extend(list_items(front, "globs"));
        let globs = (!globs.is_empty()).then(|| glob_set(&globs)).flatten();
        Some(Self { name: name.to_owned(), priority, globs, text: body.trim().to_owned() })
    }

    /// Rules without patterns are for every prompt that names a file.
    fn is_for(&self, paths: &[&str]) -> bool {
        self.globs.as_ref().is_none_or(|globs| paths.iter().any(|path| globs.is_match(path)))
    }
}

/// `[a, "b"]` or `a, b`.
fn words(list: &str) -> Vec<String> {
    let list = list.trim_matches(['[', ']']);
    let words = list.split(',').map(|word| word.trim().trim_matches(['"', '\'']).to_owned());
    words.filter(|word| !word.is_empty()).collect()
}

/// The items below `key:`, each on a line of its own after a dash.
fn list_items(front: &str, key: &str) -> Vec<String> {
    let mut lines = front.lines().skip_while(|line| line.trim_end() != format!("{key}:"));
    lines.next();
    let items = lines.map_while(|line| line.trim_start().strip_prefix("- "));
    items.map(|item| item.trim().trim_matches(['"', '\'']).to_owned()).collect()
}

fn glob_set(globs: &[String]) -> Option<GlobSet> {
    let mut set = GlobSetBuilder::new();
    globs.iter().filter_map(|glob| Glob::new(glob).ok()).for_each(|glob| {
        set.add(glob);
    });
    set.build().ok()
}

/// `root`, `folder` (".claude/rules"), `max_tokens` (4000).
pub(super) fn rules(settings: &mut Settings) -> Result<Judge, String> {
    let usual = settings.text("root", "")?;
    let folder = settings.text("folder", ".claude/rules")?;
    let most = settings.size("max_tokens", 4_000)? * CHARS_PER_TOKEN;
    let path = Regex::new(r"[\w.@~-]*(?:/[\w.@-]+)*[\w@-]+\.[A-Za-z]\w{0,7}\b")
        .map_err(|error| error.to_string())?;
    let given: Mutex<HashMap<String, HashSet<String>>> = Mutex::default();
    Ok(Box::new(move |event| {
        let (Some(text), Some(root)) = (prompt(event), root(event, &usual)) else { return Verdict::pass() };
        let paths: Vec<&str> = path.find_iter(text).map(|found| found.as_str()).collect();
        if paths.is_empty() {
            return Verdict::pass();
        }
        let rules = rules_in(&root.join(&folder));
        let mut given = given.lock();
        if given.len() >= MOST_SESSIONS {
            given.clear();
        }
        let session = event.text("session").unwrap_or_default();
        let given = given.entry(session.to_owned()).or_default();
        let (mut added, mut left) = (String::new(), most);
        for rule in rules {
            let is_new = session.is_empty() || !given.contains(&rule.name);
            let size = rule.text.chars().count();
            if is_new && rule.is_for(&paths) && size <= left {
                left -= size;
                added.extend(["<rule name=\"", &rule.name, "\">\n", &rule.text, "\n</rule>\n"]);
                given.insert(rule.name);
            }
        }
        if added.is_empty() { Verdict::pass() } else { with_prompt(format!("{added}\n{text}")) }
    }))
}

/// The most important first.
fn rules_in(folder: &Path) -> Vec<Rule> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_RULES);
    let markdown =
        files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|end| end == "md"));
    let read = |path: PathBuf| Rule::parse(path.file_stem()?.to_str()?, &read_small(&path)?);
    let mut rules: Vec<Rule> = markdown.filter_map(read).collect();
    rules.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name)));
    rules
}

/// `root`, `home`.
pub(super) fn slash_skills(settings: &mut Settings) -> Result<Judge, String> {
    let usual = settings.text("root", "")?;
    let home = settings.text("home", &std::env::home_dir().unwrap_or_default().display().to_string())?;
    let called =
        Regex::new(r"^\s*/([A-Za-z0-9][\w:-]*)[ \t]*([\s\S]*)$").map_err(|error| error.to_string())?;
    Ok(Box::new(move |event| {
        let Some(text) = prompt(event) else { return Verdict::pass() };
        let Some(found) = called.captures(text) else { return Verdict::pass() };
        let (name, arguments) = (&found[1], found[2].trim());
        let roots = root(event, &usual).into_iter().chain([PathBuf::from(&home)]);
        let skill = roots.filter(|root| root.is_absolute()).find_map(|root| skill(&root, name));
        match skill {
            Some(body) if body.contains("$ARGUMENTS") => with_prompt(body.replace("$ARGUMENTS", arguments)),
            Some(body) if arguments.is_empty() => with_prompt(body),
            Some(body) => with_prompt(format!("{body}\n\n{arguments}")),
            None => Verdict::pass(),
        }
    }))
}

/// The text of a command or skill, without its head. A name is not a path: `a:b` is `b` in the folder `a`.
fn skill(root: &Path, name: &str) -> Option<String> {
    let relative: PathBuf = name.split(':').collect();
    if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
        return None;
    }
    let claude = root.join(".claude");
    let text = read_small(&claude.join("commands").join(relative.with_extension("md")))
        .or_else(|| read_small(&claude.join("skills").join(&relative).join("SKILL.md")))?;
    let body = match text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---")) {
        Some((_, body)) => body.trim_start_matches('-'),
        None => &text,
    };
    Some(body.trim().to_owned())
}

/// `root`, `max_chars` (8000).
pub(super) fn directory_context(settings: &mut Settings) -> Result<Judge, String> {
    let usual = settings.text("root", "")?;
    let most = settings.size("max_chars", 8_000)?;
    Ok(Box::new(move |event| {
        let (Some(text), Some(root)) = (prompt(event), root(event, &usual)) else { return Verdict::pass() };
        let found =
            ["AGENTS.md", "README.md"].iter().find_map(|name| Some((*name, read_small(&root.join(name))?)));
        let Some((name, content)) = found else { return Verdict::pass() };
        let opening = format!("<file name=\"{name}\">");
        if text.contains(&opening) {
            return Verdict::pass();
        }
        let content: String = content.chars().take(most).collect();
        with_prompt(format!("{opening}\n{}\n</file>\n\n{text}", content.trim()))
    }))
}
