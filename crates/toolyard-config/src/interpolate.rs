//! `${VAR}`, `${VAR:-default}`, `${secret:NAME}`, `${file:PATH}` and `${cmd:COMMAND}` in a text. `$VAR` stays as it
//! is, and `$${` is a literal `${`.

pub(crate) mod source;

use std::path::Path;

use crate::system;

/// Looks a variable of the environment up.
pub type Variables<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Looks a stored secret up, or reports why the store cannot be read.
pub type Secrets<'a> = dyn Fn(&str) -> Result<Option<String>, String> + 'a;

/// The sources of the values of references.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    pub variables: &'a Variables<'a>,
    pub secrets: &'a Secrets<'a>,
    pub commands: CommandUse<'a>,
    /// The folder that relative paths start from.
    pub folder: &'a Path,
}

/// Runs a command and returns what it prints, or why there is no value.
pub type Commands<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// Whether the commands of `${cmd:…}` are run.
#[derive(Clone, Copy)]
pub(crate) enum CommandUse<'a> {
    Run(&'a Commands<'a>),
    /// The value is not needed now, so nothing is run.
    Skip,
    /// Here a config must not run anything: trust in a project's file covers only its servers and packs.
    Refuse,
}

/// A reference in the config that has no value here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    Variable(String),
    Secret(String),
    /// A file, and why it has no value.
    File(String, String),
    /// A command, and why it has no value. Its arguments may be secret and are not part of it.
    Command(String),
}

impl Missing {
    /// Why a part of the config that needs it is off.
    pub fn reason(&self) -> String {
        match self {
            Self::Variable(name) => format!("the environment variable `{name}` is not set"),
            Self::Secret(name) => format!("there is no stored secret `{name}`"),
            Self::File(path, why) => format!("{path} has no value: {why}"),
            Self::Command(why) => format!("a command in the config gave no value: {why}"),
        }
    }

    /// The advice for a gateway that runs without the value.
    pub fn hint(&self) -> String {
        match self {
            Self::Variable(_) => "set it where the gateway is started, then start the gateway again".into(),
            Self::Secret(name) => format!("store it with `toolyard secret set {name}`"),
            Self::File(..) => "create the file, then change the config or start the gateway again".into(),
            Self::Command(_) => "run it in a shell to see why, then start the gateway again".into(),
        }
    }
}

/// A variable of this process.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Why a text could not be expanded, and what to do. Never holds the text itself: it may be a secret.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub message: String,
    pub help: String,
    /// The reference without a value, if it is well-formed.
    pub missing: Option<Missing>,
    /// Nothing is wrong: the value was not looked for.
    pub is_skipped: bool,
}

impl Trouble {
    fn wrong(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into(), missing: None, is_skipped: false }
    }

    fn missing(missing: Missing) -> Self {
        let (message, help) = (missing.reason(), missing.hint());
        Self { missing: Some(missing), ..Self::wrong(message, help) }
    }
}

