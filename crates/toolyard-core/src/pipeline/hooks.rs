//! Runs hooks before and after a tool call, once per call. What they change is what is sent and what is returned;
//! their notes are added to the result.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolyard_hooks::{Block, Event, Note, Outcome, Point, Registered, fail, run};
use toolyard_model::{Answer, AnswerBody, BoxFuture, Peer};
use toolyard_proto::{CallError, Method, Raw};

use super::audit::own_result;
use super::{Call, Next, Step};
use crate::ledger::{Mark, label};
use crate::upstream::task_reviews::Review;

/// The hooks of one tool. Two values are equal if they refer to the very same hooks.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolHooks {
    pub(super) before: Vec<Arc<Registered>>,
    pub(super) after: Vec<Arc<Registered>>,
}

impl ToolHooks {
    fn ids(&self) -> impl Iterator<Item = Option<*const Registered>> {
        let before = self.before.iter().map(|hook| Some(Arc::as_ptr(hook)));
        before.chain([None]).chain(self.after.iter().map(|hook| Some(Arc::as_ptr(hook))))
    }
}

impl PartialEq for ToolHooks {
    fn eq(&self, other: &Self) -> bool {
        self.ids().eq(other.ids())
    }
}

impl Eq for ToolHooks {}

impl Hash for ToolHooks {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.ids().for_each(|id| id.hash(state));
    }
}

/// The step for these hooks, if there are any.
pub(super) fn step(hooks: &ToolHooks) -> Option<Arc<dyn Step>> {
    let is_needed = !hooks.before.is_empty() || !hooks.after.is_empty();
    is_needed.then(|| Arc::new(Hooked { hooks: Arc::new(hooks.clone()) }) as Arc<dyn Step>)
}

/// Extra time for the review of a call that has timed out.
const MOMENT: Duration = Duration::from_secs(1);

struct Hooked {
    hooks: Arc<ToolHooks>,
}

impl Step for Hooked {
    fn run(&self, call: Call, next: Next) -> BoxFuture<Answer> {
        if call.method != Method::TOOLS_CALL {
            return next.run(call);
        }
        let hooks = self.hooks.clone();
        Box::pin(around(hooks, call, next))
    }

    fn needs_whole(&self) -> bool {
        !self.hooks.after.is_empty()
    }
}

async fn around(hooks: Arc<ToolHooks>, mut call: Call, next: Next) -> Answer {
    let mut seen = None;
    let mut notes = Vec::new();
    if hooks.before.iter().any(|hook| !ignores_arguments(hook, &call)) {
        let given = call.params.member("arguments");
        let (data, unreadable) = shown(data(&call), "arguments", given.as_ref());
        let event = event(Point::PreToolCall, &call, data);
        let outcome = outcome(&hooks.before, event, unreadable).await;
        if let Some(clock) = &call.deadline {
            clock.touch();
        }
        if let Some(block) = outcome.blocked {
            return Err(blocked(&call, "a call of", &block));
        }
        let data = Value::Object(outcome.event.data);
        if outcome.is_changed {
            put_arguments(&mut call, &data["arguments"]);
        }
        seen = Some(data);
        notes = outcome.notes;
        call.needs_whole |= !notes.is_empty();
    }
    if !hooks.before.is_empty() {
        call.reach(Mark::Hooked);
    }
    if hooks.after.is_empty() && notes.is_empty() {
        return next.run(call).await;
    }
    reviewed(After::new(hooks, &call, seen, notes), call, next).await
}

/// The answer as the hooks after the call leave it, whether it is a result, an error, or the error of a timeout.
async fn reviewed(after: Arc<After>, call: Call, next: Next) -> Answer {
    let (open, clock, approval) = (call.open.clone(), call.deadline.clone(), call.approval.clone());
    if let Some(clock) = &clock {
        let after = after.clone();
        clock.set_on_timeout(move |error| Box::pin(async move { after.error_in_time(error).await }));
    }
    let answer = next.run(call).await;
    if let Some(clock) = &clock {
        clock.clear_on_timeout();
    }
    let answer = match answer {
        // It was not sent. The same call follows when it is approved.
        Err(error) if approval.is_some_and(|slot| slot.needs_approval()) => return Err(error),
        Err(error) => after.error(error).await,
        Ok(AnswerBody::Whole(result, revision)) if result.member("content").is_some() => {
            after.result(result).await.map(|result| AnswerBody::Whole(result, revision))
        }
        Ok(AnswerBody::Whole(answer, revision)) => {
            let reviews = &after.call.upstream.links.task_reviews;
            reviews.leave(&after.call, &answer, || after.clone().later());
            return Ok(AnswerBody::Whole(answer, revision));
        }
        Ok(answer @ AnswerBody::Stream(_)) => return Ok(answer),
    };
    if let Some(open) = open.filter(|_| answer.is_ok()) {
        open.reach(Mark::Reviewed);
    }
    answer
}

/// What is needed to run the hooks after a call.
struct After {
    hooks: Arc<ToolHooks>,
    /// Without peer, deadline and record: a task outlives its call, and so do the hooks after a timeout.
    call: Call,
    /// What the hooks before the call have seen, if any ran.
    seen: Option<Value>,
    /// Their notes.
    notes: Vec<Note>,
}

