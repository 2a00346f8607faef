//! The config file of a client: its content, and how Toolyard's entry is added and removed. The new text is parsed
//! first and must equal the old content plus or minus this entry; otherwise nothing is written.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};
use toolyard_config::jsonc;
use toolyard_config::save::{self, Change, Lock, Readers};
use toolyard_config::{File, Problem};
use toolyard_config::{environment, state_dir};

use super::entry::Entry;
use super::json::Document;
use super::{toml, yaml};
use crate::error::{ClientError, refused};
use crate::read::{Foreign, InFolder, section};
use crate::{Client, System};

/// The initial content of a config file that does not exist yet.
const EMPTY: &str = "{}\n";

/// An empty file that is younger than this may be one that its client is just writing.
const BEING_WRITTEN: Duration = Duration::from_secs(5);

/// The scope of a config file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Yours, for everything you do.
    #[default]
    User,
    /// The project in this folder, whose file may be shared.
    Project,
}

/// The format of a config file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    Toml,
    Yaml,
}

#[derive(Debug)]
pub struct ClientFile {
    pub client: Client,
    pub scope: Scope,
    pub path: PathBuf,
    /// Its content; nothing if it does not exist.
    before: Option<String>,
    servers: Vec<Foreign>,
    /// Further entries of Toolyard in this file, which its client keeps for single folders.
    pub in_folders: Vec<InFolder>,
    /// No other run changes it meanwhile.
    _lock: Option<Lock>,
}

impl ClientFile {
    /// To look at it only.
    pub fn open(client: Client, scope: Scope) -> Result<Self, ClientError> {
        Self::read(client, scope, locate(client, scope)?)
    }

    pub fn open_to_change(client: Client, scope: Scope) -> Result<Self, ClientError> {
        let path = locate(client, scope)?;
        let lock = Some(save::lock(&path).map_err(ClientError::Locked)?);
        Ok(Self { _lock: lock, ..Self::read(client, scope, path)? })
    }

    fn read(client: Client, scope: Scope, path: PathBuf) -> Result<Self, ClientError> {
        let unreadable = |error: std::io::Error| {
            let message = format!("cannot read {}: {error}", path.display());
            refused(message, "check the path and its permissions; the file must be UTF-8 text")
        };
        let before = save::read(&path).map_err(unreadable)?;
        if before.is_none() && path.is_symlink() {
            let message = format!("{} is a link that leads nowhere", path.display());
            return Err(refused(message, "make the file that it leads to, or remove the link"));
        }
        let text = before.as_deref().unwrap_or_default();
        let is_json = ![Client::Codex, Client::Goose].contains(&client);
        if is_json && !is_blank(text) && is_blank(&jsonc::plain(text)) {
            let message = format!("{} has nothing but comments", path.display());
            return Err(refused(message, "write {} at its end, and try again"));
        }
        let (servers, in_folders) = (Vec::new(), Vec::new());
        let mut file = Self { client, scope, path, before, servers, in_folders, _lock: None };
        let text = File { path: file.path.clone(), text: file.text().to_owned() };
        (file.servers, file.in_folders) = section(text, client.section()).map_err(ClientError::Config)?;
        Ok(file)
    }

    /// The server of that name.
    pub fn server(&self, name: &str) -> Result<Option<&Foreign>, ClientError> {
        let mut named = self.servers.iter().filter(|server| server.name == name);
        match (named.next(), named.next()) {
            (_, Some(second)) => {
                let problem = Problem::error(name, "it is a duplicate", "keep one of the two");
                Err(ClientError::Config(vec![Problem { place: Some(second.place.clone()), ..problem }]))
            }
            (first, None) => Ok(first),
        }
    }

    /// The servers that are Toolyard.
    pub fn toolyards(&self) -> impl Iterator<Item = &Foreign> {
        self.servers.iter().filter(|server| server.is_toolyard())
    }

    /// The file with this entry, instead of the one of that name if there is one.
    pub fn with(&self, name: &str, entry: &Entry) -> Result<String, ClientError> {
        let (text, section) = (self.text(), self.client.section());
        let is_new = self.servers.iter().all(|server| server.name != name);
        let after = match self.format() {
            Format::Yaml if is_new => yaml::with(text, section, name, entry),
            Format::Yaml => yaml::with_replaced(text, section, name, entry),
            Format::Json if is_new => Document::read(text).and_then(|file| file.with(section, name, entry)),
            Format::Json => Document::read(text).and_then(|file| file.with_replaced(section, name, entry)),
            Format::Toml if is_new => Some(toml::with(text, section, name, entry)),
            Format::Toml => toml::with_replaced(text, section, name, entry),
        };
        self.checked(after, |servers| {
            servers.insert(name.to_owned(), entry.value_named(name));
        })
    }

    /// The file without the entry of that name.
    pub fn without(&self, name: &str) -> Result<String, ClientError> {
        let (text, section) = (self.text(), self.client.section());
        let after = match self.format() {
            Format::Json => Document::read(text).and_then(|file| file.without(section, name)),
            Format::Toml => toml::without(text, section, name),
            Format::Yaml => yaml::without(text, section, name),
        };
        self.checked(after, |servers| {
            servers.remove(name);
        })
    }

