//! What the suite is pointed at: starts the fixture and the gateway in front of it, and stops them again.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use super::door::Door;
use super::suite::{SKILLS, TASKS};
use crate::process::Background;
use crate::workspace::{self, Profile};

/// The upstream's id in the gateway's config. Its own view shows it as it is.
pub(super) const UPSTREAM: &str = "fixture";

pub(super) enum Scene {
    Url(String),
    Fixture,
    /// The gateway reaches the fixture by this.
    Upstream(Door),
    /// Clients reach the gateway by this.
    Client(Door),
    /// Three fixtures with a skill each, in one view.
    Skills,
    /// Clients reach a node of a cluster that owns nothing; another node has the fixture. The path is that of
    /// nats-server.
    Node(PathBuf),
}

/// A scene that is set: what runs, and where the suite finds it. Everything ends when this is dropped.
pub(super) struct Stage {
    pub(super) url: String,
    running: Vec<Background>,
    _folder: Option<TempDir>,
}

impl Stage {
    pub(super) fn check_alive(&mut self) -> Result<()> {
        self.running.iter_mut().try_for_each(Background::check_alive)
    }
}

/// Builds what the scenes run and returns the folder it is in.
pub(super) fn build(profile: Profile, with_cluster: bool) -> Result<PathBuf> {
    workspace::require_target("toolyard-testkit", "bin", "fixture")?;
    workspace::require_target("toolyard", "bin", "toolyard")?;
    workspace::build("toolyard-testkit", profile)?;
    let features: &[&str] = if with_cluster { &["cluster"] } else { &[] };
    workspace::build_with("toolyard", profile, features)
}

impl Scene {
    /// Every transport on either side; HTTP is the client's side of all of the first.
    pub(super) fn all() -> Vec<Self> {
        let client = Door::ALL.into_iter().filter(|door| *door != Door::Http);
        Door::ALL.into_iter().map(Self::Upstream).chain(client.map(Self::Client)).collect()
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Url(_) => "the given URL".to_owned(),
            Self::Fixture => "the fixture itself".to_owned(),
            Self::Upstream(door) => format!("gateway, fixture behind {door}"),
            Self::Client(door) => format!("gateway, client over {door}"),
            Self::Skills => "gateway, three upstreams with skills".to_owned(),
            Self::Node(_) => "a node that owns nothing".to_owned(),
        }
    }

    /// Which side is over what, as the baseline names it.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Url(_) | Self::Fixture => "direct".to_owned(),
            Self::Upstream(door) => door.label().to_owned(),
            Self::Client(door) => format!("{}-client", door.label()),
            Self::Skills => "skills".to_owned(),
            Self::Node(_) => "node".to_owned(),
        }
    }

    /// Unscored scenarios that must pass in this scene: what the SDK promises for tasks is seen without a
    /// gateway in front.
    pub(super) fn held_to(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Fixture => &TASKS,
            Self::Skills => &SKILLS,
            Self::Url(_) | Self::Upstream(_) | Self::Client(_) | Self::Node(_) => &[],
        }
    }

    /// Whether the transport exists in that revision.
    pub(super) fn can_run(&self, requirements: &str) -> bool {
        !matches!(self, Self::Upstream(Door::Sse) | Self::Client(Door::Sse)) || requirements == "2025-11-25"
    }

    /// Starts what is needed. Logs go to the folder of results.
    pub(super) fn set(
        &self,
        programs: Option<&Path>,
        era: &str,
        fixture_flags: &[&str],
        logs: &Path,
    ) -> Result<Stage> {
        if let Self::Url(url) = self {
            return Ok(Stage { url: url.clone(), running: Vec::new(), _folder: None });
        }
        let programs = programs.context("this scene needs built programs")?;
        let folder = tempfile::tempdir().context("make a folder for the gateway")?;
        let mut set = Set { programs, logs, folder: folder.path(), era, fixture_flags, running: Vec::new() };
        let url = match self {
            Self::Url(_) | Self::Fixture => format!("{}/mcp", set.fixture(&["--listen", "127.0.0.1:0"])?),
            Self::Upstream(door) => {
                let reach = door.fixture(&mut set)?;
                format!("{}/mcp/{UPSTREAM}", set.gateway("gateway", &reach)?)
            }
            Self::Client(door) => {
                let reach = Door::Http.fixture(&mut set)?;
                let origin = set.gateway("gateway", &format!("{reach}{}", door.opens(&set)))?;
                let reach = door.gateway(&set, &origin)?;
                format!("{}/mcp/{UPSTREAM}", set.gateway("in-front", &reach)?)
            }
            Self::Skills => format!("{}/mcp", set.gateway_with_skills()?),
            Self::Node(nats) => {
                let nats = set.nats(nats)?;
                let reach = Door::Http.fixture(&mut set)?;
                set.gateway("owner", &format!("{reach}\n{}", cluster(&nats, "owner")))?;
                let origin =
                    set.serve("in-front", &format!("transparent = true\n{}", cluster(&nats, "front")))?;
                wait_for_upstream(&origin)?;
                format!("{origin}/mcp/{UPSTREAM}")
            }
        };
        // The last to start is the first to stop.
        let running = set.running.into_iter().rev().collect();
        Ok(Stage { url, running, _folder: Some(folder) })
    }
}