impl After {
    fn new(hooks: Arc<ToolHooks>, call: &Call, seen: Option<Value>, notes: Vec<Note>) -> Arc<Self> {
        let call = Call { peer: Peer::none(), deadline: None, approval: None, open: None, ..call.clone() };
        Arc::new(Self { hooks, call, seen, notes })
    }

    /// Reviews the result of a task when it is fetched.
    fn later(self: Arc<Self>) -> Review {
        Arc::new(move |result| {
            let after = self.clone();
            Box::pin(async move { after.result(result).await })
        })
    }

    /// Hooks see an error as a failed result. It stays an error unless a hook returns a result that has not failed.
    async fn error(&self, error: CallError) -> Answer {
        let failed = error.to_reviewable();
        let result = self.result(failed.clone()).await?;
        if result == failed {
            return Err(error);
        }
        if result.member("isError").is_some_and(|flag| flag.as_str() == "true") {
            return Err(error.with_result(result));
        }
        Ok(own_result(self.call.origin.revision, result))
    }

    /// The same for a call that has timed out, with a limit: a hook may also wait for its turn.
    async fn error_in_time(&self, error: CallError) -> Answer {
        let most = self.hooks.after.iter().map(|hook| hook.timeout()).sum::<Duration>() + MOMENT;
        let unfinished = || {
            let call = &self.call;
            let message = format!("{} timed out, and so did the hooks after it", call.subject());
            CallError::timeout(message).at(call.upstream.name())
        };
        let reviewed = tokio::time::timeout(most, self.error(error)).await;
        reviewed.unwrap_or_else(|_| Err(unfinished()))
    }

    /// The result as the hooks leave it.
    async fn result(&self, mut result: Raw) -> Result<Raw, CallError> {
        let (call, mut notes) = (&self.call, self.notes.clone());
        if self.hooks.after.iter().any(|hook| !hook.ignores(Point::PostToolCall, result.as_str())) {
            let given = call.params.member("arguments");
            let seen = self.seen.clone();
            let data = seen.unwrap_or_else(|| shown(data(call), "arguments", given.as_ref()).0);
            let (data, unreadable) = shown(data, "result", Some(&result));
            let event = event(Point::PostToolCall, call, data);
            let mut outcome = outcome(&self.hooks.after, event, unreadable).await;
            if let Some(block) = outcome.blocked {
                return Err(blocked(call, "the result of", &block));
            }
            let changed = outcome.event.data.remove("result");
            let changed = changed.filter(|result| outcome.is_changed && result.is_object());
            result = changed.map_or(result, Raw::from);
            notes.append(&mut outcome.notes);
        }
        Ok(if notes.is_empty() { result } else { with_notes(&result, &notes) })
    }
}

/// Whether a hook before the call certainly passes its arguments.
fn ignores_arguments(hook: &Registered, call: &Call) -> bool {
    let arguments = call.params.member("arguments");
    hook.ignores(Point::PreToolCall, arguments.as_ref().map_or("{}", Raw::as_str))
}

/// The data that hooks see of every call.
fn data(call: &Call) -> Value {
    json!({
        "arguments": {},
        "principal": &**call.origin.principal.name(),
        "session": label(&call.origin.client),
    })
}

/// The data with this member, or why the member cannot be read: it may be nested too deeply, for instance.
fn shown(mut data: Value, key: &str, member: Option<&Raw>) -> (Value, Option<String>) {
    match member.map(Raw::read_lossy) {
        Some(Ok(value)) => data[key] = value,
        Some(Err(error)) => return (data, Some(format!("`{key}` cannot be read: {error}"))),
        None => {}
    }
    (data, None)
}

async fn outcome(hooks: &[Arc<Registered>], event: Event, unreadable: Option<String>) -> Outcome {
    match unreadable {
        Some(reason) => fail(hooks, event, &reason),
        None => run(hooks, event).await,
    }
}

fn event(point: Point, call: &Call, data: Value) -> Event {
    Event::new(point, call.entry.as_ref().map(|entry| entry.canonical.clone()), data)
}

/// Changed arguments also change the headers that the upstream may require.
fn put_arguments(call: &mut Call, arguments: &Value) {
    call.params = call.params.with("arguments", &Raw::from_serialize(arguments)).into();
    call.headers = call.entry.as_ref().and_then(|entry| entry.headers().made(&call.params));
}

fn blocked(call: &Call, what: &str, block: &Block) -> CallError {
    let message = format!("hook `{}` blocked {what} {}: {}", block.hook, call.subject(), block.reason);
    CallError::blocked(message).at(call.upstream.name())
}

/// Each note is a text of its own, for the model, and is in `_meta`, for programs. Everything else keeps its bytes.
fn with_notes(result: &Raw, notes: &[Note]) -> Raw {
    let texts =
        notes.iter().map(|note| json!({ "type": "text", "text": format!("[{}] {}", note.hook, note.text) }));
    let content = result.member("content").and_then(|content| content.read::<Vec<Raw>>().ok());
    let result = match content {
        Some(mut content) => {
            content.extend(texts.map(Raw::from));
            result.with("content", &Raw::array(&content))
        }
        None => result.clone(),
    };
    let notes = notes.iter().map(|note| json!({ "hook": &*note.hook, "text": note.text }));
    result.with_path(&["_meta", "dev.toolyard/notes"], &Raw::from(notes.collect::<Value>()))
}
