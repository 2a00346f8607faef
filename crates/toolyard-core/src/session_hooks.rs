//! Hooks that are not about one call: when a session or connection begins or idles, and what clients and packs report.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use toolyard_hooks::{Event, Outcome, Point};
use toolyard_limits::{Permit, Refusal};
use toolyard_model::{BoxFuture, ClientKey, ControlRequest, ControlResponse, Origin};

use crate::Gateway;
use crate::api::Answered;
use crate::event::What;
use crate::ledger::label;
use crate::plan::PackWork;

/// How long a session sends nothing before it counts as idle.
const IDLE_AFTER: Duration = Duration::from_mins(1);
/// How often idle sessions are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How many sessions are watched.
const MOST: usize = 1_000;

/// When each session and connection was last active.
#[derive(Default)]
pub(crate) struct Activity {
    /// Whether there is a hook for it; otherwise calls do not come here.
    is_watched: AtomicBool,
    active: Mutex<HashMap<ClientKey, Active>>,
}

struct Active {
    origin: Arc<Origin>,
    at: Instant,
    is_reported: bool,
}

impl Activity {
    fn active(&self) -> MutexGuard<'_, HashMap<ClientKey, Active>> {
        self.active.lock()
    }

    pub(crate) fn begin(&self, origin: &Arc<Origin>) {
        let mut active = self.active();
        if active.len() < MOST {
            let new = Active { origin: origin.clone(), at: Instant::now(), is_reported: false };
            active.insert(origin.client.clone(), new);
        }
    }

    pub(crate) fn end(&self, client: &ClientKey) {
        self.active().remove(client);
    }

    /// Sessions are watched from now on, or are not. Nothing is known of the time before, so no session is idle yet.
    fn watch(&self, is_watched: bool) {
        if self.is_watched.swap(is_watched, Ordering::Relaxed) || !is_watched {
            return;
        }
        for active in self.active().values_mut() {
            (active.at, active.is_reported) = (Instant::now(), false);
        }
    }

    pub(crate) fn touch(&self, client: &ClientKey) {
        if !self.is_watched.load(Ordering::Relaxed) {
            return;
        }
        if let Some(active) = self.active().get_mut(client) {
            (active.at, active.is_reported) = (Instant::now(), false);
        }
    }

    /// The sessions that have become idle since the last check.
    fn newly_idle(&self) -> Vec<(Arc<Origin>, Duration)> {
        let mut active = self.active();
        let idle = active.values_mut().filter(|one| !one.is_reported && one.at.elapsed() >= IDLE_AFTER);
        let report = |one: &mut Active| {
            one.is_reported = true;
            (one.origin.clone(), one.at.elapsed())
        };
        idle.map(report).collect()
    }
}

impl Gateway {
    /// Publishes what happened in a pack, if the event stream is read.
    pub fn publish(&self, pack: &str, principal: &str, event: Value) {
        let events = &self.common().events;
        if events.is_read() {
            let (pack, principal) = (pack.into(), principal.into());
            events.emit(What::Published { pack, principal, event: Arc::new(event) });
        }
    }

    /// Waits under a limit of the config for work of a pack; `report` is called with the number of those ahead when it
    /// begins to wait, and once a second from then on. Nothing if there is no limit of this name.
    pub async fn acquire_limit(
        &self,
        name: &str,
        work: PackWork,
        report: impl Fn(usize),
    ) -> Result<Option<Permit>, Refusal> {
        let limit = self.rules().steps.limit(name).cloned();
        match limit {
            Some(limit) => limit.acquire_for(&work, report).await.map(Some),
            None => Ok(None),
        }
    }

    /// Runs the hooks of a point for this subject: the name of a tool or model, or `None`.
    pub async fn run_hooks(&self, point: Point, subject: Option<Arc<str>>, data: Value) -> Outcome {
        let rules = self.rules();
        let event = Event::new(point, subject, data);
        let hooks = rules.steps.hooks().of(point, event.subject.as_deref());
        drop(rules);
        toolyard_hooks::run(&hooks, event).await
    }

    /// Whether any hook of a point is for this subject.
    pub fn has_hooks_for(&self, point: Point, subject: &str) -> bool {
        !self.rules().steps.hooks().of(point, Some(subject)).is_empty()
    }

    /// Runs the hooks of a point for a client that reports it: `{"subject": …, "data": {…}}`.
    pub(crate) fn answer_hooks(&self, request: &ControlRequest, point: &str) -> BoxFuture<Answered> {
        let Some(point) = Point::parse(point) else {
            return Box::pin(async { Err(ControlResponse::not_found()) });
        };
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let gateway = self.clone();
        Box::pin(async move {
            let (subject, before) = (body["subject"].as_str().map(Arc::from), &body["data"]);
            let outcome = gateway.run_hooks(point, subject, before.clone()).await;
            let changed =
                outcome.event.data.into_iter().filter(|(key, value)| before[key.as_str()] != *value);
            let notes = outcome.notes.iter().map(|note| json!({ "hook": &*note.hook, "text": note.text }));
            let blocked = outcome.blocked.map(|one| json!({ "hook": &*one.hook, "reason": one.reason }));
            let change: serde_json::Map<String, Value> = changed.collect();
            let notes: Vec<Value> = notes.collect();
            Ok(ControlResponse::json(&json!({ "blocked": blocked, "notes": notes, "change": change })))
        })
    }

    /// Whether any hook is for this point.
    fn has_hooks(&self, point: Point) -> bool {
        self.rules().steps.hooks().plans().iter().any(|plan| plan.points.contains(&point))
    }

    pub(crate) fn session_began(&self, origin: &Arc<Origin>) {
        self.shared().activity.begin(origin);
        if self.has_hooks(Point::SessionStart) {
            self.run_session_hooks(Point::SessionStart, session(origin));
        }
    }

    /// Runs hooks whose outcome has no effect: their notes are logged.
    fn run_session_hooks(&self, point: Point, data: Value) {
        let gateway = self.clone();
        self.scope().spawn(async move {
            let outcome = gateway.run_hooks(point, None, data).await;
            for note in outcome.notes {
                tracing::info!(hook = %note.hook, point = %point, "{}", note.text);
            }
        });
    }

    /// Looks for sessions that have become idle, if there is a hook for it.
    pub(crate) async fn watch_sessions(self) {
        loop {
            let is_watched = self.has_hooks(Point::SessionIdle);
            self.shared().activity.watch(is_watched);
            let newly_idle = if is_watched { self.shared().activity.newly_idle() } else { Vec::new() };
            for (origin, idle) in newly_idle {
                let mut data = session(&origin);
                data["idleSeconds"] = json!(idle.as_secs());
                self.run_session_hooks(Point::SessionIdle, data);
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

fn session(origin: &Origin) -> Value {
    json!({
        "session": label(&origin.client),
        "principal": &**origin.principal.name(),
        "view": format!("/mcp/{}", origin.view),
        "clientInfo": origin.client_info.as_ref().and_then(|info| info.read::<Value>().ok()),
    })
}
