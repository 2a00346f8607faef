//! The context of a call: what its function knows about it, and its way back to the client.

mod amount;
mod ask;
mod caller;
mod ending;
mod folder;
mod log;
mod questions;
mod rounds;
mod tools;
mod within;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use toolyard_model::{Origin, Parent, Peer, Request, Scope};
use toolyard_proto::app::{MOST_PARTIAL, PARTIAL};
use toolyard_proto::{Id, Method, Notification, Params, Raw, Revision};

use crate::changes::Changes;
use crate::seal::Seal;
use crate::tasks::Task;
use crate::threads::Threads;
use crate::{Content, Host};
use ending::{Ending, Running};

pub use amount::{Amount, Total};
pub use ask::{Reply, Root, Sample, Sampled};
pub use caller::Caller;
pub(crate) use folder::unproven;
pub use log::Level;
pub use questions::{Questions, Replies};
pub use tools::{ToolAnswer, Tools};

/// How much progress a partial result counts as: the protocol requires progress to grow.
const PARTIAL_STEP: f64 = 1e-6;

/// One call: its caller, whether it was cancelled, and the channel back to the client.
///
/// Take it as `&Context` (or `Context`, to keep it) in any function under `#[tool]`. Cloning is cheap.
///
/// ```
/// # use toolyard_tool::{Context, ToolError, tool};
/// /// Counts to three.
/// #[tool]
/// async fn count(context: &Context) -> Result<u32, ToolError> {
///     for step in 1..=3 {
///         context.progress(step, 3);
///         context.info(format!("at {step}"));
///     }
///     Ok(3)
/// }
/// ```
#[derive(Clone)]
pub struct Context(Arc<CallParts>);

struct CallParts {
    origin: Arc<Origin>,
    id: Id,
    peer: Peer,
    method: Method,
    params: Raw,
    /// Looked up when progress is first reported.
    progress_token: OnceLock<Option<Raw>>,
    last_progress: Mutex<f64>,
    ending: Ending,
    /// The task that the call is, or becomes.
    task: Option<Arc<Task>>,
    kept: Mutex<rounds::EarlierRounds>,
    /// Made with the first question, or the first bound on time.
    questioning: OnceLock<watch::Sender<within::Questioning>>,
    /// The gateway's number of the call, and the call that it is made for.
    call: u64,
    parent: Option<Arc<Parent>>,
    set: Arc<Surroundings>,
}

/// The state that all calls of one set share.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) name: Arc<str>,
    pub(crate) changes: Changes,
    /// Everything that the set runs by itself.
    pub(crate) scope: Scope,
    /// The threads on which blocking functions run.
    pub(crate) threads: Threads,
    /// Made on first use, unless the set was given a key.
    pub(crate) seal: OnceLock<Seal>,
    /// The host of the pack that the set belongs to.
    pub(crate) host: OnceLock<Host>,
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        if let Some(host) = self.host.get() {
            host.scope().cancel();
        }
    }
}

impl Surroundings {
    pub(crate) fn new(name: Arc<str>) -> Self {
        let (scope, threads) = (Scope::new(), Threads::default());
        let (seal, host) = (OnceLock::new(), OnceLock::new());
        Self { name, changes: Changes::default(), scope, threads, seal, host }
    }
}

impl Context {
    pub(crate) fn new(request: &Request, peer: Peer, set: Arc<Surroundings>) -> Self {
        Self::make(request, peer, set, None)
    }

    /// The context of a call that runs as a task: its client fetches the result later.
    pub(crate) fn in_task(request: &Request, task: &Arc<Task>, set: Arc<Surroundings>) -> Self {
        Self::make(request, Peer::new(task.clone()), set, Some(task.clone()))
    }

    fn make(request: &Request, peer: Peer, set: Arc<Surroundings>, task: Option<Arc<Task>>) -> Self {
        Self(Arc::new(CallParts {
            origin: request.origin.clone(),
            id: request.id.clone(),
            peer,
            method: request.method.clone(),
            params: request.params.as_raw().clone(),
            progress_token: OnceLock::new(),
            last_progress: Mutex::new(f64::NEG_INFINITY),
            ending: Ending::default(),
            task,
            kept: Mutex::default(),
            questioning: OnceLock::new(),
            call: request.call,
            parent: request.parent.clone(),
            set,
        }))
    }

    /// A context that belongs to no client, for calling functions by hand: progress and logs go nowhere,
    /// questions are refused.
    ///
    /// ```
    /// use toolyard_tool::Context;
    ///
    /// let context = Context::detached();
    /// context.progress(1, 2);
    /// assert!(!context.is_cancelled());
    /// ```
    pub fn detached() -> Self {
        let request = Request::new(
            Origin::gateway(Raw::empty_object(), json!({ "name": "none", "version": "0" }).into()),
            Id::number(0),
            Method::TOOLS_CALL,
            Params::none(),
        );
        Self::new(&request, Peer::none(), Arc::new(Surroundings::new("none".into())))
    }

    /// Reports progress: `done` of `total` in any unit, `None` for an unknown total. Steps that do not go forward are
    /// dropped. The client receives it if it asked for progress; in any case it shows that the call is still at work
    /// and starts the idle time again.
    pub fn progress(&self, done: impl Amount, total: impl Total) {
        self.tell_progress(done.amount(), total.total(), None);
    }

