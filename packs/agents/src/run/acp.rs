//! Agents that speak the Agent Client Protocol: JSON-RPC, one message per line. We open a session, send the prompt, show
//! what comes, and put the agent's questions for permission to the owner of the run.

use std::path::Path;
use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use toolyard_tool::host::Delegation;

use super::lines::{MOST_TEXT, read_line};
use super::{Job, Report, write};
use crate::command::split;
use crate::store::Output;

/// A longer line of text is shown in parts.
const MOST_SHOWN: usize = 64 << 10;

const VERSION: u32 = 1;
const METHOD_NOT_FOUND: i64 = -32601;

pub(super) async fn talk(
    job: &Job,
    folder: &Path,
    stdin: impl AsyncWrite + Unpin,
    stdout: impl AsyncRead + Unpin,
    output: &Mutex<Output>,
) -> Report {
    let mut talk = Talk {
        job,
        stdin,
        reader: BufReader::new(stdout),
        buffer: Vec::new(),
        output,
        next_id: 1,
        report: Report::default(),
        line: String::new(),
    };
    if let Err(error) = talk.whole(folder).await {
        talk.report.error = Some(error);
    }
    talk.end_line();
    talk.report
}

struct Talk<'a, W, R> {
    job: &'a Job,
    stdin: W,
    reader: BufReader<R>,
    /// The last line that was read.
    buffer: Vec<u8>,
    output: &'a Mutex<Output>,
    next_id: u64,
    report: Report,
    /// Text that has not ended its line yet.
    line: String,
}

impl<W: AsyncWrite + Unpin, R: AsyncRead + Unpin> Talk<'_, W, R> {
    async fn whole(&mut self, folder: &Path) -> Result<(), String> {
        let can = json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false });
        let about = json!({ "protocolVersion": VERSION, "clientCapabilities": can });
        self.request("initialize", about).await?;
        let servers: Vec<Value> = self
            .job
            .access
            .as_ref()
            .map(|access| {
                let (program, args) = split(access);
                let env = json!([{ "name": Delegation::VARIABLE, "value": access.token() }]);
                json!({ "name": "toolyard", "command": program, "args": args, "env": env })
            })
            .into_iter()
            .collect();
        let opened = self.request("session/new", json!({ "cwd": folder, "mcpServers": servers })).await?;
        let session = opened["sessionId"].as_str().ok_or("the agent opened no session")?.to_owned();
        let prompt = json!([{ "type": "text", "text": self.job.prompt() }]);
        let ended = self.request("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await?;
        match ended["stopReason"].as_str() {
            Some("end_turn") | None => Ok(()),
            Some(reason) => Err(format!("the agent stopped: {reason}")),
        }
    }

    /// Sends a request and serves the agent until its answer is there.
    async fn request(&mut self, method: &str, params: Value) -> Result<Value, String> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await?;
        loop {
            let read =
                read_line(&mut self.reader, &mut self.buffer).await.map_err(|error| error.to_string())?;
            if read == 0 {
                return Err(format!("the agent ended before it answered `{method}`"));
            }
            let Ok(mut message) = serde_json::from_slice::<Value>(&self.buffer) else { continue };
            if message.get("method").is_some() {
                self.serve(&message).await?;
            } else if message["id"] == id {
                return match message.get("error") {
                    Some(error) => Err(format!(
                        "`{method}` failed: {}",
                        error["message"].as_str().unwrap_or("no reason")
                    )),
                    None => Ok(message["result"].take()),
                };
            }
        }
    }

    async fn serve(&mut self, message: &Value) -> Result<(), String> {
        let method = message["method"].as_str().unwrap_or_default();
        if method == "session/update" {
            self.update(&message["params"]["update"]);
            return Ok(());
        }
        let Some(id) = message.get("id") else { return Ok(()) };
        let answer = if method == "session/request_permission" {
            let outcome = self.permission(&message["params"]).await;
            json!({ "jsonrpc": "2.0", "id": id, "result": { "outcome": outcome } })
        } else {
            let error = json!({ "code": METHOD_NOT_FOUND, "message": format!("method not found: {method}") });
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        };
        self.send(&answer).await
    }

    fn update(&mut self, update: &Value) {
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => {
                let text = update["content"]["text"].as_str().unwrap_or_default();
                if self.report.text.len() + text.len() <= MOST_TEXT {
                    self.report.text.push_str(text);
                }
                self.line.push_str(text);
                if self.line.len() > MOST_SHOWN && !self.line.contains('\n') {
                    self.end_line();
                }
                while let Some((line, rest)) = self.line.split_once('\n') {
                    write(self.output, line);
                    self.line = rest.to_owned();
                }
            }
            "tool_call" => {
                self.end_line();
                write(self.output, &format!("[{}]", update["title"].as_str().unwrap_or("tool")));
            }
            _ => {}
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            write(self.output, &line);
        }
    }

    /// What the owner decides: the option of the agent that allows it once, or one that does not.
    async fn permission(&mut self, params: &Value) -> Value {
        let title = params["toolCall"]["title"].as_str().unwrap_or("a tool");
        let kind = params["toolCall"]["kind"].as_str().unwrap_or("other");
        let text = format!(
            "The agent {} ({}) asks to run: {title} ({kind})",
            self.job.run.id, self.job.run.agent_type
        );
        write(self.output, &format!("[asks] {title}"));
        let wanted = if self.job.ask(text).await {
            ["allow_once", "allow_always"]
        } else {
            ["reject_once", "reject_always"]
        };
        let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let chosen = wanted.iter().find_map(|kind| options.iter().find(|option| option["kind"] == *kind));
        match chosen {
            Some(option) => json!({ "outcome": "selected", "optionId": option["optionId"] }),
            None => json!({ "outcome": "cancelled" }),
        }
    }

    async fn send(&mut self, message: &Value) -> Result<(), String> {
        let line = format!("{message}\n");
        let sent = async {
            self.stdin.write_all(line.as_bytes()).await?;
            self.stdin.flush().await
        };
        sent.await.map_err(|error: std::io::Error| format!("the agent does not read: {error}"))
    }
}
