//! `cargo xtask traces`: client, gateway and upstream are in one trace, with the Python and the TypeScript SDK as both
//! ends. The exporters of both are those of OpenTelemetry, so that the receiver is checked against them as well.
//!
//! The ends are in `xtask/traces`, with their pinned packages. The receiver is the program `otlp` of the testkit.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::step::step;
use crate::workspace::Profile;
use crate::{tools, workspace};

const LONGEST: Duration = Duration::from_mins(1);

pub(crate) fn traces() -> Result<()> {
    let folder = workspace::root().join("xtask/traces");
    let python = step("install the Python SDK", || {
        tools::python_environment("traces-python", &folder.join("requirements.txt"))
    })?;
    let node_folder = step("install the TypeScript SDK", || tools::npm_folder("traces"))?;
    for name in ["spans.mjs", "client.mjs", "server.mjs"] {
        // Node looks for packages beside the script.
        fs::copy(folder.join(name), node_folder.join(name)).with_context(|| format!("copy `{name}`"))?;
    }
    let program = workspace::build("toolyard", Profile::Dev)?.join("toolyard");
    let receiver = workspace::build("toolyard-testkit", Profile::Dev)?.join("otlp");
    let ends = Ends { python, node: tools::npm()?.node, folder, node_folder };
    let mut spans = Spans::receive(&receiver)?;
    let home = tempfile::tempdir().context("make a folder")?;
    fs::write(home.path().join("config.toml"), ends.config(&spans.url)).context("write the config")?;
    let gateway = Running(gateway(&program, home.path())?);
    let url = address(home.path())?;
    step("wait for both servers", || ready(&url))?;
    for client in ["python", "typescript"] {
        for server in ["python", "typescript"] {
            step(&format!("{client} client, {server} server"), || {
                let answer =
                    ends.call(client, &format!("{url}/mcp"), &format!("{server}__echo"), &spans.url)?;
                ensure!(answer.trim().to_lowercase().ends_with(": hello"), "an odd answer: {answer}");
                spans.one_trace(client, server)
            })?;
        }
    }
    drop(gateway);
    Ok(())
}

struct Ends {
    python: PathBuf,
    node: PathBuf,
    folder: PathBuf,
    node_folder: PathBuf,
}

impl Ends {
    fn script(&self, language: &str, role: &str) -> (PathBuf, PathBuf) {
        match language {
            "python" => (self.python.clone(), self.folder.join(format!("{role}.py"))),
            _ => (self.node.clone(), self.node_folder.join(format!("{role}.mjs"))),
        }
    }

    fn config(&self, receiver: &str) -> String {
        let upstream = |language: &str| {
            let (program, script) = self.script(language, "server");
            let (program, script) = (program.display(), script.display());
            format!(
                "\n[upstreams.{language}]\ncommand = '{program}'\nargs = ['{script}']\nenv = {{ OTEL_EXPORTER_OTLP_ENDPOINT = \"{receiver}\" }}\n"
            )
        };
        let gateway =
            format!("[listen]\nhttp = \"127.0.0.1:0\"\n\n[traces]\nendpoint = \"{receiver}\"\n\n[audit]\n");
        gateway + &["python", "typescript"].map(upstream).concat()
    }

    fn call(&self, language: &str, url: &str, tool: &str, receiver: &str) -> Result<String> {
        let (program, script) = self.script(language, "client");
        let mut client = Command::new(program);
        client.arg(script).args([url, tool]).env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver);
        let output =
            client.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("run the client")?;
        ensure!(output.status.success(), "the client failed");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The receiver, and what it has received.
struct Spans {
    _child: Running,
    url: String,
    lines: Receiver<String>,
    seen: Vec<Value>,
}

impl Spans {
    fn receive(program: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the receiver")?;
        let stdout = child.stdout.take().context("the receiver has no stdout")?;
        let (send, lines) = channel();
        std::thread::spawn(move || {
            let _ = BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| send.send(line));
        });
        let url = lines.recv_timeout(LONGEST).context("the receiver does not listen")?;
        Ok(Self { _child: Running(child), url, lines, seen: Vec::new() })
    }

    fn find(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Result<Value> {
        let until = Instant::now() + LONGEST;
        loop {
            if let Some(at) = self.seen.iter().position(&is_it) {
                return Ok(self.seen.swap_remove(at));
            }
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => self.seen.push(serde_json::from_str(&line).context("read a span")?),
                Err(RecvTimeoutError::Timeout) => {
                    bail!("{what}: no such span came; there are {:#?}", self.seen)
                }
                Err(RecvTimeoutError::Disconnected) => bail!("the receiver ended"),
            }
        }
    }

    /// From the upstream's span up to the client's, each is the parent of the one before, in one trace.
    fn one_trace(&mut self, client: &str, server: &str) -> Result<()> {
        let (client, server) = (format!("{client}-client"), format!("{server}-server"));
        let is_call = |span: &Value| span["name"].as_str().is_some_and(|name| name.starts_with("tools/call"));
        let mut below = self.find("the upstream", |span| {
            span["service"] == *server && span["kind"] == "server" && is_call(span)
        })?;
        let trace = below["trace"].clone();
        for (service, kind) in [("toolyard", "client"), ("toolyard", "server"), (&*client, "client")] {
            let parent = below["parent"].clone();
            let above = self.find(&format!("the parent of {below}"), |span| span["span"] == parent)?;
            ensure!(
                above["service"] == service && above["kind"] == kind && above["trace"] == trace,
                "expected a {kind} span of {service} in {trace}, found {above}"
            );
            ensure!(
                above["start"].as_u64() <= below["start"].as_u64(),
                "{above} began after {below}, which it is the parent of"
            );
            below = above;
        }
        Ok(())
    }
}

/// A process that ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn gateway(program: &Path, folder: &Path) -> Result<Child> {
    let mut command = Command::new(program);
    command.args(["--config", "config.toml", "--state-dir", "state", "serve", "--no-apps"]);
    command.current_dir(folder).env("XDG_RUNTIME_DIR", folder).env("HOME", folder);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("start the gateway")
}

/// Where the gateway listens.
fn address(folder: &Path) -> Result<String> {
    let (file, until) = (folder.join("state/gateway.json"), Instant::now() + LONGEST);
    loop {
        ensure!(Instant::now() < until, "the gateway did not write `gateway.json`");
        let noted: Option<Value> = fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok());
        if let Some(http) = noted.and_then(|noted| noted["http"].as_str().map(str::to_owned)) {
            return Ok(http);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until both upstreams are active: their packages take long to load on a busy machine.
fn ready(url: &str) -> Result<()> {
    let (address, until) = (url.trim_start_matches("http://"), Instant::now() + 2 * LONGEST);
    loop {
        let states = ["python", "typescript"].map(|name| state(address, name));
        if states.iter().all(|state| state.as_deref().is_ok_and(|state| state == "active")) {
            return Ok(());
        }
        ensure!(Instant::now() < until, "the upstreams did not become active: {states:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn state(address: &str, upstream: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).context("connect to the gateway")?;
    stream.set_read_timeout(Some(LONGEST))?;
    write!(
        stream,
        "GET /api/v1/upstreams/{upstream} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (_, body) = text.split_once("\r\n\r\n").context("no HTTP answer")?;
    let upstream: Value = serde_json::from_str(body).context("read the state")?;
    Ok(upstream["state"].as_str().unwrap_or_default().to_owned())
}
