//! The real gateway with a config of its own, on a free port, in an empty home.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::program::Program;

/// One way to reach an upstream, as in the config.
#[derive(Clone, Debug)]
pub(crate) enum Reach {
    /// Streamable HTTP; HTTP+SSE where it ends in `/sse…`; lines at `tcp://` and `unix://`, where what comes after
    /// a `#` is the view to open.
    Url(String),
    Child(Vec<String>),
}

pub(crate) struct Gateway {
    pub(crate) origin: String,
    _program: Program,
    home: TempDir,
}

impl Gateway {
    /// Starts a gateway before the upstreams `(id, how to reach it, more keys)`.
    pub(crate) fn before(upstreams: &[(&str, Reach, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("config.toml");
        std::fs::write(&config, config_for(upstreams)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolyard"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&config);
        command.arg("--state-dir").arg(home.path().join("state"));
        let (program, origin) = Program::serve(&mut command);
        Self { origin, _program: program, home }
    }

    /// The folder with `config.toml` and `state`.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// The endpoint that shows everything.
    pub(crate) fn everything(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    /// The endpoint that shows one upstream as it is.
    pub(crate) fn alone(&self, id: &str) -> String {
        format!("{}/mcp/{id}", self.origin)
    }
}

fn config_for(upstreams: &[(&str, Reach, &str)]) -> String {
    let mut config = String::new();
    for (id, reach, more) in upstreams {
        let reach = match reach {
            Reach::Url(url) => {
                let transport = if url.ends_with("/sse") { "transport = \"sse\"" } else { "" };
                format!("url = {}\n{transport}", toml::Value::from(url.as_str()))
            }
            Reach::Child(words) => {
                let (command, arguments) = words.split_first().expect("a command has a first word");
                let arguments = toml::Value::from(arguments.to_vec());
                format!("command = {}\nargs = {arguments}", toml::Value::from(command.as_str()))
            }
        };
        let _ = writeln!(config, "[upstreams.{id}]\n{reach}\n{more}");
    }
    config
}
