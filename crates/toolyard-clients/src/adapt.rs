//! Makes a server of another client one of ours: its variables become ours, secrets become variables.

use std::collections::BTreeMap;
use std::path::Path;

use toolyard_config::definition::Definition;
use toolyard_config::secret;

use crate::read::{Foreign, Input};

/// What became of it.
#[derive(Debug)]
pub struct Adapted {
    pub definition: Definition,
    /// Variables that it needs and that are not set, each with where its value is.
    pub missing: BTreeMap<String, String>,
}

/// Where a server comes from, as far as its values depend on it.
pub(crate) struct Context<'a> {
    pub project: Option<&'a Path>,
    pub inputs: &'a [Input],
    pub copy_secrets: bool,
    pub is_set: &'a dyn Fn(&str) -> bool,
}

pub(crate) fn adapt(foreign: &Foreign, id: &str, context: &Context<'_>) -> Adapted {
    let file = foreign.place.file.clone();
    let mut values = Values { context, id, file, notes: BTreeMap::new() };
    let from = &foreign.definition;
    let mut definition = Definition {
        command: from.command.as_deref().map(|text| values.text(text)),
        args: values.args(&from.args),
        env: from.env.iter().map(|(name, value)| (name.clone(), values.env(name, value))).collect(),
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
    Adapted { definition, missing }
}

/// Rewrites values, and remembers where those are that were left behind.
struct Values<'a> {
    context: &'a Context<'a>,
    id: &'a str,
    file: String,
    notes: BTreeMap<String, String>,
}

impl Values<'_> {
    fn env(&mut self, name: &str, value: &str) -> String {
        let value = self.text(value);
        if secret::is_secret(name, &value) { self.hide(name.to_owned(), &value) } else { value }
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
        if self.context.copy_secrets {
            return value.to_owned();
        }
        let reference = format!("${{{variable}}}");
        self.notes.insert(variable, format!("its value stays in {}", self.file));
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
    let texts =
        definition.command.iter().chain(&definition.cwd).chain(&definition.url).chain(&definition.args);
    let mut found = Vec::new();
    for text in texts.chain(pairs) {
        for part in text.split("${").skip(1) {
            let inside = part.split('}').next().unwrap_or_default();
            if !inside.contains(":-") {
                found.push(inside.to_owned());
            }
        }
    }
    found
}
