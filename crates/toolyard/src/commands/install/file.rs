//! The config of a client: what stands in it, and how Toolyard gets in and out. What would be written is read
//! again first, and must be what was there with this one entry more or less; else nothing is written.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use serde_json::{Map, Value};

use super::entry::Entry;
use super::json::Document;
use super::toml;
use crate::commands::clients::read::{Foreign, section};
use crate::commands::clients::{Client, jsonc};
use crate::commands::save::{self, Readers};
use crate::config::{File, Format, Problem};
use crate::failure::{Failure, refused};
use crate::settings;

/// What a client that has no config yet starts from.
const EMPTY: &str = "{}\n";

/// Whose config it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// Yours, for everything you do.
    #[default]
    User,
    /// That of the project in this folder, which may be shared.
    Project,
}

pub(in crate::commands) struct ClientFile {
    pub(in crate::commands) client: Client,
    pub(in crate::commands) scope: Scope,
    pub(in crate::commands) path: PathBuf,
    /// What it says; nothing where it is not there.
    before: Option<String>,
    servers: Vec<Foreign>,
}

impl ClientFile {
    pub(in crate::commands) fn open(client: Client, scope: Scope) -> Result<Self, Failure> {
        let path = locate(client, scope)?;
        let unreadable = |error: std::io::Error| {
            let message = format!("cannot read {}: {error}", path.display());
            refused(message, "check the path and its permissions; the file must be UTF-8 text")
        };
        let before = save::read(&path).map_err(unreadable)?;
        if before.is_none() && path.is_symlink() {
            let message = format!("{} is a link that leads nowhere", path.display());
            return Err(refused(message, "make the file that it leads to, or remove the link"));
        }
        let mut file = Self { client, scope, path, before, servers: Vec::new() };
        file.servers =
            section(File { path: file.path.clone(), text: file.text().to_owned() }, client.section())
                .map_err(Failure::Config)?;
        Ok(file)
    }

    /// The server of that name.
    pub(in crate::commands) fn server(&self, name: &str) -> Result<Option<&Foreign>, Failure> {
        let mut named = self.servers.iter().filter(|server| server.name == name);
        match (named.next(), named.next()) {
            (_, Some(second)) => {
                let problem = Problem::error(name, "it is there twice", "keep one of the two");
                Err(Failure::Config(vec![Problem { place: Some(second.place.clone()), ..problem }]))
            }
            (first, None) => Ok(first),
        }
    }

    /// The servers that are Toolyard.
    pub(in crate::commands) fn toolyards(&self) -> impl Iterator<Item = &Foreign> {
        self.servers.iter().filter(|server| server.is_toolyard())
    }

    /// The file with this entry, instead of the one of that name if there is one.
    pub(super) fn with(&self, name: &str, entry: &Entry) -> Result<String, Failure> {
        let (text, section) = (self.text(), self.client.section());
        let is_new = self.servers.iter().all(|server| server.name != name);
        let after = match self.format() {
            Format::Json if is_new => Document::read(text).and_then(|file| file.with(section, name, entry)),
            Format::Json => Document::read(text).and_then(|file| file.with_replaced(section, name, entry)),
            Format::Toml if is_new => Some(toml::with(text, section, name, entry)),
            Format::Toml => toml::with_replaced(text, section, name, entry),
        };
        self.checked(after, |servers| {
            servers.insert(name.to_owned(), entry.value());
        })
    }

    /// The file without the entry of that name.
    pub(in crate::commands) fn without(&self, name: &str) -> Result<String, Failure> {
        let (text, section) = (self.text(), self.client.section());
        let after = match self.format() {
            Format::Json => Document::read(text).and_then(|file| file.without(section, name)),
            Format::Toml => toml::without(text, section, name),
        };
        self.checked(after, |servers| {
            servers.remove(name);
        })
    }

    /// Writes it; where the file is kept as it was.
    pub(in crate::commands) fn save(&self, after: &str) -> Result<Option<PathBuf>, Failure> {
        let readers = if self.scope == Scope::User { Readers::Owner } else { Readers::Usual };
        let is_worth_keeping = self.before.as_ref().is_some_and(|before| !before.is_empty());
        let backup = is_worth_keeping.then(|| save::back_up(&self.path)).transpose()?;
        let written = save::write(&self.path, self.before.as_deref(), after, readers);
        if let (Err(_), Some(backup)) = (&written, &backup) {
            let _ = std::fs::remove_file(backup);
        }
        written.with_context(|| format!("write {}", self.path.display()))?;
        Ok(backup)
    }

    pub(in crate::commands) fn label(&self) -> String {
        format!("{}, {}", self.client.name(), self.path.display())
    }

    fn text(&self) -> &str {
        let text = self.before.as_deref().unwrap_or_default();
        let is_empty = text.trim_start_matches('\u{feff}').trim().is_empty();
        if is_empty && self.format() == Format::Json { EMPTY } else { text }
    }

    fn format(&self) -> Format {
        if self.client == Client::Codex { Format::Toml } else { Format::Json }
    }

    /// What was made of the text, if it says what it should and can be written.
    fn checked(
        &self,
        after: Option<String>,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> Result<String, Failure> {
        if std::fs::metadata(&self.path).is_ok_and(|about| about.permissions().readonly()) {
            let message = format!("{} may only be read", self.path.display());
            return Err(refused(message, "let yourself write it, or paste what --print prints"));
        }
        let section = self.client.section();
        let expected = self.value(self.text()).map(|mut root| {
            let servers = root.entry(section).or_insert_with(|| Value::Object(Map::new()));
            servers.as_object_mut().map(change);
            without_empty(root, section)
        });
        let made = after.as_deref().and_then(|after| self.value(after));
        let is_right = made.is_some() && made.map(|root| without_empty(root, section)) == expected;
        after.filter(|_| is_right).ok_or_else(|| {
            let message = format!("{} is written in a way that cannot be changed here", self.path.display());
            refused(message, "change it by hand; --print prints what belongs in")
        })
    }

    fn value(&self, text: &str) -> Option<Map<String, Value>> {
        match self.format() {
            Format::Json => serde_json::from_str(jsonc::plain(text).trim_start_matches('\u{feff}')).ok(),
            Format::Toml => match serde_json::to_value(::toml::from_str::<::toml::Table>(text).ok()?).ok()? {
                Value::Object(root) => Some(root),
                _ => None,
            },
        }
    }
}

/// A section with nothing in it says as much as none.
fn without_empty(mut root: Map<String, Value>, section: &str) -> Map<String, Value> {
    if root.get(section).and_then(Value::as_object).is_some_and(Map::is_empty) {
        root.remove(section);
    }
    root
}

fn locate(client: Client, scope: Scope) -> Result<PathBuf, Failure> {
    let name = client.name();
    match scope {
        Scope::User => {
            client.own_file(&settings::variable).filter(|path| path.is_absolute()).ok_or_else(|| {
                refused(
                    format!("nothing says where {name} has its config"),
                    "set HOME, or paste what --print prints",
                )
            })
        }
        Scope::Project => {
            let folder = std::env::current_dir().unwrap_or_default();
            client
                .project_file(Path::new(&folder))
                .ok_or_else(|| refused(format!("{name} has no configs of projects"), "leave out --scope"))
        }
    }
}