/// A scene that is being set.
pub(super) struct Set<'a> {
    programs: &'a Path,
    logs: &'a Path,
    pub(super) folder: &'a Path,
    era: &'a str,
    pub(super) fixture_flags: &'a [&'a str],
    running: Vec<Background>,
}

impl Set<'_> {
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// Starts the fixture and returns its address.
    pub(super) fn fixture(&mut self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(self.program("fixture"));
        command.args(arguments).args(self.fixture_flags);
        let (server, address) =
            Background::serve("the fixture", &mut command, &self.logs.join("fixture.log"))?;
        self.running.push(server);
        Ok(address)
    }

    /// Starts a gateway whose only upstream is reached as given, and returns its address.
    fn gateway(&mut self, name: &str, reach: &str) -> Result<String> {
        let (upstream, rest) = reach
            .split_once("\n[")
            .map_or((reach, String::new()), |(upstream, rest)| (upstream, format!("\n[{rest}")));
        let text =
            format!("transparent = true\n[upstreams.{UPSTREAM}]\n{upstream}\nera = \"{}\"\n{rest}", self.era);
        self.serve(name, &text)
    }

    /// Starts a gateway with this config, and returns its address.
    fn serve(&mut self, name: &str, text: &str) -> Result<String> {
        let (config, state) = (self.config(name), self.state(name));
        fs::write(&config, text).context("write the config")?;
        let mut command = Command::new(self.program("toolyard"));
        command.arg("serve").arg("--config").arg(&config).env("XDG_RUNTIME_DIR", self.folder);
        command.args(["--listen", "127.0.0.1:0"]).arg("--state-dir").arg(&state);
        let log = self.logs.join(format!("{name}.log"));
        let (server, origin) = Background::serve("the gateway", &mut command, &log)?;
        self.running.push(server);
        Ok(origin)
    }

    /// Starts a gateway with three upstreams that have a skill each, two of them over HTTP and one on stdio.
    fn gateway_with_skills(&mut self) -> Result<String> {
        let mut reach = format!(
            "command = {}\nargs = [\"--stdio\", \"--skill\", \"first\"]\n",
            toml_string(&self.program("fixture"))
        );
        for name in ["second", "third"] {
            let url = self.fixture(&["--listen", "127.0.0.1:0", "--skill", name])?;
            let _ = write!(reach, "\n[upstreams.{name}]\nurl = \"{url}/mcp\"\n");
        }
        self.gateway("gateway", &reach)
    }

    /// Starts a NATS server, and returns its address.
    fn nats(&mut self, program: &Path) -> Result<String> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new(program);
        command.args(["--jetstream", "--addr", "127.0.0.1", "--port", &port.to_string(), "--store_dir"]);
        command.arg(self.folder.join("nats"));
        self.running.push(Background::start("nats-server", &mut command, &self.logs.join("nats.log"))?);
        Ok(format!("nats://127.0.0.1:{port}"))
    }

    pub(super) fn config(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.toml"))
    }

    pub(super) fn state(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}-state"))
    }
}

/// The section that makes a gateway a node.
fn cluster(nats: &str, node: &str) -> String {
    let key = "0123456789abcdef".repeat(2);
    format!("[cluster]\nnats = \"{nats}\"\nnode = \"{node}\"\nkey = \"{key}\"\nlisten = \"127.0.0.1:0\"\n")
}

/// Waits until a node shows the fixture of another one.
fn wait_for_upstream(origin: &str) -> Result<()> {
    let address = origin.strip_prefix("http://").context("the address of the node")?;
    let deadline = Instant::now() + Duration::from_mins(1);
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{meta}}}}}"#);
    let request = format!(
        "POST /mcp/{UPSTREAM} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    loop {
        let mut stream = TcpStream::connect(address).context("connect to the node")?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        if answer.contains("\"inputSchema\"") {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("the node does not show the fixture: {answer}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A path as a TOML string. JSON's quoting is a subset of TOML's.
pub(super) fn toml_string(path: &Path) -> String {
    serde_json::Value::from(path.to_string_lossy().into_owned()).to_string()
}
