//! Makes the entry for Toolyard in the config of a client: which program the client runs, with which arguments.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use toolyard_clients::{Entry, Scope};
use toolyard_config::{self as config, Variables, state_dir};

use super::InstallArgs;
use crate::cli::Common;
use crate::failure::{Failure, refused};
use crate::settings;

pub(super) fn entry(from: &InstallArgs, common: &Common) -> Result<Entry, Failure> {
    let view = &from.view;
    let command =
        from.command.as_deref().map_or_else(|| text(&program()?), |command| Ok(command.to_owned()))?;
    let mut args = vec!["stdio".to_owned()];
    let elsewhere = || config_elsewhere().filter(|_| from.place.scope == Scope::User);
    let config = common.config.clone().or_else(elsewhere);
    let files = [("--config", &config), ("--state-dir", &common.state_dir)];
    for (flag, path) in files {
        if let Some(path) = path {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            args.extend([flag.to_owned(), text(&path)?]);
        }
    }
    for (flag, name) in [("--profile", &view.profile), ("--upstream", &view.upstream)] {
        if let Some(name) = name {
            args.extend([flag.to_owned(), name.clone()]);
        }
    }
    args.extend(view.hub.then(|| "--hub".to_owned()));
    args.extend(view.lean.then(|| "--lean".to_owned()));
    Ok(Entry { client: from.client, command, args, has_state_dir_argument: common.state_dir.is_some() })
}

/// Whether the running gateway keeps its state where a gateway started by a client would not.
pub(super) fn depends_on_state_home(entry: &Entry) -> bool {
    let usual = state_dir::base(&without_xdg);
    !entry.has_state_dir_argument && state_dir::base(&settings::variable) != usual
}

/// The user's config, if a variable determines where it is: clients do not pass that variable on.
fn config_elsewhere() -> Option<PathBuf> {
    let file = |variables: &Variables<'_>| config::find(None, Path::new(""), variables).user_file;
    let here = file(&settings::variable)?;
    (Some(&here) != file(&without_xdg).as_ref() && here.is_file()).then_some(here)
}

fn without_xdg(name: &str) -> Option<String> {
    settings::variable(name).filter(|_| !name.starts_with("XDG_"))
}

/// This program, as a config names it.
pub(in crate::commands) fn own_program() -> Result<String, Failure> {
    text(&program()?)
}

/// The path of this program that survives an upgrade: the one on the `PATH` if it leads here, else the real one.
fn program() -> Result<PathBuf, Failure> {
    let here = std::env::current_exe().context("find this program")?;
    let folders = std::env::var_os("PATH").unwrap_or_default();
    Ok(on_path(&here, std::env::split_paths(&folders)).unwrap_or(here))
}

fn on_path(here: &Path, folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let real = std::fs::canonicalize(here).ok()?;
    let folders: Vec<PathBuf> = folders.filter(|folder| folder.is_absolute()).collect();
    let usual = format!("toolyard{}", std::env::consts::EXE_SUFFIX);
    [OsStr::new(&usual), here.file_name()?].into_iter().find_map(|name| {
        // A file that is hidden on the `PATH` by another program is not relied on.
        let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file())?;
        std::fs::canonicalize(&found).is_ok_and(|path| path == real).then_some(found)
    })
}

fn text(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        refused(
            format!("{} is not valid UTF-8, so it cannot be written into a config", path.display()),
            "give it another name",
        )
    })
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn a_name_on_the_path_is_used_if_it_leads_to_this_program() {
        let home = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            std::fs::create_dir(home.path().join(name)).unwrap();
            home.path().join(name)
        };
        let real = folder("real");
        let links = folder("links");
        let other = folder("other");
        let program = real.join("toolyard-1.2");
        std::fs::write(&program, "").unwrap();
        std::os::unix::fs::symlink(&program, links.join("toolyard")).unwrap();
        std::fs::write(other.join("toolyard"), "").unwrap();
        let check = |folders: &[&PathBuf], expected: Option<PathBuf>| {
            let found = on_path(&program, folders.iter().map(|folder| (*folder).clone()));
            assert_eq!(found, expected, "{folders:?}");
        };
        check(&[&links, &real], Some(links.join("toolyard")));
        check(&[&real], Some(real.join("toolyard-1.2")));
        check(&[&other, &links], None);
        check(&[&PathBuf::from("."), &other], None);
        check(&[], None);
    }
}
