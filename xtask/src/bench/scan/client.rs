//! A client of the pack: one message a line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

const ANSWER_LIMIT: Duration = Duration::from_mins(5);

pub(super) struct Client {
    read: BufReader<TcpStream>,
    write: TcpStream,
    sent: u64,
}

impl Client {
    pub(super) fn connect(address: &str) -> Result<Self> {
        let write = TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
        write.set_read_timeout(Some(ANSWER_LIMIT))?;
        let mut client = Self { read: BufReader::new(write.try_clone()?), write, sent: 0 };
        let about = json!({ "name": "bench", "version": "1" });
        client.request(
            "initialize",
            &json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about }),
        )?;
        Ok(client)
    }

    /// All pages of a scan, which together must have seen so many files.
    pub(super) fn pages(&mut self, tool: &str, mut arguments: Value, files: usize) -> Result<()> {
        let mut seen = 0;
        loop {
            let result = self.request("tools/call", &json!({ "name": tool, "arguments": arguments }))?;
            let page = &result["structuredContent"];
            seen += match page["files"].as_array() {
                Some(files) => files.len(),
                None => usize::try_from(page["files_scanned"].as_u64().with_context(|| result.to_string())?)?,
            };
            if page["next_cursor"].is_null() {
                ensure!(seen == files, "{tool} has seen {seen} files of {files}");
                return Ok(());
            }
            arguments["cursor"] = page["next_cursor"].clone();
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.sent += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.sent, "method": method, "params": params });
        writeln!(self.write, "{request}")?;
        loop {
            let mut line = String::new();
            ensure!(self.read.read_line(&mut line)? > 0, "the pack left");
            let mut message: Value = serde_json::from_str(&line)?;
            if message["id"] != self.sent {
                continue;
            }
            if !message["error"].is_null() || message["result"]["isError"] == true {
                bail!("{method} {params}: {message}");
            }
            return Ok(message["result"].take());
        }
    }
}
