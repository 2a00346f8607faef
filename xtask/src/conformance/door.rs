//! The transports: how the fixture is reached by the gateway, and the gateway by a client.

use std::fmt;
use std::fs;

use anyhow::{Context as _, Result};
use clap::ValueEnum;

use super::scene::{Set, UPSTREAM, toml_string};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Door {
    Http,
    Stdio,
    Tcp,
    Unix,
    Sse,
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "HTTP",
            Self::Stdio => "stdio",
            Self::Tcp => "TCP",
            Self::Unix => "a Unix socket",
            Self::Sse => "HTTP+SSE",
        })
    }
}

impl Door {
    pub(super) const ALL: [Self; 5] = [Self::Http, Self::Stdio, Self::Tcp, Self::Unix, Self::Sse];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stdio => "stdio",
            Self::Tcp => "tcp",
            Self::Unix => "unix",
            Self::Sse => "sse",
        }
    }

    /// Starts the fixture behind this door, and gives the keys of an upstream that lead to it.
    pub(super) fn fixture(self, set: &mut Set<'_>) -> Result<String> {
        let socket = set.folder.join("fixture.sock");
        Ok(match self {
            Self::Http => format!("url = \"{}/mcp\"\n", set.fixture(&["--listen", "127.0.0.1:0"])?),
            Self::Sse => {
                let origin = set.fixture(&["--listen", "127.0.0.1:0"])?;
                format!("url = \"{origin}/sse\"\ntransport = \"sse\"\n")
            }
            Self::Tcp => format!("url = \"{}\"\n", set.fixture(&["--tcp", "127.0.0.1:0"])?),
            Self::Unix => format!("url = \"{}\"\n", set.fixture(&["--unix", &socket.to_string_lossy()])?),
            Self::Stdio => {
                let arguments = [&["--stdio"], set.fixture_flags].concat();
                format!("command = {}\nargs = {arguments:?}\n", toml_string(&set.program("fixture")))
            }
        })
    }

    /// What a gateway needs in its config to have this door for clients.
    pub(super) fn opens(self, set: &Set<'_>) -> String {
        match self {
            Self::Tcp => "\n[listen]\ntcp = \"127.0.0.1:0\"\n".to_owned(),
            Self::Unix => format!("\n[listen]\nunix = {}\n", toml_string(&set.folder.join("mcp.sock"))),
            Self::Http | Self::Stdio | Self::Sse => String::new(),
        }
    }

    /// The keys of an upstream that lead through this door to the gateway called `gateway`.
    pub(super) fn gateway(self, set: &Set<'_>, origin: &str) -> Result<String> {
        Ok(match self {
            Self::Http => format!("url = \"{origin}/mcp\"\n"),
            Self::Sse => format!("url = \"{origin}/sse\"\ntransport = \"sse\"\n"),
            Self::Unix => format!("url = \"unix://{}\"\n", set.folder.join("mcp.sock").display()),
            Self::Tcp => {
                let note = fs::read(set.state("gateway").join("gateway.json")).context("find the gateway")?;
                let note: serde_json::Value = serde_json::from_slice(&note)?;
                let address = note["tcp"].as_str().context("the gateway has no TCP door")?;
                format!("url = \"{address}\"\n")
            }
            Self::Stdio => format!(
                "command = {}\nargs = [\"stdio\", \"--upstream\", \"{UPSTREAM}\", \"--config\", {}, \"--state-dir\", {}]\n",
                toml_string(&set.program("toolyard")),
                toml_string(&set.config("gateway")),
                toml_string(&set.state("gateway")),
            ),
        })
    }
}
