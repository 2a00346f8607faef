//! The messages of an app, read from lines; and the answer to a registration.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{MOST_PARTIAL, RefusedTool, VERSION};
use crate::Raw;
use crate::splice::elements;
use crate::token::is_nonce;

/// One message of an app.
#[derive(Debug, Clone, PartialEq)]
pub enum AppMessage {
    Register(Register),
    Response(ToolResponse),
    /// Its tools have changed to these.
    ToolsChanged(Vec<Raw>),
    Progress(Progress),
    Partial(Partial),
    /// An app that the gateway connected to requires proof that the gateway knows the shared secret.
    Challenge(String),
    /// A question, or the answer to one of ours.
    Heartbeat {
        is_answer: bool,
    },
    Unregister,
    /// A JSON-RPC message with this method, which does not belong here.
    JsonRpc(String),
    /// A message of an unknown type; ignored after the registration.
    Unknown(String),
}

/// `register`: its name and its tools.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Register {
    pub app: String,
    pub tools: Vec<Raw>,
    pub auth_token: Option<String>,
    /// From an earlier `registered`, if the app reconnects.
    pub session: Option<String>,
    /// The version of our additions that it knows; without one, the app may know none of them.
    pub version: Option<u32>,
    /// Its process.
    pub pid: Option<u32>,
}

/// `toolResponse`.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResponse {
    pub id: i64,
    pub result: Option<Raw>,
}

/// `progress` of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub id: i64,
    pub progress: Raw,
    pub total: Option<Raw>,
    pub message: Option<Raw>,
}

/// `toolPartial`: a part of the result of a call that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Partial {
    pub id: i64,
    /// MCP content blocks.
    pub content: Raw,
}

/// Why a line is not a valid message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misread {
    #[error("a line is not JSON: {0}")]
    NotJson(String),
    #[error("a message must be a JSON object")]
    NotAnObject,
    #[error("`{kind}` needs `{member}`: {expected}")]
    Member { kind: &'static str, member: &'static str, expected: &'static str },
}

impl AppMessage {
    pub fn parse(line: &Bytes) -> Result<Self, Misread> {
        let message = Raw::parse(line.clone()).map_err(|error| Misread::NotJson(error.to_string()))?;
        if !message.is_object() {
            return Err(Misread::NotAnObject);
        }
        let kind = message.member("type").and_then(|kind| kind.as_string());
        match kind.as_deref() {
            Some("register") => read_register(&message).map(Self::Register),
            Some("toolResponse") => {
                let id = correlation("toolResponse", &message)?;
                Ok(Self::Response(ToolResponse { id, result: message.member("result") }))
            }
            Some("toolsChanged") => read_tools("toolsChanged", &message).map(Self::ToolsChanged),
            Some("progress") => read_progress(&message).map(Self::Progress),
            Some("toolPartial") => read_partial(&message).map(Self::Partial),
            Some("challenge") => read_challenge(&message).map(Self::Challenge),
            Some("heartbeat") => {
                let answer = message.member("answer").and_then(|answer| answer.read().ok());
                Ok(Self::Heartbeat { is_answer: answer.unwrap_or(false) })
            }
            Some("unregister") => Ok(Self::Unregister),
            _ => Ok(match message.member("jsonrpc").and(message.member("method")) {
                Some(method) => Self::JsonRpc(method.as_string().unwrap_or_default()),
                None => Self::Unknown(kind.unwrap_or_default()),
            }),
        }
    }
}

fn read_register(message: &Raw) -> Result<Register, Misread> {
    let kind = "register";
    let name = text(message, "appName").or_else(|| text(message, "appId"));
    let expected = "the name of the app, such as \"WatchTower\"";
    Ok(Register {
        app: name.ok_or(Misread::Member { kind, member: "appName", expected })?,
        tools: read_tools(kind, message)?,
        auth_token: text(message, "authToken"),
        session: text(message, "sessionId"),
        version: message.member("version").and_then(|version| version.read().ok()),
        pid: message.member("pid").and_then(|pid| pid.read().ok()),
    })
}

fn text(message: &Raw, key: &str) -> Option<String> {
    message.member(key)?.as_string()
}

/// Empty if there are none.
fn read_tools(kind: &'static str, message: &Raw) -> Result<Vec<Raw>, Misread> {
    let Some(tools) = message.member("tools").filter(|tools| !tools.is_null()) else {
        return Ok(Vec::new());
    };
    if tools.as_bytes().first() != Some(&b'[') {
        return Err(Misread::Member { kind, member: "tools", expected: "an array of tools" });
    }
    Ok(elements(tools.as_bytes()).map(|range| tools.slice(range)).collect())
}

fn correlation(kind: &'static str, message: &Raw) -> Result<i64, Misread> {
    let id = message.member("correlationId").and_then(|id| id.read().ok());
    let expected = "the whole number of the `toolInvocation`";
    id.ok_or(Misread::Member { kind, member: "correlationId", expected })
}

/// `content` is an array of content blocks, or a text, which becomes one.
fn read_partial(message: &Raw) -> Result<Partial, Misread> {
    let kind = "toolPartial";
    let id = correlation(kind, message)?;
    let wrong = |expected| Misread::Member { kind, member: "content", expected };
    let content = message.member("content").ok_or(wrong("an array of content blocks, or a text"))?;
    let content = match content.text() {
        Some(text) => json!([{ "type": "text", "text": text }]).into(),
        None if content.as_bytes().starts_with(b"[") => content,
        None => return Err(wrong("an array of content blocks, or a text")),
    };
    if content.len() > MOST_PARTIAL {
        return Err(wrong("at most 64 KiB"));
    }
    Ok(Partial { id, content })
}

fn read_challenge(message: &Raw) -> Result<String, Misread> {
    let (member, expected) = ("nonce", "32 to 128 hexadecimal digits");
    let nonce = text(message, member).filter(|nonce| is_nonce(nonce));
    nonce.ok_or(Misread::Member { kind: "challenge", member, expected })
}

fn read_progress(message: &Raw) -> Result<Progress, Misread> {
    let number = |key: &str| message.member(key).filter(|value| value.read::<f64>().is_ok());
    let expected = "a number that grows";
    Ok(Progress {
        id: correlation("progress", message)?,
        progress: number("progress").ok_or(Misread::Member {
            kind: "progress",
            member: "progress",
            expected,
        })?,
        total: number("total"),
        message: message.member("message").filter(|message| message.text().is_some()),
    })
}

/// `registered`: the app is accepted, with these tools and without those.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registered {
    pub app_id: String,
    /// To be presented when the app reconnects.
    pub session_id: String,
    pub version: u32,
    /// The canonical ids of the tools that are offered.
    pub tools: Vec<String>,
    pub refused: Vec<RefusedTool>,
}

impl Registered {
    pub fn new(app_id: &str, session_id: &str, tools: Vec<String>, refused: Vec<RefusedTool>) -> Self {
        Self {
            app_id: app_id.to_owned(),
            session_id: session_id.to_owned(),
            version: VERSION,
            tools,
            refused,
        }
    }

    /// Its line.
    pub fn render(&self) -> Bytes {
        let body = Raw::from_serialize(self);
        let mut line = br#"{"type":"registered","#.to_vec();
        line.extend_from_slice(&body.as_bytes()[1..]);
        Bytes::from(line)
    }
}
