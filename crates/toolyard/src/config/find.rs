//! Which config file is in force.

use std::path::{Path, PathBuf};

use super::interpolate::Variables;
use super::problem::{Level, Problem};

const PROJECT_FILE: &str = "toolyard.toml";

/// The outcome of looking for a config.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Nothing where the gateway starts with its built-in tools alone.
    pub(crate) file: Option<PathBuf>,
    /// Where the user's own config is, or would be.
    pub(crate) user_file: Option<PathBuf>,
    /// A project file that was left alone: it names commands to run, and nobody has asked for it.
    pub(crate) unused: Option<PathBuf>,
}

/// `asked` is what `--config` says; else it is the user's file, if there is one.
pub(crate) fn find(asked: Option<&Path>, folder: &Path, variables: &Variables<'_>) -> Found {
    let user_file = user_folder(variables).map(|folder| folder.join("toolyard").join("config.toml"));
    if let Some(asked) = asked {
        return Found { file: Some(asked.to_owned()), user_file, unused: None };
    }
    let file = user_file.clone().filter(|file| file.is_file());
    let unused = Some(folder.join(PROJECT_FILE)).filter(|file| file.is_file());
    Found { file, user_file, unused }
}

/// `$XDG_CONFIG_HOME`, which must be absolute to count, or its default.
fn user_folder(variables: &Variables<'_>) -> Option<PathBuf> {
    let absolute = |name: &str| variables(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")))
}

/// Says that a project file was left alone, and how to use it.
pub(crate) fn unused_hint(file: &Path) -> Problem {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    Problem {
        level: Level::Note,
        place: None,
        key: String::new(),
        message: format!("{name} in this folder is not used, because it names programs to run"),
        help: format!("use it with --config {name}"),
    }
}
