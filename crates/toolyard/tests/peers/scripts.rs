//! The clients that are scripts: one process for each mode, one line of JSON for each stop.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use super::installed;
use super::stop::{Seen, Stop};

/// For all stops together.
const WAIT: Duration = Duration::from_mins(3);

#[derive(Clone, Debug)]
pub(crate) enum Script {
    Python { python: String },
    TypeScript { node: String, npm: String },
}

const CLIENT_PY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/client.py");

impl Script {
    pub(crate) fn python() -> Self {
        Self::Python { python: installed::python() }
    }

    pub(crate) fn typescript() -> Self {
        let (node, npm) = installed::npm();
        Self::TypeScript { node, npm }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Python { .. } => "mcp for Python",
            Self::TypeScript { .. } => "@modelcontextprotocol/client",
        }
    }

    /// What the client saw at each stop.
    pub(crate) async fn visit(&self, mode: &str, stops: &[Stop]) -> Result<Vec<Seen>, String> {
        let stops = serde_json::to_string(stops).unwrap();
        let run = self.run(mode, &stops);
        let output = timeout(WAIT, run).await.map_err(|_| format!("not back after {WAIT:?}"))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let seen: Vec<Seen> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        if output.status.success() {
            return Ok(seen);
        }
        let error = String::from_utf8_lossy(&output.stderr);
        Err(format!("failed after {} stop(s): {error}", seen.len()))
    }

    async fn run(&self, mode: &str, stops: &str) -> std::process::Output {
        let (mut command, input) = match self {
            Self::Python { python } => {
                let mut command = Command::new(python);
                command.args([CLIENT_PY, mode, stops]);
                (command, "")
            }
            // Its imports are looked up where it runs, not where the file is.
            Self::TypeScript { node, npm } => {
                let mut command = Command::new(node);
                command.args(["--input-type=module", "-"]).current_dir(npm);
                command.env("PEER_MODE", mode).env("PEER_STOPS", stops);
                (command, include_str!("client.mjs"))
            }
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        drop(stdin);
        child.wait_with_output().await.unwrap()
    }
}
