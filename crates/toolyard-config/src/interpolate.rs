//! `${VAR}`, `${VAR:-default}` and `${secret:NAME}` in a text. `$VAR` stays as it is, and `$${` is a literal `${`.

/// Looks a variable of the environment up.
pub type Variables<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Looks a stored secret up, or reports why the store cannot be read.
pub type Secrets<'a> = dyn Fn(&str) -> Result<Option<String>, String> + 'a;

/// Where the values of references come from.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    pub variables: &'a Variables<'a>,
    pub secrets: &'a Secrets<'a>,
}

/// What a part of the config refers to and what has no value here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    Variable(String),
    Secret(String),
}

impl Missing {
    /// Why a part of the config that needs it is off.
    pub fn reason(&self) -> String {
        match self {
            Self::Variable(name) => format!("the environment variable `{name}` is not set"),
            Self::Secret(name) => format!("there is no stored secret `{name}`"),
        }
    }

    /// What to do where a gateway runs without it.
    pub fn hint(&self) -> String {
        match self {
            Self::Variable(_) => "set it where the gateway is started, then start the gateway again".into(),
            Self::Secret(name) => format!("store it with `toolyard secret set {name}`"),
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
    /// What has no value, where the reference to it is well written.
    pub missing: Option<Missing>,
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
    match inside.strip_prefix("secret:") {
        Some(name) => secret(name, lookup.secrets),
        None => variable(inside, lookup.variables),
    }
}

fn secret(name: &str, secrets: &Secrets<'_>) -> Result<String, Trouble> {
    let unreadable = |message| Trouble {
        message,
        help: "`toolyard secret list` shows the names of the stored secrets".into(),
        missing: None,
    };
    secrets(name).map_err(unreadable)?.ok_or_else(|| {
        let missing = Missing::Secret(name.to_owned());
        Trouble { message: missing.reason(), help: missing.hint(), missing: Some(missing) }
    })
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
    let missing = Missing::Variable(name.to_owned());
    Trouble {
        message: missing.reason(),
        help: format!("set it where the gateway is started, or give a default: ${{{name}:-…}}"),
        missing: Some(missing),
    }
}

fn unclosed() -> Trouble {
    Trouble {
        message: "`${` without a closing `}`".into(),
        help: "write ${VAR} or ${VAR:-default}; a literal `${` is written `$${`".into(),
        missing: None,
    }
}

fn not_a_name(name: &str) -> Trouble {
    let help = match name.strip_prefix("env:").filter(|rest| is_name(rest)) {
        Some(rest) => format!("write ${{{rest}}}"),
        None => "write ${VAR} or ${VAR:-default}; a literal `${` is written `$${`".into(),
    };
    Trouble { message: format!("`${{{name}}}` does not name an environment variable"), help, missing: None }
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
        let got = expand(text, Lookup { variables: &variables, secrets: &secrets });
        assert_eq!(got.as_deref().map_err(|trouble| trouble.message.as_str()), expected, "{text}");
    }

    #[test]
    fn variables_are_expanded() {
        check("plain", Ok("plain"));
        check("a ${USER} b", Ok("a ann b"));
        check("${USER}${USER}", Ok("annann"));
        check("${EMPTY}", Ok(""));
        check("${EMPTY:-x}", Ok("x"));
        check("${NOBODY:-x y}", Ok("x y"));
        check("${NOBODY:-}", Ok(""));
        check("${NOBODY:-a:-b}", Ok("a:-b"));
    }

    #[test]
    fn secrets_are_looked_up_in_the_store() {
        check("Bearer ${secret:github}, ${USER}", Ok("Bearer ghp_x, ann"));
        check("${secret:gitlab}", Err("there is no stored secret `gitlab`"));
        check("${secret:damaged}", Err("the store is damaged"));
        check("$${secret:github}", Ok("${secret:github}"));
    }

    #[test]
    fn only_braces_mean_a_variable() {
        check("$USER costs $5 {USER} }", Ok("$USER costs $5 {USER} }"));
        check("$${USER}", Ok("${USER}"));
        check("a$$b", Ok("a$$b"));
    }

    #[test]
    fn what_cannot_be_resolved_is_named() {
        check("${NOBODY}", Err("the environment variable `NOBODY` is not set"));
        check("${USER", Err("`${` without a closing `}`"));
        check("${}", Err("`${}` does not name an environment variable"));
        check("${env:USER}", Err("`${env:USER}` does not name an environment variable"));
    }
}
