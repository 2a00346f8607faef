//! Makes a server of another client one of ours: its variables become ours, secrets become variables or stored
//! secrets.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use toolyard_config::definition::Definition;
use toolyard_config::secret;

use crate::read::{Foreign, Input};

/// A server converted to a definition, with the values that it still needs.
#[derive(Debug)]
pub struct Adapted {
    pub definition: Definition,
    /// Variables that it needs and that are not set, each with where its value is.
    pub missing: BTreeMap<String, String>,
    /// Secrets that its definition refers to and that are to be stored, by name.
    pub secrets: Vec<StoredSecret>,
}

/// A secret of an imported server, and the name under which the store is to keep it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredSecret {
    pub name: String,
    pub value: String,
}

impl fmt::Debug for StoredSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredSecret").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How the note about a secret that was left behind begins; the file follows.
pub const VALUE_STAYS: &str = "its value stays in ";

/// How an import treats secrets.
#[derive(Clone, Copy)]
pub enum SecretUse<'a> {
    /// They stay where they are; the definition refers to variables.
    Leave,
    /// They are copied into the config.
    Copy,
    /// They are to be stored; whether another secret of this name, with another value than this, is there already.
    Store(&'a dyn Fn(&str, &str) -> bool),
}

impl fmt::Debug for SecretUse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leave => "Leave",
            Self::Copy => "Copy",
            Self::Store(_) => "Store",
        })
    }
}

/// The properties of a server's source on which its values depend.
pub(crate) struct Context<'a> {
    pub project: Option<&'a Path>,
    pub inputs: &'a [Input],
    pub secrets: SecretUse<'a>,
    pub is_set: &'a dyn Fn(&str) -> bool,
}

pub(crate) fn adapt(foreign: &Foreign, id: &str, context: &Context<'_>) -> Adapted {
    let file = foreign.place.file.clone();
    let mut values = Values { context, id, file, notes: BTreeMap::new(), secrets: Vec::new() };
    let from = &foreign.definition;
    let mut definition = Definition {
        command: from.command.as_deref().map(|text| values.text(text)),
        args: values.args(&from.args),
        env: from.env.iter().map(|(name, value)| (name.clone(), values.env(name, value))).collect(),
        env_file: from.env_file.as_deref().and_then(|text| values.env_file(text)),
        cwd: from.cwd.as_deref().map(|text| values.text(text)),
        url: from.url.as_deref().map(|url| values.url(url)),
        headers: from
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), values.header(name, value)))
            .collect(),
        transport: from.transport.clone(),
        is_off: from.is_off,
    };
    // Relative paths start from the project there, and from the folder of the config here.
    if let (Some(project), Some(_)) = (context.project, &definition.command) {
        let cwd = project.join(definition.cwd.as_deref().unwrap_or_default());
        definition.cwd = Some(cwd.display().to_string().trim_end_matches('/').to_owned());
    }
    let mut missing = BTreeMap::new();
    for variable in references(&definition).into_iter().filter(|variable| !(context.is_set)(variable)) {
        let note = values.notes.get(&variable).cloned();
        missing.insert(
            variable,
            note.unwrap_or_else(|| "the client takes it from the environment, too".to_owned()),
        );
    }
    Adapted { definition, missing, secrets: values.secrets }
}

/// Rewrites values, and remembers where those are that were left behind.
struct Values<'a> {
    context: &'a Context<'a>,
    id: &'a str,
    file: String,
    notes: BTreeMap<String, String>,
    secrets: Vec<StoredSecret>,
}

