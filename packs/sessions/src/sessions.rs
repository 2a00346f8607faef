//! Which transcripts there are, and which of them a caller may read.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use toolyard_tool::{Context, Host, ToolError};

use crate::config::{Config, Program};
use crate::owner::is_own;
use crate::transcript::Transcript;

/// How many transcripts of one program are read. If there are more, the newest are.
const MOST_FILES: usize = 20_000;

/// The state that all tools share.
pub(crate) struct Sessions {
    pub(crate) config: Config,
    pub(crate) host: Host,
}

/// The folders whose sessions a caller may read.
pub(crate) enum Scope {
    Everywhere,
    Below(Vec<PathBuf>),
}

impl Scope {
    pub(crate) fn covers(&self, folder: &Path) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Below(folders) => folders.iter().any(|allowed| folder.starts_with(allowed)),
        }
    }
}

impl Sessions {
    /// The folders of the caller: the one that it works in, its roots, and those of the config; narrowed to one project
    /// if one is named.
    pub(crate) async fn scope(&self, context: &Context, project: Option<&str>) -> Result<Scope, ToolError> {
        let mut folders: Vec<PathBuf> = self.config.projects.iter().map(|folder| real(folder)).collect();
        // A client states its own folder and roots; only a proven user may widen the config with them.
        if context.is_proven() {
            folders.extend(context.client_folder().map(real));
        }
        if context.is_proven() && context.has_roots() {
            let roots = context.roots().await?;
            folders.extend(
                roots.iter().filter_map(|root| Some(real(Path::new(root.uri.strip_prefix("file://")?)))),
            );
        }
        let scope = if self.config.everywhere { Scope::Everywhere } else { Scope::Below(folders) };
        let Some(project) = project else {
            return match &scope {
                Scope::Below(folders) if folders.is_empty() => Err(ToolError::new(
                    "the folder of this client is unknown, so it is not known which sessions are its own",
                )
                .hint("start it in the folder of its project with `toolyard stdio`, name folders as `projects` in [packs.sessions], or set `everywhere = true` there")),
                _ => Ok(scope),
            };
        };
        let project = real(Path::new(project));
        if !scope.covers(&project) {
            return Err(ToolError::new(format!("`{}` is not a folder of this client", project.display()))
                .hint("name it in `projects` of [packs.sessions]"));
        }
        Ok(Scope::Below(vec![project]))
    }

    /// Works with files on a thread that may block: there can be thousands of transcripts.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Config) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let config = self.config.clone();
        tokio::task::spawn_blocking(move || work(&config)).await?
    }
}

impl Config {
    /// The transcripts in scope, newest first.
    pub(crate) fn transcripts(&self, scope: &Scope) -> Vec<Transcript> {
        let home = self.home();
        let mut found = Vec::new();
        for program in &self.programs {
            let gemini = if *program == Program::Gemini { gemini_projects(&home) } else { BTreeMap::new() };
            let files = newest(&program.folder(&home), *program, MOST_FILES);
            let (agents, files): (Vec<_>, Vec<_>) =
                files.into_iter().partition(|path| *program == Program::Claude && is_agent(path));
            let by_agents = by_session(agents);
            for path in files {
                let Ok(mut transcript) = Transcript::new(*program, path) else { continue };
                // Two files can have one id: a session that was continued repeats the lines of the first.
                transcript.agents = by_agents.get(&transcript.id()).cloned().unwrap_or_default();
                if *program == Program::Gemini && transcript.about.folder.is_none() {
                    transcript.about.folder = project_of(&transcript.path, &gemini);
                }
                let folder = transcript.about.folder.as_ref().map(|folder| real(Path::new(folder)));
                if matches!(scope, Scope::Everywhere) || folder.is_some_and(|folder| scope.covers(&folder)) {
                    found.push(transcript);
                }
            }
        }
        found.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.path.cmp(&b.path)));
        found
    }

    /// The one session whose id begins with this.
    pub(crate) fn find(&self, scope: &Scope, id: &str) -> Result<Transcript, ToolError> {
        let mut fitting: Vec<Transcript> = self
            .transcripts(scope)
            .into_iter()
            .filter(|transcript| transcript.id().starts_with(id))
            .collect();
        match fitting.len() {
            0 => Err(ToolError::not_found(format!("no session `{id}`"))
                .hint("`session_list` lists those that you may read")),
            1 => Ok(fitting.remove(0)),
            count => {
                Err(ToolError::new(format!("{count} sessions begin with `{id}`")).hint("pass more of the id"))
            }
        }
    }
}

