//! What `toolyard install` writes works: every client starts exactly what is in its config, and is answered.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::gateway::Home;
use crate::shim::Shim;
use crate::{call, home_with_server, list, starts};

/// Each client with its file and the key of its servers.
const CLIENTS: [(&str, &str, &str); 7] = [
    ("claude-code", ".claude.json", "mcpServers"),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers"),
    ("cursor", ".cursor/mcp.json", "mcpServers"),
    ("vscode", ".config/Code/User/mcp.json", "servers"),
    ("codex", ".codex/config.toml", "mcp_servers"),
    ("zed", ".config/zed/settings.json", "context_servers"),
    ("windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers"),
];

#[test]
fn every_client_can_run_what_install_writes() {
    let home = home_with_server();
    let mut shims: Vec<Shim> = Vec::new();
    for (client, file, section) in CLIENTS {
        let words = ["install", client, "--config", "config.toml", "--state-dir", "state", "--yes"];
        let (code, printed, errors) = home.run(&words);
        assert_eq!(code, 0, "{printed}{errors}");
        let mut shim = Shim::run(start_command(&home, &read(&home, file)[section]["toolyard"]));
        shim.shake_hands();
        list(&mut shim);
        assert_eq!(shim.ask(&call(1, "sh__say"))["result"]["content"][0]["text"], "hello", "{client}");
        shims.push(shim);
    }
    assert_eq!(starts(&home), 1, "all of them share one server");
}

fn read(home: &Home, file: &str) -> Value {
    let text = std::fs::read_to_string(home.path(file)).unwrap();
    if file == ".codex/config.toml" {
        json!(toml::from_str::<toml::Table>(&text).unwrap())
    } else {
        text.parse().unwrap()
    }
}

/// The program and the arguments of an entry, from a folder that has nothing to do with it.
fn start_command(home: &Home, entry: &Value) -> Command {
    let mut command = Command::new(entry["command"].as_str().unwrap());
    command.args(entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
    command.current_dir("/").env_clear().stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("HOME", home.path("")).env("XDG_RUNTIME_DIR", home.path(""));
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}
