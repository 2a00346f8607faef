//! `cargo xtask metrics`: `promtool check metrics` accepts the metrics of the real gateway while it is under load, with
//! hostile names of tools, and names that clients invent add no series.
//!
//! Installs Debian's `prometheus`, which brings `promtool`, if it is missing.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::step::step;
use crate::workspace::Profile;
use crate::{tools, workspace};

/// How many names each client invents.
const INVENTED: usize = 2_000;
const CLIENTS: usize = 4;
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
    call(&gateway.address, "/mcp", "notes__echo", &json!({ "text": "x" }))?;
    call(&gateway.address, "/mcp/notes", HOSTILE, &json!({}))?;
    check(&promtool, &gateway.scrape()?)?;
    let before = series(&gateway.scrape()?);
    step("load with invented names", || load(&gateway, &promtool))?;
    let text = gateway.scrape()?;
    check(&promtool, &text)?;
    ensure!(text.contains("toolyard_tool_duration_seconds"), "there are no durations by tool");
    ensure!(text.contains("onerror"), "the hostile name has no series");
    ensure!(!text.contains("invented"), "an invented name is in the metrics");
    let more = series(&text).saturating_sub(before);
    // Kinds of errors that had not happened before: each is a histogram, of a closed list.
    ensure!(more <= 64, "{more} series were added by {} invented names", 2 * CLIENTS * INVENTED);
    println!("{} series, {more} more than before {} invented names", series(&text), 2 * CLIENTS * INVENTED);
    Ok(())
}

fn series(text: &str) -> usize {
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).count()
}

/// Clients call tools that exist and tools that do not, in both kinds of views, while the metrics are read.
fn load(gateway: &Gateway, promtool: &Path) -> Result<()> {
    std::thread::scope(|scope| {
        let client = |number: usize| {
            let address = gateway.address.clone();
            move || -> Result<()> {
                for at in 0..INVENTED {
                    let name = format!("invented_{number}_{at}\\\"{{}}");
                    call(&address, "/mcp", &format!("notes__{name}"), &json!({}))?;
                    call(&address, "/mcp/notes", &name, &json!({}))?;
                    if at % 10 == 0 {
                        call(&address, "/mcp", "notes__echo", &json!({ "text": "x" }))?;
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

/// Calls a tool, as a client of 2026-07-28 does; whether it succeeds does not matter.
fn call(address: &str, path: &str, tool: &str, arguments: &Value) -> Result<()> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n\
         mcp-name: {tool}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    exchange(address, &(head + &body)).map(|_| ())
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
