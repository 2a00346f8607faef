//! `cargo xtask metrics`: `promtool check metrics` accepts the metrics of the real gateway while it is under load, with
//! hostile names of tools, and 100,000 names that clients invent add no series.
//!
//! Installs Debian's `prometheus`, which brings `promtool`, if it is missing.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::step::step;
use crate::workspace::Profile;
use crate::{tools, workspace};

/// How many names each client invents, in each of two views: 100,000 in all.
const INVENTED: usize = 12_500;
const CLIENTS: usize = 4;
/// How many of the first names are called before the series are counted, so that each kind of error has happened.
const FIRST: usize = 2;
const HOSTILE: &str = "<img src=x onerror=alert(1)>";

pub(crate) fn metrics() -> Result<()> {
    let promtool = step("install promtool", || tools::debian_package("promtool", "prometheus"))?;
    let toolyard = workspace::build("toolyard", Profile::Dev)?.join("toolyard");
    let folder = tempfile::tempdir().context("make a folder")?;
    let server = workspace::root().join("xtask/ui/server.mjs");
    let config = format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\n\n[metrics]\ntools = true\n\n[audit]\n\n[upstreams.notes]\ncommand = \"node\"\nargs = [{:?}]\n",
        server.display().to_string()
    );
    fs::write(folder.path().join("config.toml"), config).context("write the config")?;
    let gateway = Gateway::start(&toolyard, folder.path())?;
    let mut client = Client::connect(&gateway.address)?;
    client.call("/mcp", "notes__echo", &json!({ "text": "x" }))?;
    client.call("/mcp/notes", HOSTILE, &json!({}))?;
    // The series of an error appear with the first error of its kind, and there is a closed list of kinds.
    for at in 0..FIRST {
        invent(&mut client, CLIENTS, at)?;
    }
    drop(client);
    let first = gateway.scrape()?;
    check(&promtool, &first)?;
    let before = series(&first);
    step("load with invented names", || load(&gateway, &promtool))?;
    let text = gateway.scrape()?;
    check(&promtool, &text)?;
    ensure!(text.contains("toolyard_tool_duration_seconds"), "there are no durations by tool");
    ensure!(text.contains("onerror"), "the hostile name has no series");
    ensure!(!text.contains("invented"), "an invented name is in the metrics");
    let after = series(&text);
    let added: Vec<_> = after.difference(&before).collect();
    let names = 2 * CLIENTS * INVENTED;
    ensure!(added.is_empty(), "{} series were added by {names} invented names: {added:?}", added.len());
    println!("{} series, before and after {names} invented names", after.len());
    Ok(())
}

/// The names and labels of all series.
fn series(text: &str) -> BTreeSet<&str> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| line.rsplit_once(' ')).map(|(name, _)| name).collect()
}

/// Calls a tool that does not exist, in both kinds of views.
fn invent(client: &mut Client, number: usize, at: usize) -> Result<()> {
    let name = format!("invented_{number}_{at}\\\"{{}}");
    client.call("/mcp", &format!("notes__{name}"), &json!({}))?;
    client.call("/mcp/notes", &name, &json!({}))
}

/// Clients call tools that exist and tools that do not, in both kinds of views, while the metrics are read.
fn load(gateway: &Gateway, promtool: &Path) -> Result<()> {
    std::thread::scope(|scope| {
        let client = |number: usize| {
            let address = gateway.address.clone();
            move || -> Result<()> {
                let mut client = Client::connect(&address)?;
                for at in 0..INVENTED {
                    invent(&mut client, number, at)?;
                    if at % 10 == 0 {
                        client.call("/mcp", "notes__echo", &json!({ "text": "x" }))?;
                    }
                }
                Ok(())
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(client(number))).collect();
        while clients.iter().any(|client| !client.is_finished()) {
            check(promtool, &gateway.scrape()?)?;
        }
        clients
            .into_iter()
            .try_for_each(|client| client.join().unwrap_or_else(|_| bail!("a client panicked")))
    })
}

fn check(promtool: &Path, text: &str) -> Result<()> {
    let mut command = Command::new(promtool);
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("start promtool")?;
    child.stdin.take().context("promtool has no stdin")?.write_all(text.as_bytes())?;
    let output = child.wait_with_output()?;
    let report =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "promtool rejects the metrics: {report}");
    Ok(())
}

/// A client of 2026-07-28 that keeps its connection.
struct Client {
    address: String,
    stream: BufReader<TcpStream>,
}

impl Client {
    fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).context("connect to the gateway")?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        stream.set_nodelay(true)?;
        Ok(Self { address: address.to_owned(), stream: BufReader::new(stream) })
    }

    /// Calls a tool; whether it succeeds does not matter.
    fn call(&mut self, path: &str, tool: &str, arguments: &Value) -> Result<()> {
        let address = &self.address;
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
             mcp-method: tools/call\r\nmcp-name: {tool}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.stream.get_mut().write_all((head + &body).as_bytes())?;
        self.skip_answer()
    }

    /// Reads an answer with a known length, so that the connection is ready for the next request.
    fn skip_answer(&mut self) -> Result<()> {
        let (mut head, mut length) = (String::new(), None);
        while !head.ends_with("\r\n\r\n") {
            let start = head.len();
            ensure!(self.stream.read_line(&mut head)? > 0, "the gateway closed the connection: {head}");
            let line = head[start..].to_ascii_lowercase();
            let value = line.strip_prefix("content-length:").map(str::trim);
            length = length.or(value.and_then(|value| value.parse().ok()));
        }
        let length: usize = length.with_context(|| format!("the answer has no length: {head}"))?;
        self.stream.read_exact(&mut vec![0; length]).context("read an answer")
    }
}

fn exchange(address: &str, request: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).context("connect to the gateway")?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// The program under test. It ends with this value.
struct Gateway {
    child: Child,
    address: String,
}

impl Gateway {
    fn start(toolyard: &Path, folder: &Path) -> Result<Self> {
        let mut command = Command::new(toolyard);
        command.args(["--config", "config.toml", "--state-dir", "state", "serve", "--no-apps"]);
        command.current_dir(folder).env("XDG_RUNTIME_DIR", folder).env("HOME", folder);
        let child =
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("start the gateway")?;
        let mut gateway = Self { child, address: String::new() };
        let (file, until) = (folder.join("state/gateway.json"), Instant::now() + Duration::from_mins(1));
        while gateway.address.is_empty() {
            ensure!(Instant::now() < until, "the gateway did not write `gateway.json`");
            let noted: Option<Value> =
                fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok());
            let http = noted.and_then(|noted| noted["http"].as_str().map(str::to_owned));
            http.unwrap_or_default().trim_start_matches("http://").clone_into(&mut gateway.address);
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(gateway)
    }

    fn scrape(&self) -> Result<String> {
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address);
        let text = exchange(&self.address, &request)?;
        let (head, body) = text.split_once("\r\n\r\n").context("no HTTP answer")?;
        ensure!(head.starts_with("HTTP/1.1 200") && !head.contains("chunked"), "an odd answer: {head}");
        Ok(body.to_owned())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
