//! What the suite is pointed at: starts the fixture and the gateway in front of it, and stops them again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::process::Background;
use crate::workspace::{self, Profile};

/// The upstream's id in the gateway's config. Its own view shows it as it is.
const UPSTREAM: &str = "fixture";

pub(super) enum Scene {
    Url(String),
    Fixture,
    GatewayOverHttp,
    GatewayOverStdio,
}

/// A scene that is set: what runs, and where the suite finds it. Everything ends when this is dropped.
pub(super) struct Stage {
    pub(super) url: String,
    /// The gateway before the fixture: the last to start is the first to stop.
    running: Vec<Background>,
    _folder: Option<TempDir>,
}

impl Stage {
    pub(super) fn check_alive(&mut self) -> Result<()> {
        self.running.iter_mut().try_for_each(Background::check_alive)
    }
}

/// Builds what the scenes run and returns the folder it is in.
pub(super) fn build(profile: Profile) -> Result<PathBuf> {
    workspace::require_target("toolyard-testkit", "bin", "fixture")?;
    workspace::require_target("toolyard", "bin", "toolyard")?;
    workspace::build("toolyard-testkit", profile)?;
    workspace::build("toolyard", profile)
}

impl Scene {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Url(_) => "the given URL",
            Self::Fixture => "the fixture itself",
            Self::GatewayOverHttp => "gateway, fixture behind HTTP",
            Self::GatewayOverStdio => "gateway, fixture behind stdio",
        }
    }

    /// How the fixture is reached, as the baseline names it.
    pub(super) fn upstream(&self) -> &'static str {
        match self {
            Self::Url(_) | Self::Fixture => "direct",
            Self::GatewayOverHttp => "http",
            Self::GatewayOverStdio => "stdio",
        }
    }

    /// Starts what is needed. Logs go to the folder of results.
    pub(super) fn set(&self, programs: Option<&Path>, era: &str, logs: &Path) -> Result<Stage> {
        if let Self::Url(url) = self {
            return Ok(Stage { url: url.clone(), running: Vec::new(), _folder: None });
        }
        let programs = programs.context("this scene needs built programs")?;
        let fixture = programs.join("fixture");
        let mut running = Vec::new();
        let upstream = if let Self::GatewayOverStdio = self {
            format!("command = {}\nargs = [\"--stdio\"]\n", toml_string(&fixture))
        } else {
            let mut command = Command::new(&fixture);
            command.args(["--listen", "127.0.0.1:0"]);
            let (server, origin) = Background::serve("the fixture", &mut command, &logs.join("fixture.log"))?;
            running.push(server);
            if let Self::Fixture = self {
                return Ok(Stage { url: format!("{origin}/mcp"), running, _folder: None });
            }
            format!("url = \"{origin}/mcp\"\n")
        };
        let folder = tempfile::tempdir().context("make a folder for the gateway")?;
        let config = folder.path().join("toolyard.toml");
        let text = format!("[upstreams.{UPSTREAM}]\n{upstream}era = \"{era}\"\n");
        fs::write(&config, text).context("write the config")?;
        let mut command = Command::new(programs.join("toolyard"));
        command.arg("serve").arg("--config").arg(&config);
        command.args(["--listen", "127.0.0.1:0"]).arg("--state-dir").arg(folder.path().join("state"));
        let (server, origin) = Background::serve("the gateway", &mut command, &logs.join("gateway.log"))?;
        running.insert(0, server);
        Ok(Stage { url: format!("{origin}/mcp/{UPSTREAM}"), running, _folder: Some(folder) })
    }
}

/// A path as a TOML string. JSON's quoting is a subset of TOML's.
fn toml_string(path: &Path) -> String {
    serde_json::Value::from(path.to_string_lossy().into_owned()).to_string()
}
