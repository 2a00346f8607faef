//! How long the gateway takes from its start to its first answered `tools/list`, and what it needs idle.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::contestant::Programs;
use super::rounds::median;
use super::usage::{self, Memory};
use crate::process::Background;

const STARTS: usize = 5;
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
const REVISION: &str = "2026-07-28";

pub(super) struct Starts {
    /// Median milliseconds to the first answered list, with the built-in tools only.
    pub(super) milliseconds: f64,
    /// After that list.
    pub(super) memory: Memory,
}

/// Nothing if there is no gateway to start yet.
pub(super) fn measure(programs: &Programs, logs: &Path) -> Result<Option<Starts>> {
    let mut milliseconds = Vec::new();
    let mut memory = Memory::default();
    for _ in 0..STARTS {
        let folder = tempfile::tempdir().context("make a folder for the gateway")?;
        let mut command = programs.gateway(folder.path(), None)?;
        let begin = Instant::now();
        let (gateway, origin) = match Background::serve("toolyard", &mut command, &logs.join("start.log")) {
            Ok(started) => started,
            Err(error) => {
                eprintln!("warning: the start of toolyard is not measured: {error:#}");
                return Ok(None);
            }
        };
        first_list(origin.trim_start_matches("http://"))?;
        milliseconds.push(begin.elapsed().as_secs_f64() * 1000.0);
        memory = usage::memory(gateway.id());
    }
    Ok(median(&milliseconds).map(|milliseconds| Starts { milliseconds, memory }))
}

/// One `tools/list` by hand, so that no other program's start is measured with it.
fn first_list(authority: &str) -> Result<()> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": {
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientCapabilities": {},
    }}})
    .to_string();
    let mut stream = TcpStream::connect(authority).context("connect to the gateway")?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {REVISION}\r\n\
         Mcp-Method: tools/list\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("read the first list")?;
    if !answer.starts_with("HTTP/1.1 200") || !answer.contains("\"tools\":[") {
        bail!("the gateway's first `tools/list` was answered with: {answer}");
    }
    Ok(())
}