    /// Reports progress with a message.
    pub fn progress_with(&self, done: impl Amount, total: impl Total, message: impl Into<String>) {
        self.tell_progress(done.amount(), total.total(), Some(message.into()));
    }

    /// Sends a part of the result before the call has ended, if the client asked for progress. The content is in
    /// the `_meta` of a progress notification, under `dev.toolyard/partial`. At most 64 KiB; returns whether it was
    /// sent. The result of the call must still be complete: most clients do not show partial results.
    ///
    /// ```
    /// # use toolyard_tool::{Content, Context, tool};
    /// /// Lists the lines of a log.
    /// #[tool]
    /// async fn lines(context: &Context) -> String {
    ///     context.partial(Content::new().text("first line"));
    ///     "first line\nsecond line".into()
    /// }
    /// # assert!(!Context::detached().partial(Content::new()));
    /// ```
    pub fn partial(&self, content: Content) -> bool {
        let Some(token) = self.progress_token() else {
            self.0.peer.alive();
            return false;
        };
        let content =
            content.into_raw(None).member("content").filter(|content| content.len() <= MOST_PARTIAL);
        let Some(content) = content else { return false };
        let progress = {
            let mut last = self.0.last_progress.lock();
            *last = last.max(0.0) + PARTIAL_STEP;
            *last
        };
        let params = Raw::from(json!({ "progressToken": token, "progress": progress }));
        let params = params.with_path(&["_meta", PARTIAL], &content);
        self.0.peer.notify(Notification::new(Method::PROGRESS, params));
        true
    }

    fn progress_token(&self) -> Option<&Raw> {
        self.0.progress_token.get_or_init(|| self.0.params.at(&["_meta", "progressToken"])).as_ref()
    }

    fn tell_progress(&self, done: f64, total: Option<f64>, message: Option<String>) {
        if let (Some(task), Some(message)) = (&self.0.task, &message) {
            task.set_message(message.clone());
        }
        let Some(token) = self.progress_token() else { return self.0.peer.alive() };
        {
            let mut last = self.0.last_progress.lock();
            // Not a number would let later steps go backward.
            if !done.is_finite() || done <= *last {
                return;
            }
            *last = done;
        }
        let mut params = json!({ "progressToken": token, "progress": number(done) });
        if let Some(total) = total.filter(|total| total.is_finite()) {
            params["total"] = number(total);
        }
        if let Some(message) = message {
            params["message"] = message.into();
        }
        self.notify(Method::PROGRESS, params);
    }

    /// Progress of a call that is made for this one: the smallest step forward, with its message.
    fn pass_on_progress(&self, message: Option<&str>) {
        let done = {
            let last = self.0.last_progress.lock();
            last.max(0.0) + PARTIAL_STEP
        };
        self.tell_progress(done, None, message.map(ToOwned::to_owned));
    }

    /// Whether the client has cancelled the call. An async function is dropped at its next `.await`; a blocking function
    /// should check this from time to time.
    pub fn is_cancelled(&self) -> bool {
        self.0.ending.has_come()
    }

    /// Waits until the call is cancelled. The future is `'static`, so that work on another task can wait for it, too.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static {
        self.0.ending.watch().cancelled_owned()
    }

    /// Ends the HTTP stream; the client reconnects for the answer after `come_back_after`, so that a long call need not
    /// keep a connection open. Only HTTP clients of 2025-11-25 can do that; for all others it has no effect.
    pub fn hang_up(&self, come_back_after: Duration) {
        self.0.peer.hang_up(come_back_after);
    }

    /// Notifies subscribed clients that a resource has changed.
    pub fn resource_updated(&self, uri: &str) {
        self.0.set.changes.resource_updated(uri);
    }

    /// The handle that announces changes of the set; keep it to announce some outside of calls.
    pub fn changes(&self) -> &Changes {
        &self.0.set.changes
    }

    /// The `_meta` of the request, as the client sent it.
    pub fn meta(&self, key: &str) -> Option<Value> {
        self.0.params.at(&["_meta", key])?.read().ok()
    }

    fn notify(&self, method: Method, params: Value) {
        self.0.peer.notify(Notification::new(method, Raw::from(params)));
    }

    pub(crate) fn revision(&self) -> Revision {
        self.0.origin.revision
    }

    /// The caller, and the name of the called tool.
    pub(crate) fn origin_and_tool(&self) -> (Arc<Origin>, Arc<str>) {
        let tool = self.0.params.member("name").and_then(|name| name.as_string()).unwrap_or_default();
        (self.0.origin.clone(), tool.into())
    }

    pub(crate) fn set(&self) -> &Arc<Surroundings> {
        &self.0.set
    }

    /// The call runs until this is dropped.
    pub(crate) fn running(&self) -> Running {
        Running::new(self)
    }
}

/// Whole numbers without a fraction, as most clients show them.
#[expect(clippy::cast_possible_truncation, reason = "guarded by the range check")]
fn number(value: f64) -> Value {
    let is_whole = value.fract() == 0.0 && value.abs() < 9e15;
    if is_whole { json!(value as i64) } else { json!(value) }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("id", &self.0.id).finish_non_exhaustive()
    }
}
