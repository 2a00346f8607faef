//! Where `@modelcontextprotocol/server-everything` is, and how it is started. `cargo xtask peers` installs it
//! and says so in the environment.

use std::path::Path;
use std::process::Command;

use super::gateway::Reach;
use super::program::{Program, say};

pub(crate) struct Everything {
    node: String,
    script: String,
}

impl Everything {
    /// Nothing, and a word about it, where it is not installed.
    pub(crate) fn find() -> Option<Self> {
        let (Ok(node), Ok(npm)) = (std::env::var("TOOLYARD_PEERS_NODE"), std::env::var("TOOLYARD_PEERS_NPM"))
        else {
            say("skipped: server-everything is not here; `cargo xtask peers` brings it");
            return None;
        };
        let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        Some(Self { node, script: Path::new(&npm).join(script).display().to_string() })
    }

    /// Over HTTP. It knows no port 0, so that is taught to it.
    pub(crate) fn serve(&self) -> (Program, Reach) {
        let free_port = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/free_port.mjs");
        let mut command = Command::new(&self.node);
        command.args(["--import", free_port, &self.script, "streamableHttp"]);
        let (program, origin) = Program::serve(&mut command);
        (program, Reach::Url(format!("{origin}/mcp")))
    }

    /// As a child process.
    pub(crate) fn child(&self) -> Reach {
        Reach::Child(vec![self.node.clone(), self.script.clone(), "stdio".to_owned()])
    }
}
