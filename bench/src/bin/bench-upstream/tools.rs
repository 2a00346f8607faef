//! The tools: their definitions, serialised once, and what a call of each does.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolyard_bench::sample;

use crate::message::{self, Era, Params, quote, text_result};
use crate::server::Answer;

const LARGEST_BLOB_KIB: usize = 64 * 1024;
const LONGEST_SLEEP_MS: u64 = 600_000;
const MOST_PROGRESS: u64 = 1_000_000;

pub(crate) struct Tools {
    /// Each definition already serialised.
    definitions: Vec<String>,
    /// All of them joined by commas, for lists of one page.
    joined: String,
    page_size: Option<NonZeroUsize>,
    /// How often the list has changed; after the first time it ends with a tool of that number.
    changes: AtomicU64,
    filler_names: HashSet<String>,
    /// Results of `blob` by size, already quoted.
    blobs: Mutex<HashMap<usize, Arc<str>>>,
}

impl Tools {
    pub(crate) fn new(fillers: usize, page_size: Option<NonZeroUsize>) -> Self {
        let mut definitions: Vec<String> = own_tools().iter().map(Value::to_string).collect();
        let mut filler_names = HashSet::new();
        for number in 0..fillers {
            let (name, definition) = filler(number);
            definitions.push(definition.to_string());
            filler_names.insert(name);
        }
        let joined = definitions.join(",");
        Self {
            definitions,
            joined,
            page_size,
            changes: AtomicU64::new(0),
            filler_names,
            blobs: Mutex::default(),
        }
    }

    /// One page of `tools/list`, or nothing if the cursor is not one of ours.
    pub(crate) fn list(&self, era: Era, cursor: Option<&str>) -> Option<String> {
        let Some(page_size) = self.page_size else {
            return Some(match self.changes.load(Ordering::Relaxed) {
                0 => page(&self.joined, None, era),
                number => page(&format!("{},{}", self.joined, changing(number)), None, era),
            });
        };
        let from: usize = cursor.map_or(Ok(0), str::parse).ok()?;
        let to = from.saturating_add(page_size.get()).min(self.definitions.len());
        let next = (to < self.definitions.len()).then_some(to);
        Some(page(&self.definitions.get(from..to)?.join(","), next, era))
    }

    pub(crate) fn call(&self, id: &RawValue, era: Era, params: &Params<'_>) -> Answer {
        let arguments = &params.arguments;
        let say = |text: &str| Answer::ok(text_result(id, era, &quote(text)));
        let refuse = |why: &str| Answer::ok(message::error(Some(id), -32602, why, None));
        match params.name.as_deref() {
            Some("echo") => arguments.text.as_deref().map_or_else(|| refuse("text is required"), say),
            Some("add") => match (arguments.a, arguments.b) {
                (Some(a), Some(b)) => say(&(a + b).to_string()),
                _ => refuse("a and b are required"),
            },
            Some("blob") => {
                let size = arguments.kb.unwrap_or(1).min(LARGEST_BLOB_KIB);
                Answer::ok(text_result(id, era, &self.blob(size)))
            }
            Some("sleep") => {
                let ms = arguments.ms.unwrap_or(0).min(LONGEST_SLEEP_MS);
                let body = text_result(id, era, &quote(&format!("slept {ms}")));
                Answer::Later { wait: Duration::from_millis(ms), body }
            }
            Some("progress") => progress(id, era, params),
            Some(name) if self.filler_names.contains(name) => say(&format!("ok {name}")),
            Some(name) => refuse(&format!("unknown tool: {name}")),
            None => refuse("name is required"),
        }
    }