    /// Writes it; where the file is kept as it was.
    pub fn save(&self, after: &str) -> Result<Option<PathBuf>, ClientError> {
        let readers = if self.scope == Scope::User { Readers::Owner } else { Readers::SystemDefault };
        let before = self.before.as_deref();
        let kept = before.filter(|before| !before.is_empty());
        let attempt = |error: std::io::Error| ClientError::Write(self.path.clone(), error);
        let backup = kept.map(|before| save::back_up(&self.path, &self.kept_at(), before)).transpose();
        let backup = backup.map_err(attempt)?;
        let has_folder_lock = self.is_of_claude_code();
        let change = Change { path: &self.path, before, text: after, readers, has_folder_lock };
        let written = change.write();
        if let (Err(_), Some(backup)) = (&written, &backup) {
            backup.drop_it();
        }
        written.map_err(attempt)?;
        Ok(backup.map(|backup| backup.path))
    }

    /// The start of the backup's path: beside the file, but not where a project's secrets would get into its
    /// history.
    fn kept_at(&self) -> PathBuf {
        let base = state_dir::base(&environment).filter(|_| self.scope == Scope::Project);
        let (Some(base), Some(name)) = (base, self.path.file_name()) else { return self.path.clone() };
        let project = state_dir::set(None, std::slice::from_ref(&self.path), &environment);
        let mut kept = OsString::from(format!("{project}-"));
        kept.push(name);
        base.join("backups").join(kept)
    }

    /// The file in which it keeps everything, and which it writes all the time.
    fn is_of_claude_code(&self) -> bool {
        self.client == Client::ClaudeCode && self.scope == Scope::User
    }

    pub fn label(&self) -> String {
        format!("{}, {}", self.client.name(), self.path.display())
    }

    fn text(&self) -> &str {
        let text = self.before.as_deref().unwrap_or_default();
        if is_blank(text) && self.format() == Format::Json { EMPTY } else { text }
    }

    fn format(&self) -> Format {
        match self.client {
            Client::Codex => Format::Toml,
            Client::Goose => Format::Yaml,
            _ => Format::Json,
        }
    }

    /// The new text, if it has exactly the intended change and may be written.
    fn checked(
        &self,
        after: Option<String>,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> Result<String, ClientError> {
        self.check_that_it_may_be_written()?;
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
            refused(message, "edit the file by hand; --print prints the entry to add")
        })
    }

    fn check_that_it_may_be_written(&self) -> Result<(), ClientError> {
        let Ok(about) = std::fs::metadata(&self.path) else { return Ok(()) };
        let (path, name) = (self.path.display(), self.client.name());
        if about.permissions().readonly() {
            let help = "make the file writable for you, or paste the output of --print";
            return Err(refused(format!("{path} is read-only"), help));
        }
        // Some clients empty their file and then write it, and what they write then would be lost.
        let age = about.modified().ok().and_then(|changed| changed.elapsed().ok()).unwrap_or_default();
        let is_blank = self.before.as_deref().is_some_and(is_blank);
        if is_blank && self.is_of_claude_code() {
            let message = format!("{path} is empty, and {name} keeps all it knows there");
            return Err(refused(
                message,
                format!("start {name}, which may have a backup; or remove the file"),
            ));
        }
        if is_blank && age < BEING_WRITTEN {
            let message = format!("{path} was emptied a moment ago: {name} may be about to write it");
            return Err(refused(message, "try again in some seconds, or remove the file"));
        }
        Ok(())
    }

    fn value(&self, text: &str) -> Option<Map<String, Value>> {
        match self.format() {
            Format::Yaml => yaml::value(text),
            Format::Json => serde_json::from_str(jsonc::plain(text).trim_start_matches('\u{feff}')).ok(),
            Format::Toml => match serde_json::to_value(::toml::from_str::<::toml::Table>(text).ok()?).ok()? {
                Value::Object(root) => Some(root),
                _ => None,
            },
        }
    }
}

fn is_blank(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim().is_empty()
}

/// An empty section means the same as no section.
fn without_empty(mut root: Map<String, Value>, section: &str) -> Map<String, Value> {
    if root.get(section).and_then(Value::as_object).is_some_and(Map::is_empty) {
        root.remove(section);
    }
    root
}

fn locate(client: Client, scope: Scope) -> Result<PathBuf, ClientError> {
    let name = client.name();
    if scope == Scope::Project {
        let folder = std::env::current_dir().unwrap_or_default();
        let none = || refused(format!("{name} has no configs of projects"), "leave out --scope");
        return client.project_file(Path::new(&folder)).ok_or_else(none);
    }
    let files = client.files_here(&environment, System::here());
    match &files[..] {
        [path] if path.is_absolute() => Ok(path.clone()),
        [_, _, ..] => {
            let files: Vec<String> = files.iter().map(|path| format!("\n    {}", path.display())).collect();
            let message = format!("{name} has more than one config file, and which one it reads is unknown");
            Err(refused(message, format!("paste what --print prints into one of{}", files.concat())))
        }
        _ => {
            let message = format!("the location of {name}'s config is unknown");
            Err(refused(message, "set HOME, or paste what --print prints"))
        }
    }
}
