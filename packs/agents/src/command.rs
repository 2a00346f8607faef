//! The command of an agent: the program, its arguments, its environment. The prompt is never an argument, since other
//! users of the machine can see arguments.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use toolyard_tool::host::{ChildCommand, Delegation};

use crate::config::{MODEL, Program, TypeConfig};

/// How long an agent may take to end when it is stopped: a cancelled one is gone within a second.
const GRACE: Duration = Duration::from_millis(500);

/// How to speak with a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    /// The prompt on stdin; lines of text or of JSON on stdout.
    Lines,
    /// The Agent Client Protocol.
    Acp,
}

impl Program {
    pub(crate) fn speech(self) -> Speech {
        match self {
            Self::Gemini | Self::OpenCode | Self::Acp => Speech::Acp,
            Self::Claude | Self::Codex | Self::Command => Speech::Lines,
        }
    }
}

/// The command for one run.
pub(crate) fn command(
    of: &TypeConfig,
    model: Option<&str>,
    folder: &Path,
    access: Option<&Delegation>,
) -> ChildCommand {
    let mut words = words(of, model, access).into_iter();
    let mut command = ChildCommand::new(words.next().unwrap_or_default());
    for word in words {
        command = command.arg(word);
    }
    let kept = ["HOME", "USER", "LANG", "LC_ALL", "TERM", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];
    command = command.inherit_only(kept.into_iter().map(String::from).chain(of.inherit.iter().cloned()));
    for (name, value) in &of.env {
        command = command.env(name, value);
    }
    if let Some(model) = model.filter(|_| of.program == Program::OpenCode && !of.places_model()) {
        command = command.env(OPENCODE_CONFIG, opencode_config(of.env.get(OPENCODE_CONFIG), model));
    }
    if let Some(access) = access {
        command = command.env(Delegation::VARIABLE, access.token());
    }
    command.ends_within(GRACE).folder(folder)
}

/// The variable whose config overrides all others of OpenCode, which has no option for the model.
const OPENCODE_CONFIG: &str = "OPENCODE_CONFIG_CONTENT";

fn opencode_config(own: Option<&String>, model: &str) -> String {
    let own = own.and_then(|own| serde_json::from_str::<Value>(own).ok()).filter(Value::is_object);
    let mut config = own.unwrap_or_else(|| json!({}));
    config["model"] = json!(model);
    config.to_string()
}

/// The usual command or the configured one, and then the options for the model and for the tools of this gateway. In a
/// configured command `{model}` is replaced by the model.
fn words(of: &TypeConfig, model: Option<&str>, access: Option<&Delegation>) -> Vec<String> {
    let mut words = if of.command.is_empty() { usual(of) } else { of.command.clone() };
    let option = model.filter(|_| !of.places_model());
    for word in &mut words {
        *word = word.replace(MODEL, model.unwrap_or_default());
    }
    match of.program {
        Program::Claude => words.extend(claude_options(of, option, access)),
        Program::Codex => {
            // The prompt is last: `-` is stdin.
            let reads_stdin = words.pop_if(|word| *word == "-");
            words.extend(codex_options(option, access));
            words.extend(reads_stdin);
        }
        Program::Gemini => {
            words.extend(option.into_iter().flat_map(|model| [String::from("--model"), model.into()]));
        }
        Program::OpenCode | Program::Command | Program::Acp => {}
    }
    words
}

fn usual(of: &TypeConfig) -> Vec<String> {
    let words = match of.program {
        Program::Claude => {
            let mode = if of.write { "acceptEdits" } else { "plan" };
            vec!["claude", "-p", "--output-format", "stream-json", "--verbose", "--permission-mode", mode]
        }
        Program::Codex => {
            let sandbox = if of.write { "workspace-write" } else { "read-only" };
            vec!["codex", "exec", "--json", "--skip-git-repo-check", "-s", sandbox, "-"]
        }
        Program::Gemini => vec!["gemini", "--acp"],
        Program::OpenCode => vec!["opencode", "acp"],
        Program::Command | Program::Acp => Vec::new(),
    };
    words.into_iter().map(str::to_owned).collect()
}

fn claude_options(of: &TypeConfig, model: Option<&str>, access: Option<&Delegation>) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    if let Some(model) = model {
        add(&["--model", model]);
    }
    if let Some(tools) = &of.tools {
        // Its own tools have a capital letter; the others are those of servers.
        let own = |tool: &&str| tool.starts_with(char::is_uppercase);
        let own: Vec<&str> = tools.iter().map(String::as_str).filter(own).collect();
        add(&["--tools", &own.join(",")]);
    }
    if let Some((program, arguments)) = access.map(split) {
        // The program puts the value of the variable there: the token must not be in the arguments.
        let env = json!({ Delegation::VARIABLE: format!("${{{}}}", Delegation::VARIABLE) });
        let server = json!({ "command": program, "args": arguments, "env": env });
        let server = json!({ "mcpServers": { "toolyard": server } });
        // It cannot ask, and refuses what is not allowed. The profile decides what the agent may call.
        add(&["--allowedTools", "mcp__toolyard"]);
        add(&["--strict-mcp-config", "--mcp-config", &server.to_string()]);
    }
    words
}

