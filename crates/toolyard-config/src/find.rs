//! Which config files are in force: the one that was asked for, or the user's own and, where the user trusts
//! it, that of the project.

use std::path::{Path, PathBuf};

use super::interpolate::Variables;
use super::problem::{Level, Problem};
use super::trust::{TrustState, Trusted};
use crate::system;

pub const PROJECT_FILE: &str = "toolyard.toml";

/// The outcome of looking for a config.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// The files in use; a later one wins. Empty if the gateway starts with its built-in tools alone.
    pub sources: Vec<Source>,
    /// The path of the user's own config, whether it exists or not.
    pub user_file: Option<PathBuf>,
    /// A project file that is ignored: it names programs to run, and the user has not trusted it.
    pub unused: Option<(PathBuf, TrustState)>,
}

/// A file in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub path: PathBuf,
    pub role: Role,
}

/// The project file at `path`, and the files that come before it.
pub fn project(path: &Path, variables: &Variables<'_>) -> (Source, Vec<Source>) {
    let own =
        find(None, Path::new(""), variables).sources.into_iter().filter(|source| source.role == Role::Own);
    (Source { path: path.to_owned(), role: Role::Project }, own.collect())
}

/// The role of a file, which decides what it may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The user's own, or asked for by name.
    Own,
    /// Found in the working directory. It may not say where the gateway listens.
    Project,
}

impl Found {
    /// The paths of the files in force, in order.
    pub fn files(&self) -> Vec<PathBuf> {
        self.sources.iter().map(|source| source.path.clone()).collect()
    }

    /// What makes a config set: the files in force, and the user's own also while it is not there yet. So a
    /// gateway that runs without a config is still the same one when the first server is added.
    pub fn set(&self) -> Vec<PathBuf> {
        let files = self.files();
        let is_project = |source: &Source| source.role == Role::Project;
        let own = self.user_file.clone().filter(|_| self.sources.iter().all(is_project));
        own.into_iter().chain(files).collect()
    }

    /// The files in force in a few words; nothing where there are none.
    pub fn names(&self) -> Option<String> {
        let names: Vec<String> =
            self.sources.iter().map(|source| source.path.display().to_string()).collect();
        (!names.is_empty()).then(|| names.join(" and "))
    }
}

/// `asked` is the value of `--config`; if given, it is the only file.
pub fn find(asked: Option<&Path>, folder: &Path, variables: &Variables<'_>) -> Found {
    let user_file =
        system::config_folder(variables).map(|folder| folder.join("toolyard").join("config.toml"));
    if let Some(asked) = asked {
        let source = Source { path: asked.to_owned(), role: Role::Own };
        return Found { sources: vec![source], user_file, unused: None };
    }
    let own = user_file.clone().filter(|file| file.is_file());
    let mut sources: Vec<Source> = own.map(|path| Source { path, role: Role::Own }).into_iter().collect();
    let project = folder.join(PROJECT_FILE);
    let mut unused = None;
    if project.is_file() {
        match Trusted::read(variables).state(&project) {
            TrustState::Trusted => sources.push(Source { path: project, role: Role::Project }),
            standing => unused = Some((project, standing)),
        }
    }
    Found { sources, user_file, unused }
}

/// The config that the environment names for mcpproxy, which Toolyard replaces.
pub fn of_the_proxy() -> Option<PathBuf> {
    std::env::var_os("MCP_CONFIG").filter(|file| !file.is_empty()).map(PathBuf::from)
}

/// The note that a project file is not used, and how to use it.
pub fn unused_hint(file: &Path, standing: &TrustState) -> Problem {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let message = match standing {
        TrustState::Changed(what) => {
            let what: Vec<String> = what.iter().map(|what| format!("`{what}`")).collect();
            format!(
                "{name} in this folder is not used, because {} changed since you trusted it",
                what.join(", ")
            )
        }
        _ => format!("{name} in this folder is not used, because it names programs to run"),
    };
    let help = format!("review it; then use it always with `toolyard trust`, or once with --config {name}");
    Problem { level: Level::Note, ..Problem::error("", message, help) }
}
