//! What is measured: the upstream itself, and the programs in front of it. Started here, stopped on drop.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use super::case::{Behind, CASES, Case, TOOLS};
use super::load::Load;
use super::peers;
use super::usage::{Memory, memory};
use crate::process::Background;
use crate::tools;

/// The upstream's id in the gateway's config.
const UPSTREAM: &str = "bench";
/// The pack that is measured; it needs no config.
const PACK: &str = "dev";

/// The views of the gateway to compare with, in the order of [`NEW`].
pub(super) const OLD: [&str; 2] = ["old /mcp", "old /mcp/ID"];
/// The gateway that was built here, with limits, hooks and validation.
pub(super) const STEPS: &str = "toolyard with steps";
/// What is set there for all tools: one limit, one shipped hook before a call and one after it, and validation.
const STEPS_CONFIG: &str = "
[limits.many]
concurrent = 64
[hooks.before]
use = \"git-noninteractive\"
with = { argument = \"text\" }
[hooks.after]
use = \"redact\"
on = \"post_tool_call\"
[tools.\"*\"]
limits = [\"many\"]
validate = \"input\"
";

/// The views of the gateway that was built here.
pub(super) const NEW: [&str; 2] = ["toolyard /mcp", "toolyard /mcp/ID"];

/// Where the programs are that were built for this.
pub(super) struct Programs {
    pub(super) folder: PathBuf,
    /// Another gateway to compare with.
    pub(super) old: Option<PathBuf>,
}

pub(super) struct Contestant {
    pub(super) name: &'static str,
    upstream: Place,
    /// Where a pack answers in its stead; nothing for those that have none.
    pack: Option<Place>,
    /// Whose CPU time is the cost of the hop; nothing for the upstream itself.
    pub(super) process: Option<u32>,
}

/// Where tools are called, and under which names.
pub(super) struct Place {
    pub(super) url: String,
    /// The prefix of the tools' own names.
    pub(super) prefix: &'static str,
}

pub(super) struct Contestants {
    pub(super) all: Vec<Contestant>,
    /// Who could not be started, and why.
    pub(super) missing: Vec<String>,
    _running: Vec<Background>,
    _folder: TempDir,
}

impl Programs {
    pub(super) fn bench_load(&self) -> PathBuf {
        self.folder.join("bench-load")
    }

    pub(super) fn upstream(&self) -> Command {
        let mut command = Command::new(self.folder.join("bench-upstream"));
        command.args(["--listen", "127.0.0.1:0", "--tools", &TOOLS.to_string()]);
        command
    }

    /// The arguments of the upstream on stdio.
    pub(super) fn stdio_upstream() -> [String; 3] {
        ["--stdio".to_owned(), "--tools".to_owned(), TOOLS.to_string()]
    }

    /// The arguments after the program, so that it can be run under another.
    pub(super) fn relay(&self, upstream: &str) -> Command {
        let mut command = Command::new(self.folder.join("bench-relay"));
        let authority = upstream.trim_start_matches("http://");
        command.args(["--listen", "127.0.0.1:0", "--upstream", authority]);
        command
    }

    /// The gateway with its files in a folder of its own, in front of that upstream or of none.
    pub(super) fn gateway(&self, folder: &Path, upstream: Option<&str>) -> Result<Command> {
        let text = upstream.map(|origin| format!("[upstreams.{UPSTREAM}]\nurl = \"{origin}/mcp\"\n"));
        self.gateway_with(folder, &text.unwrap_or_default())
    }

    /// The same with limits, hooks and validation.
    pub(super) fn gateway_with_steps(&self, folder: &Path, upstream: &str) -> Result<Command> {
        self.gateway_with(
            folder,
            &format!("[upstreams.{UPSTREAM}]\nurl = \"{upstream}/mcp\"\n{STEPS_CONFIG}"),
        )
    }

    /// The gateway of [`gateway`](Self::gateway) in the version to compare with.
    pub(super) fn old_gateway(&self, folder: &Path, upstream: &str) -> Result<Option<Command>> {
        let Some(program) = &self.old else { return Ok(None) };
        let like = self.gateway(folder, Some(upstream))?;
        let mut command = Command::new(program);
        command.args(like.get_args());
        Ok(Some(command))
    }

    /// The gateway in front of one upstream of each era, named after it and held to it.
    pub(super) fn gateway_before(&self, folder: &Path, upstreams: &[(&str, String)]) -> Result<Command> {
        let upstream = |(era, origin): &(&str, String)| {
            format!("[upstreams.{era}]\nurl = \"{origin}/mcp\"\nera = \"{era}\"\n")
        };
        self.gateway_with(folder, &upstreams.iter().map(upstream).collect::<String>())
    }

    pub(super) fn gateway_with(&self, folder: &Path, config_text: &str) -> Result<Command> {
        fs::create_dir_all(folder).with_context(|| format!("make `{}`", folder.display()))?;
        let config = folder.join("toolyard.toml");
        fs::write(&config, config_text).context("write the gateway's config")?;
        let mut command = Command::new(self.folder.join("toolyard"));
        command.arg("serve").arg("--config").arg(&config).args(["--listen", "127.0.0.1:0"]);
        command.arg("--state-dir").arg(folder.join("state"));
        Ok(command)
    }
}

impl Contestant {
    pub(super) fn plain(name: &'static str, origin: &str, process: Option<u32>) -> Self {
        Self { name, upstream: Place { url: format!("{origin}/mcp"), prefix: "" }, pack: None, process }
    }

    /// Some upstream in the view of everything; its process is not looked at.
    pub(super) fn prefixed(name: &'static str, origin: &str, prefix: &'static str) -> Self {
        Self { name, upstream: Place { url: format!("{origin}/mcp"), prefix }, pack: None, process: None }
    }

    /// A gateway whose MCP endpoint has no path, and which puts a prefix before names.
    pub(super) fn at_root(name: &'static str, origin: &str, prefix: &'static str, process: u32) -> Self {
        let upstream = Place { url: format!("{origin}/"), prefix };
        Self { name, upstream, pack: None, process: Some(process) }
    }

    /// The view of everything, where names are prefixed.
    pub(super) fn namespaced(origin: &str, process: Option<u32>) -> Self {
        let place = |prefix| Place { url: format!("{origin}/mcp"), prefix };
        Self { name: NEW[0], upstream: place("bench__"), pack: Some(place("dev__")), process }
    }

    /// The view of one upstream, where nothing is renamed.
    pub(super) fn transparent(origin: &str, process: Option<u32>) -> Self {
        let place = |id: &str| Place { url: format!("{origin}/mcp/{id}"), prefix: "" };
        Self { name: NEW[1], upstream: place(UPSTREAM), pack: Some(place(PACK)), process }
    }

    /// The same under another name.
    pub(super) fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Where a case is called.
    pub(super) fn place(&self, case: &Case) -> &Place {
        match (case.behind, &self.pack) {
            (Behind::Pack | Behind::PackSteps, Some(pack)) => pack,
            (Behind::Pack | Behind::PackSteps, None) | (Behind::Upstream | Behind::Steps, _) => {
                &self.upstream
            }
        }
    }

    /// Whether it is measured in this case.
    pub(super) fn takes_part(&self, case: &Case) -> bool {
        match case.behind {
            Behind::Steps | Behind::PackSteps => [NEW[0], STEPS].contains(&self.name),
            Behind::Upstream | Behind::Pack => self.name != STEPS,
        }
    }
}

impl Contestants {
    pub(super) fn start(programs: &Programs, with_peers: bool, load: &Load, logs: &Path) -> Result<Self> {
        let folder = tempfile::tempdir().context("make a folder for what is measured")?;
        let (upstream, origin) =
            Background::serve("bench-upstream", &mut programs.upstream(), &logs.join("upstream.log"))?;
        let (relay, relay_origin) =
            Background::serve("bench-relay", &mut programs.relay(&origin), &logs.join("relay.log"))?;
        let mut all = vec![
            Contestant::plain("direct", &origin, None),
            Contestant::plain("relay", &relay_origin, Some(relay.id())),
        ];
        let mut running = vec![relay, upstream];
        let mut missing = Vec::new();
        match start_nginx(folder.path(), &origin, logs) {
            Ok((nginx, origin)) => {
                all.push(Contestant::plain("nginx", &origin, Some(nginx.id())));
                running.insert(0, nginx);
            }
            Err(error) => missing.push(format!("nginx is not measured: {error:#}")),
        }
        let gateway = programs
            .gateway(&folder.path().join("toolyard"), Some(&origin))
            .and_then(|mut command| Background::serve("toolyard", &mut command, &logs.join("toolyard.log")));
        match gateway {
            Ok((gateway, origin)) => {
                all.push(Contestant::namespaced(&origin, Some(gateway.id())));
                all.push(Contestant::transparent(&origin, Some(gateway.id())));
                running.insert(0, gateway);
            }
            Err(error) => missing.push(format!("TOOLYARD IS NOT MEASURED: {error:#}")),
        }
        let mut stepped = programs.gateway_with_steps(&folder.path().join("steps"), &origin)?;
        match Background::serve("toolyard with steps", &mut stepped, &logs.join("steps.log")) {
            Ok((gateway, origin)) => {
                all.push(Contestant::namespaced(&origin, Some(gateway.id())).named(STEPS));
                running.insert(0, gateway);
            }
            Err(error) => missing.push(format!("TOOLYARD WITH STEPS IS NOT MEASURED: {error:#}")),
        }
        if let Some(mut command) = programs.old_gateway(&folder.path().join("old"), &origin)? {
            let (gateway, origin) =
                Background::serve("the old toolyard", &mut command, &logs.join("old.log"))?;
            all.push(Contestant::namespaced(&origin, Some(gateway.id())).named(OLD[0]));
            all.push(Contestant::transparent(&origin, Some(gateway.id())).named(OLD[1]));
            running.insert(0, gateway);
        }
        if with_peers {
            let (started, failed) = peers::start(programs, &origin, folder.path(), logs);
            missing.extend(failed);
            for (contestant, process) in started {
                all.push(contestant);
                running.insert(0, process);
            }
        }
        all.retain(|contestant| {
            let mut cases = CASES.iter().filter(|case| contestant.takes_part(case));
            match cases.try_for_each(|case| load.wait_for(case, contestant)) {
                Ok(()) => true,
                Err(error) => {
                    missing.push(format!("{} IS NOT MEASURED: {error:#}", contestant.name.to_uppercase()));
                    false
                }
            }
        });
        for problem in &missing {
            eprintln!("warning: {problem}");
        }
        Ok(Self { all, missing, _running: running, _folder: folder })
    }

    pub(super) fn memory(&self) -> Vec<(&'static str, Memory)> {
        let mut processes: Vec<_> =
            self.all.iter().filter_map(|contestant| Some((contestant.name, contestant.process?))).collect();
        processes.dedup_by_key(|(_, process)| *process);
        processes.into_iter().map(|(name, process)| (name, memory(process))).collect()
    }
}

/// nginx cannot say which port it got, so a free one is chosen for it.
fn start_nginx(folder: &Path, upstream: &str, logs: &Path) -> Result<(Background, String)> {
    let program = tools::nginx()?;
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let prefix = folder.join("nginx");
    fs::create_dir_all(&prefix)?;
    let config = prefix.join("nginx.conf");
    fs::write(&config, nginx_config(address, upstream.trim_start_matches("http://")))?;
    let mut command = Command::new(program);
    command.arg("-p").arg(&prefix).arg("-c").arg(&config).args(["-e", "stderr", "-g", "daemon off;"]);
    let mut nginx = Background::start("nginx", &mut command, &logs.join("nginx.log"))?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(address).is_err() {
        nginx.check_alive()?;
        if Instant::now() > deadline {
            bail!("nginx does not accept connections on {address}");
        }
        sleep(Duration::from_millis(10));
    }
    Ok((nginx, format!("http://{address}")))
}

/// As an operator would set it up for this job: kept-alive connections on both sides, answers of a
/// megabyte buffered in memory, no log.
fn nginx_config(listen: SocketAddr, upstream: &str) -> String {
    format!(
        "user root;
worker_processes auto;
pid nginx.pid;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    client_body_buffer_size 256k;
    keepalive_requests 100000000;
    tcp_nodelay on;
    upstream bench {{
        server {upstream};
        keepalive 256;
        keepalive_requests 100000000;
    }}
    server {{
        listen {listen};
        location / {{
            proxy_pass http://bench;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_buffers 64 32k;
            proxy_max_temp_file_size 0;
        }}
    }}
}}
"
    )
}
