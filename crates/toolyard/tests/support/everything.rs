//! Where `@modelcontextprotocol/server-everything` is, and how it is started.

use std::path::Path;
use std::process::Command;

use super::gateway::Reach;
use super::installed;
use super::program::Program;

pub(crate) struct Everything {
    node: String,
    script: String,
}

impl Everything {
    pub(crate) fn find() -> Self {
        let (node, npm) = installed::npm();
        let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        Self { node, script: Path::new(&npm).join(script).display().to_string() }
    }

    /// Over HTTP. A preloaded script makes it choose a free port.
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
