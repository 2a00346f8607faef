//! What stands in the config of a client for Toolyard: which program it runs, with which arguments, and under
//! which names the client wants to read that.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

use crate::cli::{Common, StdioArgs};
use crate::commands::clients::Client;
use crate::commands::clients::read::Foreign;
use crate::definition::Definition;
use crate::failure::{Failure, refused};

/// The entry of one client.
pub(super) struct Entry {
    /// Nothing for a client that is not known here.
    client: Option<Client>,
    pub(super) command: String,
    pub(super) args: Vec<String>,
}

impl Entry {
    pub(super) fn new(
        client: Option<Client>,
        command: Option<&str>,
        common: &Common,
        view: &StdioArgs,
    ) -> Result<Self, Failure> {
        let command = command.map_or_else(|| text(&program()?), |command| Ok(command.to_owned()))?;
        let mut args = vec!["stdio".to_owned()];
        let files = [("--config", &common.config), ("--state-dir", &common.state_dir)];
        for (flag, path) in files {
            if let Some(path) = path {
                args.extend([
                    flag.to_owned(),
                    text(&std::path::absolute(path).unwrap_or_else(|_| path.clone()))?,
                ]);
            }
        }
        for (flag, name) in [("--profile", &view.profile), ("--upstream", &view.upstream)] {
            if let Some(name) = name {
                args.extend([flag.to_owned(), name.clone()]);
            }
        }
        args.extend(view.hub.then(|| "--hub".to_owned()));
        Ok(Self { client, command, args })
    }

    /// Its keys, as they are written.
    pub(super) fn fields(&self) -> Vec<(&'static str, Value)> {
        let kind = match self.client {
            Some(Client::ClaudeCode | Client::Cursor | Client::Vscode) => Some(("type", json!("stdio"))),
            _ => None,
        };
        let rest = [("command", json!(self.command)), ("args", json!(self.args))];
        kind.into_iter().chain(rest).collect()
    }

    pub(super) fn value(&self) -> Value {
        Value::Object(self.fields().into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// Whether what is there does the same. Whatever else somebody wrote into it is theirs.
    pub(super) fn is(&self, there: &Foreign) -> bool {
        let Definition { command, args, url, .. } = &there.definition;
        url.is_none() && command.as_ref() == Some(&self.command) && *args == self.args
    }

    pub(super) fn definition(&self) -> Definition {
        Definition { command: Some(self.command.clone()), args: self.args.clone(), ..Definition::default() }
    }
}

/// This program, under the name that outlives an upgrade: as it is found on the `PATH`, where that leads here, and
/// else where it really is.
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
        // What another program of that name hides may be there tomorrow or not.
        let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file())?;
        std::fs::canonicalize(&found).is_ok_and(|path| path == real).then_some(found)
    })
}

fn text(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        refused(
            format!("{} is no text, and a config can hold nothing else", path.display()),
            "give it another name",
        )
    })
}

#[cfg(test)]
impl Entry {
    pub(super) fn example() -> Self {
        Self { client: Some(Client::Cursor), command: "/bin/toolyard".into(), args: vec!["stdio".into()] }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn a_name_on_the_path_counts_where_it_leads_here() {
        let home = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            std::fs::create_dir(home.path().join(name)).unwrap();
            home.path().join(name)
        };
        let (real, links, other) = (folder("real"), folder("links"), folder("other"));
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
