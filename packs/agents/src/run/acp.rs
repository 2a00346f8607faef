//! Agents that speak the Agent Client Protocol: JSON-RPC, one message per line. We open a session, send the prompt,
//! show what comes, and put the agent's questions for permission to the owner of the run.

use std::path::Path;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use toolyard_tool::host::Delegation;

use super::lines::{MOST_TEXT, read_line};
use super::{Job, Report, write};
use crate::command::split;
use crate::config::Program;
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
    report: &Mutex<Report>,
) {
    let mut talk = Talk {
        job,
        stdin,
        reader: BufReader::new(stdout),
        buffer: Vec::new(),
        output,
        next_id: 1,
        report,
        line: String::new(),
    };
    if let Err(error) = talk.whole(folder).await {
        report.lock().error = Some(error);
    }
    talk.end_line();
}

struct Talk<'a, W, R> {
    job: &'a Job,
    stdin: W,
    reader: BufReader<R>,
    /// The last line that was read.
    buffer: Vec<u8>,
    output: &'a Mutex<Output>,
    next_id: u64,
    report: &'a Mutex<Report>,
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
        self.choose_model(&session, &opened).await?;
        let prompt = json!([{ "type": "text", "text": self.job.prompt() }]);
        let ended = self.request("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await?;
        self.report.lock().add_usage(&ended);
        match ended["stopReason"].as_str() {
            Some("end_turn") | None => Ok(()),
            Some(reason) => Err(format!("the agent stopped: {reason}")),
        }
    }

    /// Sets the model of a program that has no option for it.
    async fn choose_model(&mut self, session: &str, opened: &Value) -> Result<(), String> {
        let of = &self.job.of;
        let wanted = self.job.run.model.clone().filter(|_| of.program == Program::Acp && !of.places_model());
        let Some(model) = wanted else { return Ok(()) };
        let options = opened["configOptions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let option = options.iter().find(|option| option["category"] == "model");
        if let Some(option) = option {
            let chosen = json!({ "sessionId": session, "configId": option["id"], "value": model });
            self.request("session/set_config_option", chosen).await?;
        } else if opened["models"].is_object() {
            self.request("session/set_model", json!({ "sessionId": session, "modelId": model })).await?;
        } else {
            return Err(format!("the agent lets its client choose no model: leave `{model}` out"));
        }
        Ok(())
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
                let mut report = self.report.lock();
                if report.text.len() + text.len() <= MOST_TEXT {
                    report.text.push_str(text);
                }
                drop(report);
                self.line.push_str(text);
                if self.line.len() > MOST_SHOWN && !self.line.contains('\n') {
                    self.end_line();
                }
                while let Some((line, rest)) = self.line.split_once('\n') {
                    write(self.output, line);
                    self.line = rest.to_owned();
                }
            }
            // The cost of the whole session so far.
            "usage_update"
                if update["cost"]["currency"].as_str().is_none_or(|currency| currency == "USD") =>
            {
                let cost = update["cost"]["amount"].as_f64();
                let mut report = self.report.lock();
                report.cost = cost.or(report.cost);
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

    /// What the owner decides: the option of the agent that allows it once, or one that does not. The owner is asked for
    /// this one time only, so an option that would last is never chosen to allow it.
    async fn permission(&mut self, params: &Value) -> Value {
        let title = params["toolCall"]["title"].as_str().unwrap_or("a tool");
        let kind = params["toolCall"]["kind"].as_str().unwrap_or("other");
        let text = format!(
            "The agent {} ({}) asks to run: {title} ({kind})",
            self.job.run.id, self.job.run.agent_type
        );
        write(self.output, &format!("[asks] {title}"));
        let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let of_kind = |kind: &str| options.iter().find(|option| option["kind"] == kind);
        let once = of_kind("allow_once");
        if once.is_none() {
            write(self.output, &format!("[rejected] {title}: the agent offers no permission for one time"));
        }
        let allowed = match once {
            Some(once) => self.job.ask(text).await.then_some(once),
            None => None,
        };
        match allowed.or_else(|| of_kind("reject_once")).or_else(|| of_kind("reject_always")) {
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