impl Values<'_> {
    fn env(&mut self, name: &str, value: &str) -> String {
        let value = self.text(value);
        if secret::is_secret(name, &value) { self.hide(name.to_owned(), &value) } else { value }
    }

    /// A relative path starts from the project. Without one, it is not known from where.
    fn env_file(&mut self, text: &str) -> Option<String> {
        let path = self.text(text);
        if path.starts_with(['/', '~', '$']) {
            return Some(path);
        }
        self.context.project.map(|project| project.join(path).display().to_string())
    }

    fn header(&mut self, name: &str, value: &str) -> String {
        let value = self.text(value);
        if !secret::is_secret(name, &value) {
            return value;
        }
        secret::credential(name, &value, &mut |name, value| self.hide(self.variable(name), value))
    }

    fn args(&mut self, args: &[String]) -> Vec<String> {
        let args: Vec<String> = args.iter().map(|arg| self.text(arg)).collect();
        secret::without_secrets(&args, &mut |name, value| self.hide(self.variable(name), value))
    }

    fn url(&mut self, url: &str) -> String {
        let url = self.text(url);
        secret::url_without_secrets(&url, &mut |name, value| self.hide(self.variable(name), value))
    }

    /// A secret, or the variable that replaces it.
    fn hide(&mut self, variable: String, value: &str) -> String {
        match self.context.secrets {
            SecretUse::Leave => {}
            SecretUse::Copy => return value.to_owned(),
            SecretUse::Store(is_taken) => return self.stored(&variable, value, is_taken),
        }
        let reference = format!("${{{variable}}}");
        self.notes.insert(variable, format!("{VALUE_STAYS}{}", self.file));
        reference
    }

    /// Refers to a secret that is to be stored. Another secret of this name is not replaced.
    fn stored(&mut self, variable: &str, value: &str, is_taken: &dyn Fn(&str, &str) -> bool) -> String {
        let plain = format!("{}/{}", self.id, as_variable(variable));
        let numbered = (2..).map(|number| format!("{plain}-{number}"));
        let is_free =
            |name: &String| !is_taken(name, value) && self.secrets.iter().all(|other| other.name != *name);
        let name = std::iter::once(plain.clone()).chain(numbered).find(is_free).unwrap_or_default();
        let reference = format!("${{secret:{name}}}");
        self.secrets.push(StoredSecret { name, value: value.to_owned() });
        reference
    }

    /// `GITHUB_AUTHORIZATION` for the header `Authorization` of `github`.
    fn variable(&self, name: &str) -> String {
        as_variable(&format!("{}_{}", self.id, name.trim_start_matches('-')))
    }

    /// The variables of other clients, as we write them.
    fn text(&mut self, text: &str) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            let Some((inside, after)) = after.split_once('}') else { break };
            out.push_str(before);
            out.push_str(&self.reference(inside));
            rest = after;
        }
        out + rest
    }

    fn reference(&mut self, inside: &str) -> String {
        let project = self.context.project.map(|project| project.display().to_string());
        match (inside.split_once(':'), inside, project) {
            (Some(("env", name)), ..) => format!("${{{name}}}"),
            (Some(("input", id)), ..) => {
                let asked = self.context.inputs.iter().find(|input| input.id == id);
                let words = asked.map(|input| input.description.as_str()).filter(|text| !text.is_empty());
                let note = format!("the client asks for it: {}", words.unwrap_or(id));
                self.left_open(id, note)
            }
            (_, "workspaceFolder" | "workspaceRoot", Some(folder)) => folder,
            (_, "userHome", _) => "${HOME}".to_owned(),
            (_, "pathSeparator" | "/", _) => "/".to_owned(),
            (Some((name, rest)), ..) if !rest.starts_with('-') => {
                let note = format!("the client fills in ${{{inside}}}");
                self.left_open(&format!("{name}_{rest}"), note)
            }
            (_, "workspaceFolder" | "workspaceRoot", None) => {
                self.left_open("WORKSPACE_FOLDER", "the client fills in the folder of the project".to_owned())
            }
            _ => format!("${{{inside}}}"),
        }
    }

    fn left_open(&mut self, name: &str, note: String) -> String {
        let variable = as_variable(name);
        let reference = format!("${{{variable}}}");
        self.notes.insert(variable, note);
        reference
    }
}

fn as_variable(name: &str) -> String {
    let mut out: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    if out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}

/// The variables without which it does not work.
fn references(definition: &Definition) -> Vec<String> {
    let pairs = definition.env.iter().chain(&definition.headers).map(|(_, value)| value);
    let texts = definition.command.iter().chain(&definition.env_file).chain(&definition.cwd);
    let texts = texts.chain(&definition.url).chain(&definition.args);
    let mut found = Vec::new();
    for text in texts.chain(pairs) {
        for part in text.split("${").skip(1) {
            let inside = part.split('}').next().unwrap_or_default();
            if !inside.contains(":-") && !inside.starts_with("secret:") {
                found.push(inside.to_owned());
            }
        }
    }
    found
}