pub(crate) fn expand(text: &str, lookup: Lookup<'_>) -> Result<String, Trouble> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let inside = &rest[at + 2..];
        let end = inside.find('}').ok_or_else(unclosed)?;
        out.push_str(&resolve(&inside[..end], lookup)?);
        rest = &inside[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn resolve(inside: &str, lookup: Lookup<'_>) -> Result<String, Trouble> {
    match inside.split_once(':') {
        Some(("secret", name)) => secret(name, lookup.secrets),
        Some(("file", path)) => file(path, lookup),
        Some(("cmd", line)) => command(line, lookup.commands),
        _ => variable(inside, lookup.variables),
    }
}

fn file(path: &str, lookup: Lookup<'_>) -> Result<String, Trouble> {
    let home = || system::home(lookup.variables);
    let place = match path.strip_prefix("~/").and_then(|rest| Some(home()?.join(rest))) {
        Some(place) => place,
        None => lookup.folder.join(path),
    };
    source::read_file(&place).map_err(|why| Trouble::missing(Missing::File(place.display().to_string(), why)))
}

fn command(line: &str, commands: CommandUse<'_>) -> Result<String, Trouble> {
    match commands {
        CommandUse::Run(run) => run(line).map_err(|why| Trouble::missing(Missing::Command(why))),
        CommandUse::Skip => Err(Trouble { is_skipped: true, ..Trouble::wrong("", "") }),
        CommandUse::Refuse => Err(Trouble::wrong(
            "`${cmd:…}` is possible only in [upstreams.NAME] and [packs.NAME]",
            "use ${file:PATH}, ${secret:NAME} or a variable here",
        )),
    }
}

fn secret(name: &str, secrets: &Secrets<'_>) -> Result<String, Trouble> {
    let help = "`toolyard secret list` shows the names of the stored secrets";
    let value = secrets(name).map_err(|message| Trouble::wrong(message, help))?;
    value.ok_or_else(|| Trouble::missing(Missing::Secret(name.to_owned())))
}

fn variable(inside: &str, variables: &Variables<'_>) -> Result<String, Trouble> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if !is_name(name) {
        return Err(not_a_name(name));
    }
    // As in a shell, `:-` also replaces a variable that is set but empty.
    let value = variables(name).filter(|value| default.is_none() || !value.is_empty());
    value.or_else(|| default.map(ToOwned::to_owned)).ok_or_else(|| unset(name))
}

fn is_name(name: &str) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts_well && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn unset(name: &str) -> Trouble {
    let help = format!("set it where the gateway is started, or give a default: ${{{name}:-…}}");
    Trouble { help, ..Trouble::missing(Missing::Variable(name.to_owned())) }
}

fn unclosed() -> Trouble {
    let help = "write ${VAR} or ${VAR:-default}; a literal `${` is written `$${`";
    Trouble::wrong("`${` without a closing `}`", help)
}

fn not_a_name(name: &str) -> Trouble {
    let help = match name.strip_prefix("env:").filter(|rest| is_name(rest)) {
        Some(rest) => format!("write ${{{rest}}}"),
        None => "write ${VAR} or ${VAR:-default}; a literal `${` is written `$${`".into(),
    };
    Trouble::wrong(format!("`${{{name}}}` does not name an environment variable"), help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let variables = |name: &str| match name {
            "USER" => Some("ann".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let secrets = |name: &str| match name {
            "github" => Ok(Some("ghp_x".to_owned())),
            "damaged" => Err("the store is damaged".to_owned()),
            _ => Ok(None),
        };
        let commands = |line: &str| match line {
            "op read x" => Ok("from op".to_owned()),
            _ => Err("`op` failed".to_owned()),
        };
        let commands = CommandUse::Run(&commands);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "from file\n").unwrap();
        std::fs::write(folder.path().join("empty"), "\n").unwrap();
        let lookup = Lookup { variables: &variables, secrets: &secrets, commands, folder: folder.path() };
        let got = expand(text, lookup).map_err(|mut trouble| {
            trouble.message = trouble.message.replace(&*folder.path().to_string_lossy(), "DIR");
            trouble
        });
        assert_eq!(got.as_deref().map_err(|trouble| trouble.message.as_str()), expected, "{text}");
    }

    #[test]
    fn variables_are_expanded() {
        check("plain", Ok("plain"));
        check("a ${USER} b", Ok("a ann b"));
        check("${USER}${USER}", Ok("annann"));
        check("${EMPTY}", Ok(""));
        check("${EMPTY:-x}", Ok("x"));
        check("${UNSET:-x y}", Ok("x y"));
        check("${UNSET:-}", Ok(""));
        check("${UNSET:-a:-b}", Ok("a:-b"));
    }

    #[test]
    fn secrets_are_looked_up_in_the_store() {
        check("Bearer ${secret:github}, ${USER}", Ok("Bearer ghp_x, ann"));
        check("${secret:gitlab}", Err("there is no stored secret `gitlab`"));
        check("${secret:damaged}", Err("the store is damaged"));
        check("$${secret:github}", Ok("${secret:github}"));
    }

    #[test]
    fn values_come_from_files_and_commands() {
        check("x ${file:token}", Ok("x from file"));
        check("${file:empty}", Err("DIR/empty has no value: it is empty"));
        check("${file:gone}", Err("DIR/gone has no value: there is no such file"));
        check("${file:.}", Err("DIR/. has no value: not a regular file"));
        check("${cmd:op read x}!", Ok("from op!"));
        check("${cmd:op read y}", Err("a command in the config gave no value: `op` failed"));
    }

    #[test]
    fn only_braces_mean_a_variable() {
        check("$USER costs $5 {USER} }", Ok("$USER costs $5 {USER} }"));
        check("$${USER}", Ok("${USER}"));
        check("a$$b", Ok("a$$b"));
    }

    #[test]
    fn what_cannot_be_resolved_is_named() {
        check("${UNSET}", Err("the environment variable `UNSET` is not set"));
        check("${USER", Err("`${` without a closing `}`"));
        check("${}", Err("`${}` does not name an environment variable"));
        check("${env:USER}", Err("`${env:USER}` does not name an environment variable"));
    }
}
