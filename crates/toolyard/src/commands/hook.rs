//! `toolyard hook POINT`: runs the hooks of the gateway for a client that has hooks of its own, such as Claude Code. The
//! client's JSON comes on stdin; exit status 0 passes, 1 passes with notes, 2 blocks. Without a gateway it passes.

use std::io::Read;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::{Map, Value, json};
use toolyard_hooks::Point;

use super::live;
use super::manage::{self, Address};
use crate::cli::Common;
use crate::failure::Failure;
use crate::{say, settings};

/// The longest input that is read.
const LARGEST: u64 = 16 * 1024 * 1024;

#[derive(Debug, Args)]
#[command(after_help = "\
The client's JSON comes on stdin. Exit status 0 passes, and stdout has what the hooks changed, if anything; 1 passes
with notes on stderr; 2 blocks with the reason on stderr. Without a running gateway everything passes.")]
pub(crate) struct HookArgs {
    /// The event.
    #[arg(value_parser = PossibleValuesParser::new(Point::ALL.map(|(name, _)| name)))]
    point: String,
}

pub(super) fn hook(common: &Common, args: &HookArgs) -> Result<(), Failure> {
    let mut input = String::new();
    std::io::stdin().take(LARGEST).read_to_string(&mut input)?;
    let input: Map<String, Value> = serde_json::from_str(input.trim()).unwrap_or_default();
    let (_, _, running) = settings::look_for_gateway(common);
    let Some(socket) = running.and_then(|running| running.socket) else { return Ok(()) };
    let path = format!("/hooks/{}", args.point);
    // A client must keep working even if its gateway does not.
    let event = event(&input);
    let asked = live::block_on(manage::control(&Address::Socket(&socket), &path, Some(&event)));
    let Ok(Ok(outcome)) = asked else { return Ok(()) };
    report(&input, &outcome)
}

/// Maps the names of clients to ours.
fn event(input: &Map<String, Value>) -> Value {
    let mut data = Map::new();
    let names = [
        ("tool_input", "arguments"),
        ("prompt", "prompt"),
        ("session_id", "session"),
        ("cwd", "project"),
        ("message", "message"),
        ("transcript_path", "transcriptPath"),
        ("todos", "todos"),
    ];
    for (theirs, ours) in names {
        if let Some(value) = input.get(theirs) {
            data.insert(ours.to_owned(), value.clone());
        }
    }
    if let Some(response) = input.get("tool_response") {
        data.insert("result".to_owned(), as_result(response));
    }
    let subject = input.get("tool_name").or(input.get("model"));
    json!({ "subject": subject, "data": data })
}

/// A result has content; anything else is treated as its text.
fn as_result(response: &Value) -> Value {
    if response["content"].is_array() {
        return response.clone();
    }
    let text = response.as_str().map_or_else(|| response.to_string(), str::to_owned);
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn report(input: &Map<String, Value>, outcome: &Value) -> Result<(), Failure> {
    let named = |one: &Value, key: &str| {
        let text = |key: &str| one[key].as_str().unwrap_or_default();
        format!("[{}] {}", text("hook"), text(key))
    };
    let is_blocked = outcome["blocked"].is_object();
    if is_blocked {
        say::line(named(&outcome["blocked"], "reason"));
    }
    if let Some(change) = outcome["change"].as_object().filter(|change| !change.is_empty() && !is_blocked) {
        say::result(output(input, change));
    }
    let notes = outcome["notes"].as_array().map(Vec::as_slice).unwrap_or_default();
    for note in notes {
        say::line(named(note, "text"));
    }
    match (is_blocked, notes.is_empty()) {
        (false, true) => Ok(()),
        (is_blocked, _) => Err(Failure::AlreadyReported(if is_blocked { 2 } else { 1 })),
    }
}

/// The output in the form that Claude Code reads, if it is the client.
fn output(input: &Map<String, Value>, change: &Map<String, Value>) -> Value {
    let event = input.get("hook_event_name").and_then(Value::as_str).unwrap_or_default();
    match event {
        "PreToolUse" if change.contains_key("arguments") => json!({
            "hookSpecificOutput": { "hookEventName": event, "updatedInput": change["arguments"] },
        }),
        "UserPromptSubmit" | "SessionStart" if change.contains_key("prompt") => json!({
            "hookSpecificOutput": { "hookEventName": event, "additionalContext": change["prompt"] },
        }),
        _ => json!({ "change": change }),
    }
}
