//! Which transcripts there are, and which of them a caller may read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use toolyard_tool::{Context, Host, ToolError};

use crate::config::{Config, Program};
use crate::transcript::Transcript;

/// Files that are looked at; a home folder with more keeps its newest.
const MOST_FILES: usize = 20_000;

/// What the tools share.
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
    /// The folders of the caller: its roots and those of the config; narrowed to one project if one is named.
    pub(crate) async fn scope(&self, context: &Context, project: Option<&str>) -> Result<Scope, ToolError> {
        let mut folders: Vec<PathBuf> = self.config.projects.iter().map(|folder| real(folder)).collect();
        // A client states its own roots; only a proven user may widen the config with them.
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
                .hint("name folders as `projects` in [packs.sessions], or set `everywhere = true` there")),
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

    /// The transcripts in scope, newest first.
    pub(crate) fn transcripts(&self, scope: &Scope) -> Vec<Transcript> {
        let home = self.config.home();
        let mut found = Vec::new();
        for program in &self.config.programs {
            let gemini = if *program == Program::Gemini { gemini_projects(&home) } else { BTreeMap::new() };
            let mut files = Vec::new();
            collect(&program.folder(&home), *program, 5, &mut files);
            for path in files {
                let Ok(mut transcript) = Transcript::new(*program, path) else { continue };
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

/// Files of transcripts below a folder. Links are not followed, so that nothing outside is read.
fn collect(folder: &Path, program: Program, depth: usize, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_dir() && depth > 0 {
            collect(&path, program, depth - 1, files);
        } else if kind.is_file() && files.len() < MOST_FILES && is_transcript(program, &path) {
            files.push(path);
        }
    }
}

fn is_transcript(program: Program, path: &Path) -> bool {
    let is_lines = path.extension().is_some_and(|extension| extension == "jsonl");
    let parent = || path.parent().and_then(Path::file_name).unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    is_lines
        && match program {
            // Sub-agents have files of their own, which belong to a session.
            Program::Claude => !name.starts_with("agent-"),
            Program::Codex => name.starts_with("rollout-"),
            Program::Gemini => parent() == "chats",
        }
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