/// A path without links, or as it is if it does not exist.
pub(crate) fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The newest transcripts below a folder, at most `most`, the newest first.
fn newest(folder: &Path, program: Program, most: usize) -> Vec<PathBuf> {
    let mut found = BinaryHeap::new();
    collect(folder, program, 5, most, &mut found);
    found.into_sorted_vec().into_iter().map(|Reverse((_, path))| path).collect()
}

/// Files with the time of their last change; the oldest is on top.
type Found = BinaryHeap<Reverse<(SystemTime, PathBuf)>>;

/// Files of transcripts below a folder. Links are not followed, so that nothing outside is read, and files of other
/// users are left out: they could put text into what an agent reads.
fn collect(folder: &Path, program: Program, depth: usize, most: usize, found: &mut Found) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() && depth > 0 {
            collect(&path, program, depth - 1, most, found);
        } else if kind.is_file() && is_transcript(program, &path) {
            // The metadata of an entry is that of a link, not of what it leads to.
            let Some(file) = entry.metadata().ok().filter(is_own) else { continue };
            found.push(Reverse((file.modified().unwrap_or(UNIX_EPOCH), path)));
            if found.len() > most {
                found.pop();
            }
        }
    }
}

fn is_transcript(program: Program, path: &Path) -> bool {
    let is_lines = path.extension().is_some_and(|extension| extension == "jsonl");
    let parent = || path.parent().and_then(Path::file_name).unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    is_lines
        && match program {
            Program::Claude => true,
            Program::Codex => name.starts_with("rollout-"),
            Program::Gemini => parent() == "chats",
        }
}

/// The files of sub-agents by the session that each belongs to.
fn by_session(agents: Vec<PathBuf>) -> HashMap<String, Vec<PathBuf>> {
    let mut by_session: HashMap<String, Vec<PathBuf>> = HashMap::new();
    for agent in agents.into_iter().filter_map(|path| Transcript::new(Program::Claude, path).ok()) {
        by_session.entry(agent.id()).or_default().push(agent.path);
    }
    by_session
}

/// Whether it is the file of a sub-agent of Claude Code: beside that of the session it belongs to, or in a folder of
/// that session. Its lines name the session.
fn is_agent(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("agent-"))
}

/// The folders of Gemini's projects by their short names.
fn gemini_projects(home: &Path) -> BTreeMap<String, String> {
    let read = std::fs::read(home.join(".gemini/projects.json")).ok();
    let projects: Option<Value> = read.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let Some(Value::Object(projects)) =
        projects.as_ref().and_then(|value| value.get("projects").or(Some(value)))
    else {
        return BTreeMap::new();
    };
    projects.iter().filter_map(|(folder, name)| Some((name.as_str()?.to_owned(), folder.clone()))).collect()
}

/// `…/tmp/<project>/chats/<file>`.
fn project_of(path: &Path, projects: &BTreeMap<String, String>) -> Option<String> {
    let name = path.parent()?.parent()?.file_name()?.to_str()?;
    projects.get(name).cloned()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    #[test]
    fn of_more_files_than_the_limit_the_newest_are_kept_wherever_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let begin = UNIX_EPOCH + Duration::from_secs(1_000_000);
        // The newest ones are first, last and in the middle of the order of names.
        for (at, age) in [1, 90, 80, 2, 70, 60, 3].into_iter().enumerate() {
            let project = folder.path().join(format!("p{}", at % 3));
            std::fs::create_dir_all(&project).unwrap();
            let file = File::create(project.join(format!("{at}-{age}.jsonl"))).unwrap();
            file.set_modified(begin - Duration::from_secs(age)).unwrap();
        }
        let names = |most: usize| -> Vec<String> {
            let found = newest(folder.path(), Program::Claude, most);
            found.iter().map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(3), ["0-1", "3-2", "6-3"]);
        assert_eq!(names(5), ["0-1", "3-2", "6-3", "5-60", "4-70"]);
        assert_eq!(names(100).len(), 7);
    }
}
