//! An upstream as it is written: variables not expanded, secrets where they are. What `add` writes, `import`
//! finds elsewhere, and `list` shows.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use toml_edit::{Array, InlineTable, Table, Value as TomlValue, value};
use toolyard_proto::name::sanitize_upstream_id;

use crate::secret;
use crate::{Entry, File, Format, Place, Source, Value, read_file};

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Definition {
    pub command: Option<String>,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub env_file: Option<String>,
    pub cwd: Option<String>,
    pub url: Option<String>,
    pub headers: Vec<(String, String)>,
    /// `sse`, where only the legacy transport HTTP+SSE is allowed.
    pub transport: Option<String>,
    pub is_off: bool,
}

/// An upstream in a file.
#[derive(Debug)]
pub struct Written {
    pub id: String,
    /// Its name in the file, where that could not be the id.
    pub name: Option<String>,
    pub file: PathBuf,
    pub place: Place,
    pub definition: Definition,
}

/// All upstreams of the files in force; a later file wins. Files that cannot be read are left out.
pub fn written(sources: &[Source]) -> Vec<Written> {
    let mut all: Vec<Written> = Vec::new();
    for source in sources {
        let Ok(file) = read_file(&source.path) else { continue };
        for new in in_file(&file) {
            all.retain(|old| !old.id.eq_ignore_ascii_case(&new.id));
            all.push(new);
        }
    }
    all
}

/// The upstreams of one file, in its order.
pub fn in_file(file: &File) -> Vec<Written> {
    let sections: &[&str] = match file.format() {
        Format::Toml => &["upstreams"],
        Format::Json => &["mcpServers", "servers"],
    };
    let mut entries = file.entries().unwrap_or_default();
    let section = sections.iter().find_map(|section| entries.iter().position(|entry| entry.key == *section));
    let Some(Value::Table(named)) = section.map(|index| entries.swap_remove(index).node.value) else {
        return Vec::new();
    };
    let mut found: Vec<Written> = Vec::new();
    for entry in named {
        let taken = |id: &str| found.iter().any(|other| other.id.eq_ignore_ascii_case(id));
        let id = match file.format() {
            Format::Toml => entry.key.clone(),
            Format::Json => sanitize_upstream_id(&entry.key, taken).as_str().to_owned(),
        };
        let Value::Table(keys) = &entry.node.value else { continue };
        found.push(Written {
            name: (id != entry.key).then(|| entry.key.clone()),
            id,
            file: file.path.clone(),
            place: Place::find(&file.path, &file.text, entry.at),
            definition: Definition::read(keys),
        });
    }
    found
}

/// The apps in `[apps.endpoints]` of a file.
pub fn apps_in_file(file: &File) -> Vec<Written> {
    let table = |entries: Vec<Entry>, key: &str| match entries
        .into_iter()
        .find(|entry| entry.key == key)
        .map(|entry| entry.node.value)
    {
        Some(Value::Table(inner)) => inner,
        _ => Vec::new(),
    };
    let endpoints = table(table(file.entries().unwrap_or_default(), "apps"), "endpoints");
    let app = |entry: &Entry| {
        let definition = match &entry.node.value {
            Value::Table(keys) => Definition::read(keys),
            value => Definition { url: as_text(value), ..Definition::default() },
        };
        let place = Place::find(&file.path, &file.text, entry.at);
        Written { id: entry.key.clone(), name: None, file: file.path.clone(), place, definition }
    };
    endpoints.iter().map(app).collect()
}

/// It may hold secrets.
impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Definition").field(&self.how()).finish()
    }
}

impl Definition {
    /// Reads what is valid and ignores the rest; mistakes are reported by the check of the file.
    pub fn read(keys: &[Entry]) -> Self {
        let find = |key: &str| keys.iter().find(|entry| entry.key == key).map(|entry| &entry.node.value);
        let text = |key: &str| find(key).and_then(as_text);
        let flag = |key: &str| match find(key) {
            Some(Value::Flag(flag)) => Some(*flag),
            _ => None,
        };
        let is_sse = [text("transport"), text("type")].into_iter().flatten().any(|kind| kind == "sse");
        Self {
            command: text("command"),
            args: find("args").map(as_list).unwrap_or_default(),
            env: find("env").map(as_pairs).unwrap_or_default(),
            env_file: text("env_file").or_else(|| text("envFile")),
            cwd: text("cwd"),
            url: text("url"),
            headers: find("headers").map(as_pairs).unwrap_or_default(),
            transport: is_sse.then(|| "sse".to_owned()),
            is_off: flag("enabled") == Some(false) || flag("disabled") == Some(true),
        }
    }

    /// Whether both lead to the same server, switched on or not.
    pub fn leads_where(&self, other: &Self) -> bool {
        Self { is_off: false, ..self.clone() } == Self { is_off: false, ..other.clone() }
    }

