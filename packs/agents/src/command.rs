//! The command of an agent: the program, its arguments, its environment. The prompt is never an argument, since other
//! users of the machine can see arguments.

use std::path::Path;

use serde_json::json;
use toolyard_tool::host::{ChildCommand, Delegation};

use crate::config::{Program, TypeConfig};

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
    let words = match &of.command[..] {
        [] => usual(of, model, access),
        words => words.to_vec(),
    };
    let mut words = words.into_iter();
    let mut command = ChildCommand::new(words.next().unwrap_or_default());
    for word in words {
        command = command.arg(word);
    }
    let kept = ["HOME", "USER", "LANG", "LC_ALL", "TERM", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];
    command = command.inherit_only(kept.into_iter().map(String::from).chain(of.inherit.iter().cloned()));
    for (name, value) in &of.env {
        command = command.env(name, value);
    }
    if let Some(access) = access {
        command = command.env(Delegation::VARIABLE, access.token());
    }
    command.folder(folder)
}

fn usual(of: &TypeConfig, model: Option<&str>, access: Option<&Delegation>) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    match of.program {
        Program::Claude => {
            add(&["claude", "-p", "--output-format", "stream-json", "--verbose", "--permission-mode"]);
            add(&[if of.write { "acceptEdits" } else { "plan" }]);
            if let Some(model) = model {
                add(&["--model", model]);
            }
            if let Some((program, arguments)) = access.map(split) {
                // The program puts the value of the variable there: the token must not be in the arguments.
                let env = json!({ Delegation::VARIABLE: format!("${{{}}}", Delegation::VARIABLE) });
                let server = json!({ "command": program, "args": arguments, "env": env });
                let server = json!({ "mcpServers": { "toolyard": server } });
                add(&["--strict-mcp-config", "--mcp-config", &server.to_string()]);
            }
        }
        Program::Codex => {
            add(&["codex", "exec", "--json", "--skip-git-repo-check", "-s"]);
            add(&[if of.write { "workspace-write" } else { "read-only" }]);
            if let Some(model) = model {
                add(&["-m", model]);
            }
            if let Some((program, arguments)) = access.map(split) {
                add(&["-c", &format!("mcp_servers.toolyard.command={}", json!(program))]);
                add(&["-c", &format!("mcp_servers.toolyard.args={}", json!(arguments))]);
                add(&["-c", &format!("mcp_servers.toolyard.env_vars={}", json!([Delegation::VARIABLE]))]);
            }
            add(&["-"]);
        }
        Program::Gemini => {
            add(&["gemini", "--acp"]);
            if let Some(model) = model {
                add(&["--model", model]);
            }
        }
        Program::OpenCode => add(&["opencode", "acp"]),
        Program::Command | Program::Acp => {}
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
    fn an_agent_with_a_profile_gets_this_gateway_and_its_token_is_no_argument() {
        let own = ["/bin/toolyard", "stdio", "--profile", "agents"].map(String::from).to_vec();
        let access = Delegation::new("s3cret".into(), own, || {});
        for program in ["claude", "codex"] {
            let command = made(json!({ "program": program, "profile": "agents" }), None, Some(&access));
            let words = in_words(&command).join(" ");
            assert!(words.contains("[\"stdio\",\"--profile\",\"agents\"]"), "{words}");
            assert!(!words.contains("s3cret"), "{words}");
            assert!(command.env.contains(&("MCP_AUTH_TOKEN".into(), "s3cret".into())));
        }
    }
}
