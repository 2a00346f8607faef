//! The event that a hook receives, and the verdict that it returns.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use toolyard_model::BoxFuture;

use crate::Point;

/// One thing that happens, as hooks see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub point: Point,
    /// The canonical id of the tool, the name of the model, or nothing.
    pub subject: Option<Arc<str>>,
    /// `arguments` and `result` of a tool call, `prompt` of a model call, and what else is known.
    pub data: Map<String, Value>,
}

impl Event {
    /// `data` that is not an object has no members.
    pub fn new(point: Point, subject: Option<Arc<str>>, data: Value) -> Self {
        let data = if let Value::Object(data) = data { data } else { Map::new() };
        Self { point, subject, data }
    }

    /// The event as commands and webhooks receive it.
    pub fn to_json(&self) -> Value {
        let mut all = Map::new();
        all.insert("point".to_owned(), json!(self.point.as_str()));
        if let Some(subject) = &self.subject {
            let is_model = matches!(self.point, Point::PreModelInvoke | Point::PostModelInvoke);
            all.insert(if is_model { "model" } else { "tool" }.to_owned(), json!(**subject));
        }
        all.extend(self.data.iter().map(|(key, value)| (key.clone(), value.clone())));
        Value::Object(all)
    }

    /// A member that is text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.data.get(key)?.as_str()
    }
}

/// The verdict of a hook. An empty verdict passes the call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Members of the event to replace.
    pub change: Map<String, Value>,
    /// Is shown with the result.
    pub note: Option<String>,
    /// The call does not happen, or its result is withheld, for this reason.
    pub block: Option<String>,
}

impl Verdict {
    pub fn pass() -> Self {
        Self::default()
    }

    pub fn change(key: &str, value: Value) -> Self {
        Self { change: Map::from_iter([(key.to_owned(), value)]), ..Self::default() }
    }

    pub fn note(text: impl Into<String>) -> Self {
        Self { note: Some(text.into()), ..Self::default() }
    }

    pub fn block(reason: impl Into<String>) -> Self {
        Self { block: Some(reason.into()), ..Self::default() }
    }

    #[must_use]
    pub fn with_note(self, note: Option<String>) -> Self {
        Self { note, ..self }
    }
}

/// A hook. It is run with a time limit; an error is what failed, in a clause.
pub trait Hook: Send + Sync + 'static {
    fn run(&self, event: Arc<Event>) -> BoxFuture<Result<Verdict, String>>;

    /// The verdict of a hook that only computes. It needs neither a task nor a time limit, which could not interrupt
    /// it.
    fn judge(&self, _: &Event) -> Option<Verdict> {
        None
    }

    /// Whether it certainly passes a tool call with these arguments, or with this result, unchanged. They are given as
    /// JSON text, so that they are not parsed for hooks that have nothing to do.
    fn ignores(&self, _: Point, _json: &str) -> bool {
        false
    }

    /// Whether it is for calls of this tool, if the config does not exclude it.
    fn is_for_tool(&self, _: &str) -> bool {
        true
    }

    /// Whether calls of this tool are left out as long as the config names no tools.
    fn leaves_out(&self, _: &str) -> bool {
        false
    }

    /// The semaphore that limits concurrent runs of the hook. The wait for a permit does not count as time of the hook.
    fn turns(&self) -> Option<Arc<Semaphore>> {
        None
    }
}
