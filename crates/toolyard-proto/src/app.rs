//! The app protocol: how a running app offers its tools and is called. One JSON object per line, distinguished by
//! `type`. The first three messages (`register`, `toolInvocation`, `toolResponse`) are those that existing apps
//! speak; the others are additions that an app may ignore. `docs/guide/app-protocol.md` describes it in full.

mod check;
mod message;
mod result;

pub use check::{Offered, RefusedTool, check_tools};
pub use message::{AppMessage, Misread, Partial, Progress, Register, Registered, ToolResponse};
pub use result::{missing_result, to_tool_result, wrap_plain_result};

use bytes::Bytes;
use serde_json::json;

use crate::Raw;

/// The version of the additions that we support.
pub const VERSION: u32 = 1;

/// The largest content of a `toolPartial`, in bytes.
pub const MOST_PARTIAL: usize = 64 * 1024;

/// The key in the `_meta` of a progress notification under which a partial result is sent: an array of content
/// blocks.
pub const PARTIAL: &str = "dev.toolyard/partial";
/// The key in the `_meta` of a tool that can be called and is found by search, but is not listed.
pub const UNLISTED: &str = "dev.toolyard/unlisted";

/// `toolInvocation`: a call. `tool` is the name that the app gave, in JSON; `parameters` are the arguments as
/// the client sent them.
pub fn invocation(id: i64, tool: &Raw, parameters: Option<&Raw>) -> Bytes {
    let parameters = parameters.map_or(&b"null"[..], Raw::as_bytes);
    let mut line = Vec::with_capacity(tool.len() + parameters.len() + 80);
    line.extend_from_slice(br#"{"type":"toolInvocation","correlationId":"#);
    line.extend_from_slice(id.to_string().as_bytes());
    line.extend_from_slice(br#","tool":"#);
    line.extend_from_slice(tool.as_bytes());
    line.extend_from_slice(br#","parameters":"#);
    line.extend_from_slice(parameters);
    line.push(b'}');
    Bytes::from(line)
}

/// `cancel`: this call was cancelled.
pub fn cancel(id: i64, reason: &str) -> Bytes {
    render(&json!({ "type": "cancel", "correlationId": id, "reason": reason }))
}

/// `refused`: why the app is not registered, and what to do about it.
pub fn refused(reason: &str, guidance: &str) -> Bytes {
    render(&json!({ "type": "refused", "version": VERSION, "reason": reason, "guidance": guidance }))
}

/// `ignored`: a message before the registration had no effect, and what to send instead.
pub fn ignored(reason: &str, guidance: &str) -> Bytes {
    render(&json!({ "type": "ignored", "version": VERSION, "reason": reason, "guidance": guidance }))
}

/// `challenge`: an app that the gateway connected to asks for proof that the gateway knows the shared secret.
pub fn challenge(nonce: &str) -> Bytes {
    render(&json!({ "type": "challenge", "version": VERSION, "nonce": nonce }))
}

/// `proof`: the answer to a challenge, one for each secret that is valid now.
pub fn proof(proofs: &[String]) -> Bytes {
    render(&json!({ "type": "proof", "proofs": proofs }))
}

/// `heartbeat`: asks whether the other side is there.
pub fn heartbeat() -> Bytes {
    Bytes::from_static(br#"{"type":"heartbeat"}"#)
}

/// The answer to a heartbeat. It is marked as an answer; otherwise two sides that answer everything would never stop.
pub fn heartbeat_answer() -> Bytes {
    Bytes::from_static(br#"{"type":"heartbeat","answer":true}"#)
}

fn render(value: &serde_json::Value) -> Bytes {
    Raw::from_serialize(value).into_bytes()
}

#[cfg(test)]
mod tests;
