//! The client that the suite's authorization scenarios are run with: a real gateway whose only upstream is the suite's
//! server, and a user who signs in whenever the gateway asks for it.
//!
//! The suite starts this program once for each scenario, with the address of its server. The browser of the user is a
//! few GET requests: the suite's authorization server redirects back at once.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::Value;
use tempfile::TempDir;

use super::scene::toml_string;
use crate::process::{self, Background};

/// More than any scenario needs. A gateway that keeps asking for sign-ins fails.
const MOST_ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(200);
const MOST_REDIRECTS: usize = 5;
const PATIENCE: Duration = Duration::from_secs(20);
/// The client id document that one scenario expects.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

#[derive(Args)]
pub(crate) struct Options {
    /// The gateway's program.
    #[arg(long)]
    program: PathBuf,
    /// The suite's server.
    url: String,
}

pub(crate) fn client(options: &Options) -> Result<()> {
    let yard = Yard::start(options)?;
    for _ in 0..MOST_ATTEMPTS {
        match yard.call()? {
            Outcome::Done => return Ok(()),
            Outcome::SignIn => yard.sign_in()?,
            Outcome::Connecting => std::thread::sleep(PAUSE),
        }
    }
    bail!("no call succeeded in {MOST_ATTEMPTS} attempts")
}

enum Outcome {
    Done,
    SignIn,
    Connecting,
}

/// A gateway with its config and a home of its own.
struct Yard<'a> {
    options: &'a Options,
    folder: TempDir,
    _gateway: Background,
}

impl<'a> Yard<'a> {
    fn start(options: &'a Options) -> Result<Self> {
        let folder = tempfile::tempdir().context("make a folder for the gateway")?;
        fs::write(folder.path().join("config.toml"), config(&options.url)?).context("write the config")?;
        let mut command = command(options, folder.path());
        command.args(["serve", "--listen", "127.0.0.1:0", "--no-apps", "--no-instances"]);
        let log = folder.path().join("gateway.log");
        let (gateway, _) = Background::serve("the gateway", &mut command, &log)?;
        Ok(Self { options, folder, _gateway: gateway })
    }

    fn command(&self) -> Command {
        command(self.options, self.folder.path())
    }

    /// Lists the tools of the server and calls the first one.
    fn call(&self) -> Result<Outcome> {
        let listed = process::capture(self.command().args(["tools", "list", "--upstream", "up", "--json"]))?;
        let tools: Vec<Value> = serde_json::from_slice(&listed.stdout).context("read the list of tools")?;
        let Some(name) = tools.first().and_then(|tool| tool["name"].as_str()) else {
            return self.why_empty();
        };
        let called = process::capture(self.command().args(["tools", "call", name, "--json"]))?;
        if called.status.success() {
            return Ok(Outcome::Done);
        }
        // A failed tool result is printed on stdout, an error of the protocol on stderr.
        let why =
            [called.stdout, called.stderr].map(|part| String::from_utf8_lossy(&part).into_owned()).concat();
        if why.contains("run `toolyard login up`") {
            return Ok(Outcome::SignIn);
        }
        bail!("the call failed: {why}")
    }

    fn why_empty(&self) -> Result<Outcome> {
        let listed = process::capture(self.command().args(["list", "--json"]))?;
        let servers: Value = serde_json::from_slice(&listed.stdout).context("read the list of servers")?;
        let state = &servers[0]["live"];
        // A server that was just lost is still shown as `retrying`, with the same hint.
        if state["hint"].as_str().is_some_and(|hint| hint.contains("toolyard login up")) {
            return Ok(Outcome::SignIn);
        }
        // It was connecting while the tools were listed.
        if ["active", "connecting", "discovered"].iter().any(|phase| state["state"] == *phase) {
            return Ok(Outcome::Connecting);
        }
        bail!("the server has no tools: {state}")
    }

    /// `toolyard login`, with the address that it prints followed as a browser would.
    fn sign_in(&self) -> Result<()> {
        let mut command = self.command();
        command.args(["login", "up", "--no-browser"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut login = command.spawn().context("start `toolyard login`")?;
        let mut address = String::new();
        if let Some(stdout) = login.stdout.take() {
            BufReader::new(stdout).read_line(&mut address).context("read the address")?;
        }
        let browsed = if address.is_empty() { Ok(()) } else { browse(address.trim()) };
        if browsed.is_err() {
            login.kill().context("stop `toolyard login`")?;
        }
        let status = login.wait().context("wait for `toolyard login`")?;
        browsed?;
        if !status.success() {
            bail!("the sign-in failed");
        }
        Ok(())
    }
}

fn command(options: &Options, folder: &Path) -> Command {
    let mut command = Command::new(&options.program);
    command.arg("--config").arg(folder.join("config.toml"));
    command.env("HOME", folder).env("XDG_STATE_HOME", folder.join("state")).env("XDG_RUNTIME_DIR", folder);
    command
}

/// What the scenario wants of the client is in the environment.
fn config(url: &str) -> Result<String> {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: BTreeMap<String, Value> = if context.is_empty() {
        BTreeMap::new()
    } else {
        serde_json::from_str(&context).context("read the context")?
    };
    let mut text = format!("[upstreams.up]\nurl = {}\n[upstreams.up.oauth]\n", toml_string(Path::new(url)));
    for key in ["client_id", "client_secret"] {
        if let Some(value) = context.get(key) {
            text.extend([key, " = ", &value.to_string(), "\n"]);
        }
    }
    if std::env::var("MCP_CONFORMANCE_SCENARIO").is_ok_and(|scenario| scenario == "auth/basic-cimd") {
        text.extend(["client_metadata_url = \"", CLIENT_DOCUMENT, "\"\n"]);
    }
    Ok(text)
}

/// Gets a page, following redirects.
fn browse(address: &str) -> Result<()> {
    let mut address = address.to_owned();
    for _ in 0..MOST_REDIRECTS {
        let Some(next) = get(&address)? else { return Ok(()) };
        address = next;
    }
    bail!("more than {MOST_REDIRECTS} redirects")
}

/// The address that a page redirects to.
fn get(address: &str) -> Result<Option<String>> {
    let rest =
        address.strip_prefix("http://").with_context(|| format!("`{address}` is not an http:// address"))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host).with_context(|| format!("connect to {host}"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).with_context(|| format!("read from {host}"))?;
    let location = answer.lines().take_while(|line| !line.is_empty()).find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
    });
    Ok(location)
}
