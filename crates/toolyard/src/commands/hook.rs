//! `toolyard hook POINT`: runs the hooks of the gateway for a client that has hooks of its own, such as Claude Code. The
//! client's JSON comes on stdin; exit status 0 passes, 1 passes with notes, 2 blocks. Without a gateway it passes.

mod claude;
mod response;
mod transcript;

use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::{Map, Value, json};
use toolyard_config::Config;
use toolyard_hooks::{OnFailure, Point};
use toolyard_proto::visible;

use super::live;
use super::manage::{self, Address};
use crate::cli::Common;
use crate::failure::Failure;
use crate::{say, settings};

/// The longest input that is read.
const LARGEST: u64 = 16 * 1024 * 1024;
/// How long the gateway may take if this program cannot read its config. Claude Code waits no longer.
const LONGEST: Duration = Duration::from_mins(10);

#[derive(Debug, Args)]
#[command(after_help = "\
The client's JSON comes on stdin. Exit status 0 passes, and stdout has what the hooks changed, if anything; 1 passes
with notes on stderr; 2 blocks with the reason on stderr. If the JSON has `hook_event_name`, as that of Claude Code,
stdout has changes and notes in the form that Claude Code reads, with exit status 0. Without a running gateway
everything passes. If the gateway runs but does not answer, a hook with `on_failure = \"block\"` blocks.")]
pub(crate) struct HookArgs {
    /// The event.
    #[arg(value_parser = PossibleValuesParser::new(Point::ALL.map(|(name, _)| name)))]
    point: String,
}

pub(super) fn hook(common: &Common, args: &HookArgs) -> Result<(), Failure> {
    let mut input = String::new();
    std::io::stdin().take(LARGEST).read_to_string(&mut input)?;
    let input: Map<String, Value> = serde_json::from_str(input.trim()).unwrap_or_default();
    let (_, loaded, running) = settings::look_for_gateway(common);
    let Some(socket) = running.and_then(|running| running.socket) else { return Ok(()) };
    let configured = Configured::at(&args.point, loaded.config.as_ref());
    let (address, path) = (Address::Socket(&socket), format!("/hooks/{}", args.point));
    let event = event(&args.point, &input);
    let asked = manage::control_within(configured.patience, &address, &path, Some(&event));
    match live::block_on(asked).flatten() {
        Ok(outcome) => report(&input, &outcome),
        Err(error) if configured.must_run && !is_gone(&error) => {
            say::line(format_args!("the hooks did not run: {error:#}"));
            Err(Failure::AlreadyReported(2))
        }
        // A client must keep working even if its gateway does not.
        Err(_) => Ok(()),
    }
}

/// What the config sets for all hooks of a point together.
struct Configured {
    /// How long the gateway may take: the time of each hook, and of the gateway itself.
    patience: Duration,
    /// Whether a hook blocks if it fails.
    must_run: bool,
}

impl Configured {
    /// Without a config, any hook may be one that blocks: the gateway keeps the last valid config while the file has a
    /// mistake.
    fn at(point: &str, config: Option<&Config>) -> Self {
        let Some(config) = config else { return Self { patience: LONGEST, must_run: true } };
        let point = Point::parse(point);
        let mut found = Self { patience: manage::PATIENCE, must_run: false };
        for hook in config
            .hooks
            .iter()
            .filter(|hook| hook.is_on && point.is_some_and(|point| hook.plan.points.contains(&point)))
        {
            found.patience += hook.plan.timeout;
            found.must_run |= hook.plan.on_failure == OnFailure::Block;
        }
        found
    }
}

/// Whether the gateway has ended meanwhile.
fn is_gone(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(kind, Some(ErrorKind::ConnectionRefused | ErrorKind::NotFound))
}

/// Maps the names of clients to ours.
fn event(point: &str, input: &Map<String, Value>) -> Value {
    let mut data = Map::new();
    let names = [
        ("tool_input", "arguments"),
        ("prompt", "prompt"),
        ("session_id", "session"),
        ("agent_id", "agent"),
        ("cwd", "project"),
        ("message", "message"),
        ("transcript_path", "transcriptPath"),
        ("transcript", "transcript"),
        ("trigger", "trigger"),
        ("custom_instructions", "customInstructions"),
        ("todos", "todos"),
        ("stop_hook_active", "stopHookActive"),
        ("last_assistant_message", "text"),
        ("background_tasks", "backgroundTasks"),
    ];
    for (theirs, ours) in names {
        if let Some(value) = input.get(theirs) {
            data.insert(ours.to_owned(), value.clone());
        }
    }
    if let Some(response) = input.get("tool_response") {
        data.insert("result".to_owned(), response::as_result(response));
    }
    let path = input.get("transcript_path").and_then(Value::as_str).filter(|_| point == "pre_compact");
    if let Some(text) = path.and_then(|path| transcript::read(Path::new(path))) {
        data.entry("transcript").or_insert_with(|| text.into());
    }
    let subject = input.get("tool_name").or(input.get("model"));
    json!({ "subject": subject, "data": data })
}

fn report(input: &Map<String, Value>, outcome: &Value) -> Result<(), Failure> {
    let named = |one: &Value, key: &str| {
        let text = |key: &str| one[key].as_str().unwrap_or_default();
        format!("[{}] {}", text("hook"), text(key))
    };
    let notes = outcome["notes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let notes: Vec<String> = notes.iter().map(|note| named(note, "text")).collect();
    if outcome["blocked"].is_object() {
        say::line(named(&outcome["blocked"], "reason"));
        notes.iter().for_each(say::line);
        return Err(Failure::AlreadyReported(2));
    }
    let none = Map::new();
    let change = outcome["change"].as_object().unwrap_or(&none);
    if let Some(name) = input.get("hook_event_name").and_then(Value::as_str) {
        match claude::output(name, input, change, &notes) {
            Some(claude::Output::Json(value)) => say::result(visible::json(&value.to_string())),
            Some(claude::Output::Text(text)) => say::result(text),
            None => {}
        }
        return Ok(());
    }
    if !change.is_empty() {
        say::result(visible::json(&json!({ "change": change }).to_string()));
    }
    notes.iter().for_each(say::line);
    if notes.is_empty() { Ok(()) } else { Err(Failure::AlreadyReported(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_that_cannot_be_read_may_have_hooks_that_block_and_take_long() {
        let configured = Configured::at("pre_tool_call", None);
        assert!(configured.must_run);
        assert_eq!(configured.patience, Duration::from_mins(10));
    }
}