    pub(crate) fn change(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    fn blob(&self, kib: usize) -> Arc<str> {
        let mut blobs = self.blobs.lock();
        blobs.entry(kib).or_insert_with(|| quote(&sample::blob(kib)).into()).clone()
    }
}

fn page(tools: &str, next: Option<usize>, era: Era) -> String {
    let next = next.map(|cursor| format!(r#","nextCursor":"{cursor}""#)).unwrap_or_default();
    let caching = match era {
        Era::Modern => r#","ttlMs":300000,"cacheScope":"public""#,
        Era::Legacy => "",
    };
    [r#""tools":["#, tools, "]", &next, caching].concat()
}

fn progress(id: &RawValue, era: Era, params: &Params<'_>) -> Answer {
    let count = params.arguments.n.unwrap_or(1).min(MOST_PROGRESS);
    let body = text_result(id, era, &quote(&format!("sent {count}")));
    match params.meta.progress_token {
        None => Answer::ok(body),
        Some(token) => Answer::Progress {
            count,
            pause: Duration::from_millis(params.arguments.delay_ms.unwrap_or(0)),
            token: token.get().to_owned(),
            body,
        },
    }
}

fn own_tools() -> [Value; 5] {
    let tool = |name: &str, description: &str, properties: Value, required: &[&str]| {
        json!({
            "name": name,
            "description": description,
            "inputSchema": { "type": "object", "properties": properties, "required": required },
        })
    };
    let text = json!({ "type": "string" });
    let number = json!({ "type": "number" });
    let count = json!({ "type": "integer", "minimum": 0 });
    [
        tool("echo", "Return the given text.", json!({ "text": text }), &["text"]),
        tool("add", "Add two numbers.", json!({ "a": number, "b": number }), &["a", "b"]),
        tool("sleep", "Answer after so many milliseconds.", json!({ "ms": count }), &["ms"]),
        tool("blob", "Return a text of so many KiB.", json!({ "kb": count }), &["kb"]),
        tool(
            "progress",
            "Send n progress notifications, delay_ms apart, then answer.",
            json!({ "n": count, "delay_ms": count }),
            &["n"],
        ),
    ]
}

/// The tool that is another one after each change.
fn changing(number: u64) -> String {
    json!({ "name": format!("changing_{number}"), "inputSchema": { "type": "object" } }).to_string()
}

/// A tool that only makes the list long, with a schema of the size that real ones have.
fn filler(number: usize) -> (String, Value) {
    const NOUNS: [&str; 8] =
        ["invoice", "ticket", "repository", "customer", "deployment", "document", "calendar", "pipeline"];
    const VERBS: [&str; 8] = ["create", "update", "search", "delete", "list", "export", "archive", "assign"];
    let noun = NOUNS[number % NOUNS.len()];
    let verb = VERBS[number / NOUNS.len() % VERBS.len()];
    let name = format!("{noun}_{verb}_{number:04}");
    let definition = json!({
        "name": name,
        "title": format!("{verb} {noun} ({number})"),
        "description": format!(
            "Use this tool to {verb} a {noun} in workspace number {number}. Returns the {noun} as JSON, \
             with its identifier, its state and the time of its last change."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                format!("{noun}_id"): { "type": "string", "format": "uuid", "description": format!("Identifier of the {noun}") },
                "state": { "type": "string", "enum": ["open", "in_progress", "blocked", "done", "archived"], "description": "State to filter by or to set" },
                "limit": { "type": "integer", "minimum": 1, "maximum": 500, "default": 50, "description": "Most entries to return" },
                "labels": { "type": "array", "items": { "type": "string" }, "description": "Labels, all of which must match" },
                "range": {
                    "type": "object",
                    "description": "Time range of the last change",
                    "properties": { "from": { "type": "string", "format": "date-time" }, "to": { "type": "string", "format": "date-time" } },
                    "required": ["from"],
                },
                "dry_run": { "type": "boolean", "default": false, "description": "Check only, change nothing" },
            },
            "required": [format!("{noun}_id")],
            "additionalProperties": false,
        },
        "annotations": { "readOnlyHint": matches!(verb, "list" | "search"), "openWorldHint": false },
    });
    (name, definition)
}
