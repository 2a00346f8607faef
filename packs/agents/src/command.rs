//! The command of an agent: the program, its arguments, its environment. The prompt is never an argument, since other
//! users of the machine can see arguments.

use std::path::Path;

use serde_json::json;
use toolyard_tool::host::ChildCommand;

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
pub(crate) fn command(of: &TypeConfig, model: Option<&str>, folder: &Path) -> ChildCommand {
    let words = match &of.command[..] {
        [] => usual(of, model),
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
    command.folder(folder)
}

fn usual(of: &TypeConfig, model: Option<&str>) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    match of.program {
        Program::Claude => {
            add(&["claude", "-p", "--output-format", "stream-json", "--verbose", "--permission-mode"]);
            add(&[if of.write { "acceptEdits" } else { "plan" }]);
            if let Some(model) = model {
                add(&["--model", model]);
            }
            if let Some((program, arguments)) = of.gateway() {
                let server =
                    json!({ "mcpServers": { "toolyard": { "command": program, "args": arguments } } });
                add(&["--strict-mcp-config", "--mcp-config", &server.to_string()]);
            }
        }
        Program::Codex => {
            add(&["codex", "exec", "--json", "--skip-git-repo-check", "-s"]);
            add(&[if of.write { "workspace-write" } else { "read-only" }]);
            if let Some(model) = model {
                add(&["-m", model]);
            }
            if let Some((program, arguments)) = of.gateway() {
                add(&["-c", &format!("mcp_servers.toolyard.command={}", json!(program))]);
                add(&["-c", &format!("mcp_servers.toolyard.args={}", json!(arguments))]);
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

impl TypeConfig {
    /// This gateway as a server for the agent: the program and its arguments.
    pub(crate) fn gateway(&self) -> Option<(String, Vec<String>)> {
        let profile = self.profile.as_ref()?;
        let program = std::env::current_exe().ok()?.display().to_string();
        Some((program, vec!["stdio".into(), "--profile".into(), profile.clone()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(config: serde_json::Value, model: Option<&str>) -> Vec<String> {
        let of: TypeConfig = serde_json::from_value(config).unwrap();
        let command = command(&of, model, Path::new("/project"));
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
    fn an_agent_with_a_profile_gets_this_gateway_as_its_only_server() {
        let words = words(json!({ "program": "claude", "profile": "agents" }), None);
        let config = words.last().unwrap();
        assert!(config.contains("\"args\":[\"stdio\",\"--profile\",\"agents\"]"), "{config}");
        assert!(words.contains(&"--strict-mcp-config".to_owned()));
    }
}
