//! The entry for Toolyard in the config of a client: which program it runs, with which arguments, and under
//! which keys the client expects them.

use serde_json::{Value, json};
use toolyard_config::definition::Definition;

use crate::Client;
use crate::json::Document;
use crate::read::Foreign;
use crate::{toml, yaml};

/// The entry of one client.
#[derive(Debug)]
pub struct Entry {
    /// `None` for an unknown client.
    pub client: Option<Client>,
    pub command: String,
    pub args: Vec<String>,
    /// Whether its arguments name the state directory.
    pub has_state_dir_argument: bool,
}

impl Entry {
    /// A whole file with this entry alone, as its client would have it.
    pub fn file(&self, client: Client, name: &str) -> String {
        let section = client.section();
        match client {
            Client::Codex => toml::with("", section, name, self),
            Client::Goose => yaml::with("", section, name, self).unwrap_or_default(),
            _ => Document::read("{}\n").and_then(|file| file.with(section, name, self)).unwrap_or_default(),
        }
    }

    /// Its keys, as they are written.
    pub fn fields(&self) -> Vec<(&'static str, Value)> {
        if self.client == Some(Client::Opencode) {
            let command: Vec<&String> = std::iter::once(&self.command).chain(&self.args).collect();
            return vec![("type", json!("local")), ("command", json!(command)), ("enabled", json!(true))];
        }
        if self.client == Some(Client::Goose) {
            let program =
                [("type", json!("stdio")), ("cmd", json!(self.command)), ("args", json!(self.args))];
            return program.into_iter().chain([("enabled", json!(true)), ("timeout", json!(300))]).collect();
        }
        let kind = match self.client {
            Some(Client::ClaudeCode | Client::Cursor | Client::Vscode) => Some(("type", json!("stdio"))),
            _ => None,
        };
        let rest = [("command", json!(self.command)), ("args", json!(self.args))];
        kind.into_iter().chain(rest).collect()
    }

    /// Its keys under this name, which Goose repeats among them.
    pub fn fields_named(&self, name: &str) -> Vec<(&'static str, Value)> {
        let own = (self.client == Some(Client::Goose)).then(|| ("name", json!(name)));
        own.into_iter().chain(self.fields()).collect()
    }

    pub fn value_named(&self, name: &str) -> Value {
        Value::Object(
            self.fields_named(name).into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        )
    }

    /// Whether the existing entry does the same. Other keys in it belong to the user.
    pub fn is(&self, there: &Foreign) -> bool {
        let Definition { command, args, url, .. } = &there.definition;
        there.doubt.is_none()
            && url.is_none()
            && command.as_ref() == Some(&self.command)
            && *args == self.args
    }

    /// Whether a client that has both sees the same tools by both.
    pub fn shows_the_same(&self, there: &Foreign) -> bool {
        let view = |args: &[String]| {
            let flags = args.iter().zip(args.iter().skip(1));
            flags
                .filter(|(flag, _)| ["--profile", "--upstream"].contains(&flag.as_str()))
                .map(|(_, name)| name.clone())
                .collect::<Vec<_>>()
        };
        view(&self.args) == view(&there.definition.args)
    }

    /// Whether what is there runs Toolyard with the same arguments, by another name.
    pub fn is_in_other_words(&self, there: &Foreign) -> bool {
        there.doubt.is_none()
            && there.is_toolyard()
            && there.definition.url.is_none()
            && there.definition.args == self.args
    }

    pub fn definition(&self) -> Definition {
        Definition { command: Some(self.command.clone()), args: self.args.clone(), ..Definition::default() }
    }
}

#[cfg(test)]
impl Entry {
    pub fn example() -> Self {
        Self {
            client: Some(Client::Cursor),
            command: "/bin/toolyard".into(),
            args: vec!["stdio".into()],
            has_state_dir_argument: true,
        }
    }
}