fn codex_options(model: Option<&str>, access: Option<&Delegation>) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    if let Some(model) = model {
        add(&["-m", model]);
    }
    if let Some((program, arguments)) = access.map(split) {
        add(&["-c", &format!("mcp_servers.toolyard.command={}", json!(program))]);
        add(&["-c", &format!("mcp_servers.toolyard.args={}", json!(arguments))]);
        add(&["-c", &format!("mcp_servers.toolyard.env_vars={}", json!([Delegation::VARIABLE]))]);
    }
    words
}

/// The command that serves this gateway to the agent: the program and its arguments.
pub(crate) fn split(access: &Delegation) -> (&str, &[String]) {
    let (program, arguments) =
        access.command().split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    (program, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(config: serde_json::Value, model: Option<&str>) -> Vec<String> {
        in_words(&made(config, model, None))
    }

    fn made(config: serde_json::Value, model: Option<&str>, access: Option<&Delegation>) -> ChildCommand {
        let of: TypeConfig = serde_json::from_value(config).unwrap();
        command(&of, model, Path::new("/project"), access)
    }

    fn in_words(command: &ChildCommand) -> Vec<String> {
        let all = std::iter::once(&command.program).chain(&command.args);
        all.map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn each_program_has_its_usual_command() {
        let check = |config: serde_json::Value, expected: &str| {
            assert_eq!(words(config, Some("m")).join(" "), expected);
        };
        check(
            json!({ "program": "claude" }),
            "claude -p --output-format stream-json --verbose --permission-mode plan --model m",
        );
        check(
            json!({ "program": "codex", "write": true }),
            "codex exec --json --skip-git-repo-check -s workspace-write -m m -",
        );
        check(json!({ "program": "gemini" }), "gemini --acp --model m");
        check(json!({ "program": "opencode" }), "opencode acp");
        check(json!({ "program": "command", "command": ["sh", "agent.sh"] }), "sh agent.sh");
    }

    #[test]
    fn a_configured_command_keeps_the_model_and_the_tools_of_the_gateway() {
        let own = ["/bin/toolyard", "stdio", "--profile", "agents"].map(String::from).to_vec();
        let access = Delegation::new("s3cret".into(), own, || {});
        for (program, command, model) in [
            ("claude", json!(["my-claude", "-p"]), "my-claude -p --model m "),
            ("codex", json!(["my-codex", "exec", "-"]), "my-codex exec -m m -c "),
            ("claude", json!(["my-claude", "--with={model}"]), "my-claude --with=m --allowedTools "),
        ] {
            let config = json!({ "program": program, "command": command, "profile": "agents" });
            let words = in_words(&made(config, Some("m"), Some(&access))).join(" ");
            assert!(words.starts_with(model), "{words}");
            assert!(words.contains("[\"stdio\",\"--profile\",\"agents\"]"), "{words}");
            assert_eq!(words.ends_with(" -"), program == "codex", "{words}");
        }
        let opencode = json!({ "program": "opencode", "command": ["my-opencode", "acp"] });
        let command = made(opencode, Some("local/m"), None);
        let expected = (OPENCODE_CONFIG.into(), r#"{"model":"local/m"}"#.into());
        assert!(command.env.contains(&expected), "{:?}", command.env);
    }

    #[test]
    fn claude_gets_no_other_tools_of_its_own_than_those_of_its_type() {
        let config = json!({ "program": "claude", "tools": ["Read", "semantic_search", "Grep"] });
        assert!(words(config, None).join(" ").ends_with(" --tools Read,Grep"));
    }

    #[test]
    fn claude_gets_the_tools_and_the_model_of_a_well_known_type() {
        let config = json!({ "types": { "planner": { "program": "claude" } }, "projects": [] });
        let config: crate::config::Config = serde_json::from_value(config).unwrap();
        let of = config.complete("planner").unwrap();
        let words = in_words(&command(&of, of.model.as_deref(), Path::new("/project"), None)).join(" ");
        assert!(words.ends_with(" --model opus --tools Read,Grep,Glob,Bash"), "{words}");
    }

    #[test]
    fn an_agent_with_a_profile_gets_this_gateway_and_its_token_is_not_an_argument() {
        let own = ["/bin/toolyard", "stdio", "--profile", "agents"].map(String::from).to_vec();
        let access = Delegation::new("s3cret".into(), own, || {});
        for program in ["claude", "codex"] {
            let command = made(json!({ "program": program, "profile": "agents" }), None, Some(&access));
            let words = in_words(&command).join(" ");
            assert!(words.contains("[\"stdio\",\"--profile\",\"agents\"]"), "{words}");
            assert!(!words.contains("s3cret"), "{words}");
            assert!(command.env.contains(&("MCP_AUTH_TOKEN".into(), "s3cret".into())));
            let is_allowed = words.contains("--allowedTools mcp__toolyard ");
            assert_eq!(is_allowed, program == "claude", "{words}");
        }
    }
}