    /// The definition as a section of a config.
    pub fn to_toml(&self) -> Table {
        let mut table = Table::new();
        let mut text = |key: &str, text: &Option<String>| {
            if let Some(text) = text {
                table[key] = value(text.as_str());
            }
        };
        text("command", &self.command);
        text("url", &self.url);
        text("transport", &self.transport);
        if !self.args.is_empty() {
            table["args"] = value(self.args.iter().map(String::as_str).collect::<Array>());
        }
        for (key, pairs) in [("env", &self.env), ("headers", &self.headers)] {
            if !pairs.is_empty() {
                let pair = |(name, text): &(String, String)| (name.clone(), TomlValue::from(text.as_str()));
                table[key] = value(pairs.iter().map(pair).collect::<InlineTable>());
            }
        }
        if let Some(file) = &self.env_file {
            table["env_file"] = value(file.as_str());
        }
        if let Some(cwd) = &self.cwd {
            table["cwd"] = value(cwd.as_str());
        }
        if self.is_off {
            table["enabled"] = value(false);
        }
        table
    }

    /// The command line or the address, secrets hidden.
    pub fn how(&self) -> String {
        match (&self.command, &self.url) {
            (Some(command), _) => {
                let args = secret::masked_args(&self.args);
                std::iter::once(command.clone())
                    .chain(args)
                    .map(|word| quoted(&word))
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            (None, Some(url)) => secret::masked_url(url),
            (None, None) => "(neither command nor url)".to_owned(),
        }
    }

    /// The working directory and the environment of the program, with secrets hidden.
    pub fn surroundings(&self) -> Vec<String> {
        let pair = |(name, text): &(String, String)| {
            let is_secret = secret::is_secret(name, text);
            let text = if is_secret { secret::masked(text) } else { text.clone() };
            format!("{name}={}", quoted(&text))
        };
        let cwd = self.cwd.iter().map(|cwd| format!("in {}", quoted(cwd)));
        let env = self.env.iter().map(|variable| format!("with {}", pair(variable)));
        let file = self.env_file.iter().map(|file| format!("with the variables in {}", quoted(file)));
        // A header can run a command, and so decide what is run.
        let headers = self.headers.iter().filter(|(_, text)| text.contains("${cmd:"));
        let headers = headers.map(|header| format!("with the header {}", pair(header)));
        cwd.chain(env).chain(file).chain(headers).collect()
    }

    /// The program or the host alone, without arguments and paths, which may hold secrets.
    pub fn what(&self) -> String {
        match (&self.command, &self.url) {
            (Some(command), _) => format!("runs {}", quoted(command)),
            (None, Some(url)) => {
                let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
                format!("leads to {}", authority.rsplit('@').next().unwrap_or_default())
            }
            (None, None) => "has neither a command nor a URL".to_owned(),
        }
    }

    /// The definition for the output of `--json`, with secrets hidden.
    pub fn shown(&self) -> Shown {
        let pairs = |pairs: &[(String, String)]| -> serde_json::Map<String, serde_json::Value> {
            pairs.iter().map(|(name, text)| (name.clone(), secret::masked(text).into())).collect()
        };
        Shown {
            command: self.command.clone(),
            args: secret::masked_args(&self.args),
            env: pairs(&self.env),
            cwd: self.cwd.clone(),
            url: self.url.as_deref().map(secret::masked_url),
            headers: pairs(&self.headers),
            transport: self.transport.clone(),
        }
    }
}

/// The packs that a file configures, each with its keys as they may be shown.
pub fn packs_in_file(file: &File) -> Vec<(String, String)> {
    let entries = file.entries().unwrap_or_default();
    let Some(packs) = entries.into_iter().find(|entry| entry.key == "packs") else { return Vec::new() };
    let Value::Table(packs) = packs.node.value else { return Vec::new() };
    packs.into_iter().map(|pack| (pack.key, shown_keys(&pack.node.value))).collect()
}

/// `root = ./music, depth = 3`: texts as they are, unless they look secret; of the rest that it is there.
fn shown_keys(section: &Value) -> String {
    let Value::Table(keys) = section else { return String::new() };
    let shown = |entry: &Entry| {
        let name = &entry.key;
        match &entry.node.value {
            Value::Text(text) if secret::is_secret(name, text) => {
                format!("{name} = {}", secret::masked(text))
            }
            Value::Text(text) => format!("{name} = {text}"),
            Value::Integer(integer) => format!("{name} = {integer}"),
            Value::Fraction(number) => format!("{name} = {number}"),
            Value::Flag(flag) => format!("{name} = {flag}"),
            Value::List(_) | Value::Table(_) | Value::Other(_) => format!("{name} = …"),
        }
    };
    keys.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// A definition as it may be printed.
#[derive(Debug, Serialize)]
pub struct Shown {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub env: serde_json::Map<String, serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub headers: serde_json::Map<String, serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
}

/// Quotes a word as for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,~*$?&".contains(c);
    if !word.is_empty() && word.chars().all(|c| is_plain(c) || c == '{' || c == '}') {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

pub fn as_text(node: &Value) -> Option<String> {
    match node {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}

pub fn as_list(node: &Value) -> Vec<String> {
    match node {
        Value::List(items) => items.iter().filter_map(|item| as_text(&item.value)).collect(),
        _ => Vec::new(),
    }
}

/// A table of texts; numbers and flags are written as text, as clients do.
pub fn as_pairs(node: &Value) -> Vec<(String, String)> {
    let Value::Table(entries) = node else { return Vec::new() };
    let text = |value: &Value| match value {
        Value::Text(text) => Some(text.clone()),
        Value::Integer(integer) => Some(integer.to_string()),
        Value::Flag(flag) => Some(flag.to_string()),
        _ => None,
    };
    entries.iter().filter_map(|entry| Some((entry.key.clone(), text(&entry.node.value)?))).collect()
}
