//! A server with a fault, the one that its name states, over every transport and in either era. It writes bytes
//! itself, since no honest library would send these.
//!
//! Its tool is called `go`. With `{"calm": true}` it answers as it should, whatever its name.

mod lines;
mod web;

use std::time::Duration;

use serde_json::{Value, json};

pub use lines::serve_stdio;
pub use lines::{serve_tcp, serve_unix};
pub use web::{Web, serve_web};

/// More than any message may be.
const HUGE: usize = 100 * 1024 * 1024;
/// How long one reads nothing.
const DEAF: Duration = Duration::from_mins(10);
const FLOOD: usize = 10_000;
const NESTED: usize = 100_000;

#[derive(Clone, Debug)]
pub struct Rogue {
    pub fault: String,
    pub modern: bool,
}

/// The channel back to the caller.
pub(crate) trait Out {
    /// One message, in the frame of the transport.
    fn say(&mut self, message: &[u8]);
    /// The beginning of one that never ends.
    fn begin(&mut self, part: &[u8]);
    fn hang_up(&mut self);
}

impl Rogue {
    /// Takes one message. Anything but a request gets no answer.
    pub(crate) fn take(&self, message: &Value, out: &mut dyn Out) {
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else { return };
        match method {
            "initialize" => say(out, id, &legacy_greeting()),
            "server/discover" if self.modern => say(out, id, &modern_greeting()),
            "subscriptions/listen" if self.modern => acknowledge(out, id),
            "tools/list" => say(out, id, &self.result(json!({ "tools": [tool()] }))),
            "resources/list" => say(out, id, &self.result(json!({ "resources": [] }))),
            "resources/templates/list" => say(out, id, &self.result(json!({ "resourceTemplates": [] }))),
            "tools/call" if message["params"]["arguments"]["calm"] == true => self.well(out, id),
            "tools/call" => self.go(out, id),
            _ => out.say(error(id).as_bytes()),
        }
    }

    fn well(&self, out: &mut dyn Out, id: &Value) {
        say(out, id, &self.text("well"));
    }

    fn text(&self, text: &str) -> Value {
        self.result(json!({ "content": [{ "type": "text", "text": text }] }))
    }

    fn result(&self, mut result: Value) -> Value {
        if self.modern {
            result["resultType"] = "complete".into();
            result["ttlMs"] = 0.into();
            result["cacheScope"] = "private".into();
        }
        result
    }

    fn go(&self, out: &mut dyn Out, id: &Value) {
        let answer = answer(id, &self.text("well")).into_bytes();
        match self.fault.as_str() {
            "half" => {
                out.begin(&answer[..answer.len() / 2]);
                out.hang_up();
            }
            "closes" => out.hang_up(),
            "dies" => std::process::abort(),
            "hangs" => {}
            "deaf" => std::thread::sleep(DEAF),
            "late" => {
                std::thread::sleep(Duration::from_millis(500));
                out.say(&answer);
            }
            "slow" => trickle(out, &answer),
            fault => {
                for message in messages(fault, id, answer) {
                    out.say(&message);
                }
            }
        }
    }
}

/// What is sent instead of one good answer, or around it.
fn messages(fault: &str, id: &Value, answer: Vec<u8>) -> Vec<Vec<u8>> {
    let text = |text: &str| String::from_utf8_lossy(&answer).replace("well", text).into_bytes();
    match fault {
        "garbage" => vec![b"what?".to_vec(), br#"{"jsonrpc":"2.0","id":"#.to_vec(), answer],
        "utf8" => vec![text("X").into_iter().map(|byte| if byte == b'X' { 0xff } else { byte }).collect()],
        "huge" => vec![text(&"x".repeat(HUGE))],
        "deep" => {
            let deep = format!("{}{}", "[".repeat(NESTED), "]".repeat(NESTED));
            vec![
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"deep":{deep}}}}}"#)
                    .into_bytes(),
            ]
        }
        "twice" => vec![answer.clone(), text("again")],
        "unknown" => {
            let other = crate::rogue::answer(&json!(987_654_321), &json!({ "content": [] }));
            vec![other.into_bytes(), answer]
        }
        "both" => vec![
            String::from_utf8_lossy(&answer)
                .replacen('{', r#"{"error":{"code":1,"message":"no"},"#, 1)
                .into(),
        ],
        "flood" => {
            let log = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "flood" } });
            let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
            let pair = [log.to_string().into_bytes(), changed.to_string().into_bytes()];
            let mut flood: Vec<Vec<u8>> = pair.iter().cycle().take(FLOOD).cloned().collect();
            flood.push(answer);
            flood
        }
        _ => vec![answer],
    }
}

/// A good answer, a few bytes at a time.
fn trickle(out: &mut dyn Out, answer: &[u8]) {
    let (last, first) = (&answer[answer.len() - 8..], &answer[..answer.len() - 8]);
    for part in first.chunks(8) {
        out.begin(part);
        std::thread::sleep(Duration::from_millis(5));
    }
    out.say(last);
}

fn say(out: &mut dyn Out, id: &Value, result: &Value) {
    out.say(answer(id, result).as_bytes());
}

fn answer(id: &Value, result: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn error(id: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no such method"}}}}"#)
}

fn acknowledge(out: &mut dyn Out, id: &Value) {
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
    let params = json!({ "notifications": {}, "_meta": meta });
    let method = "notifications/subscriptions/acknowledged";
    out.say(json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string().as_bytes());
}

fn tool() -> Value {
    json!({ "name": "go", "inputSchema": { "type": "object" } })
}

fn capabilities() -> Value {
    // Where there are resources, answers are looked through for URIs.
    json!({ "tools": { "listChanged": true }, "resources": {}, "logging": {} })
}

fn legacy_greeting() -> Value {
    json!({
        "protocolVersion": "2025-11-25", "capabilities": capabilities(),
        "serverInfo": { "name": "rogue", "version": "1" },
    })
}

fn modern_greeting() -> Value {
    let info = json!({ "name": "rogue", "version": "1" });
    json!({
        "supportedVersions": ["2026-07-28"], "capabilities": capabilities(), "resultType": "complete",
        "ttlMs": 0, "cacheScope": "private", "_meta": { "io.modelcontextprotocol/serverInfo": info },
    })
}
