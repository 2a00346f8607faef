//! A tool: its definition as clients see it, and its type-erased function.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};
use toolyard_proto::Raw;

use super::{Entry, icons};
use crate::Content;
use crate::arguments::{Arguments, Check, Reader};
use crate::headers::{self, Repeated};
use crate::output::Output;
use crate::run::{Call, Runner, runner};
use crate::state::{Source, Wanted};

/// The attribute's data about a function.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct AboutTool {
    /// Its name.
    pub name: &'static str,
    /// Its title for people.
    pub title: Option<&'static str>,
    /// The doc comment.
    pub description: &'static str,
    /// The properties that a client may assume.
    pub hints: Hints,
    /// Addresses of pictures.
    pub icons: &'static [&'static str],
    /// Whether it may run as a task.
    pub task: TaskUse,
    /// Whether its questions come before the task.
    pub asks_first: bool,
    /// How many seconds its tasks are kept, if they outlive the client and the program.
    pub keep: Option<u64>,
    /// Whether a task that was interrupted is run again from its beginning.
    pub resume: bool,
    /// The requirements of the tool's check, in words.
    pub rules: &'static [&'static str],
}

/// The properties that a client may assume of a tool; `None` where the attribute does not mention it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Hints {
    /// It changes nothing.
    #[serde(rename = "readOnlyHint", skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// It may destroy something.
    #[serde(rename = "destructiveHint", skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Calling it twice has the same effect as calling it once.
    #[serde(rename = "idempotentHint", skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// It reaches beyond this machine.
    #[serde(rename = "openWorldHint", skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

/// Whether a tool runs as a task, for which the client comes back later.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskUse {
    /// It never runs as a task.
    Never,
    /// It runs as a task if the client supports tasks.
    Allowed,
    /// The tool is available only to clients that support tasks.
    Required,
}

/// A tool of a set.
#[doc(hidden)]
pub struct Tool {
    pub(crate) name: &'static str,
    pub(crate) is_read_only: bool,
    pub(crate) definition: Raw,
    pub(crate) task: TaskUse,
    pub(crate) asks_first: bool,
    pub(crate) keep: Option<Duration>,
    pub(crate) resume: bool,
    pub(crate) repeated: Vec<Repeated>,
    pub(crate) run: Runner<Option<Raw>, Content>,
}

/// Makes a tool from a function. The code that the attribute generates calls this.
#[doc(hidden)]
pub fn tool<W: Wanted, A: Arguments, O: Output>(
    about: AboutTool,
    check: Option<Check<A>>,
    source: Source<W>,
    call: Call<W, A, O>,
) -> Entry {
    let reader = Reader::<A>::new(about.name, check);
    let (input, shape) = (with_rules(reader.published(), about.rules), O::shape());
    let repeated = headers::marked(&input);
    let definition = define(&about, input, shape.schema());
    let run = runner(
        about.name,
        source,
        call,
        move |arguments: Option<Raw>| reader.read(arguments.as_ref()),
        move |output: O| output.into_content(&shape),
    );
    let AboutTool { name, task, asks_first, resume, .. } = about;
    let is_read_only = about.hints.read_only == Some(true);
    let keep = about.keep.map(Duration::from_secs);
    Entry::Tool(Tool { name, is_read_only, definition, task, asks_first, keep, resume, repeated, run })
}

/// The schema, with a description of the rules that it cannot express.
fn with_rules(mut schema: Value, rules: &[&str]) -> Value {
    let description = schema.get("description").and_then(Value::as_str).map(str::to_owned);
    let sentences: Vec<String> =
        description.into_iter().chain(rules.iter().map(|rule| sentence(rule.trim()))).collect();
    if !sentences.is_empty() {
        schema["description"] = sentences.join(" ").into();
    }
    schema
}

/// Adds a full stop if there is no punctuation, so that the next sentence can follow.
fn sentence(text: &str) -> String {
    let has_end = text.ends_with(['.', '!', '?', '…', ':', ';']);
    format!("{text}{}", if has_end { "" } else { "." })
}

fn define(about: &AboutTool, input: Value, output: Option<&Value>) -> Raw {
    let mut tool = Map::new();
    let mut put = |key: &str, value: Value| tool.insert(key.to_owned(), value);
    put("name", about.name.into());
    if let Some(title) = about.title {
        put("title", title.into());
    }
    put("description", about.description.into());
    put("inputSchema", input);
    if let Some(schema) = output {
        put("outputSchema", schema.clone());
    }
    let hints = json!(about.hints);
    if hints.as_object().is_some_and(|hints| !hints.is_empty()) {
        put("annotations", hints);
    }
    if !about.icons.is_empty() {
        put("icons", icons(about.icons));
    }
    match about.task {
        TaskUse::Never => {}
        TaskUse::Allowed => drop(put("execution", json!({ "taskSupport": "optional" }))),
        TaskUse::Required => drop(put("execution", json!({ "taskSupport": "required" }))),
    }
    Value::Object(tool).into()
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tool({})", self.name)
    }
}
