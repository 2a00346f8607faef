//! The control API: what a request under `/api/v1` does. Reading states and names is open to every admitted client;
//! changing anything needs an operator. One table has all routes; the description of the API is made from it.

mod approvals;
mod calls;
mod catalog;
mod live;
mod logs;
mod openapi;
mod sign_in;
mod tool_switch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use http::{Method, StatusCode};
use parking_lot::RwLock;
use serde_json::{Value, json};
use toolyard_model::{BoxFuture, Control, ControlEvent, ControlRequest, ControlResponse, Principal};
use toolyard_proto::name::UpstreamId;

use crate::Gateway;
use crate::event::{Followed, Reader};
use crate::plan::UpstreamKind;
use crate::report;
use crate::status::{self, Stderr, Totals, UpstreamStatus};
use crate::upstream::Upstream;

pub use approvals::ApprovalsElsewhere;

/// How long calls in flight of an upstream that is restarted or switched off may take to finish.
const DRAIN: Duration = Duration::from_secs(10);

/// The operations of the program around the gateway.
pub struct Controls {
    /// Reads the config again.
    pub reload: Box<dyn Fn() + Send + Sync>,
    /// Ends the program.
    pub stop: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Controls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Controls")
    }
}

/// The clients that may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Every admitted client; the answer depends on which one asks.
    Client,
    Operator,
}

/// The result of a request: a response in either case.
pub type Answered = Result<ControlResponse, ControlResponse>;

type Answer = Box<dyn Fn(&Gateway, &ControlRequest, &[&str]) -> BoxFuture<Answered> + Send + Sync>;

/// One path of the control API with a method. The description of the API is made from these.
pub struct Route {
    pub method: Method,
    /// With captures: `/upstreams/{id}/restart`.
    pub path: &'static str,
    pub who: Who,
    pub summary: &'static str,
    /// Query parameters with their meaning.
    pub query: &'static [(&'static str, &'static str)],
    /// The type of the answer's content.
    pub answers: &'static str,
    answer: Answer,
}

impl Route {
    /// A route whose answer may take time. The captures of the path are the last argument.
    pub fn new<F>(method: Method, path: &'static str, who: Who, summary: &'static str, answer: F) -> Self
    where
        F: Fn(&Gateway, &ControlRequest, &[&str]) -> BoxFuture<Answered> + Send + Sync + 'static,
    {
        let answer = Box::new(answer);
        Self { method, path, who, summary, query: &[], answers: "application/json", answer }
    }

    /// A route that answers at once.
    fn at_once(
        method: Method,
        path: &'static str,
        who: Who,
        summary: &'static str,
        answer: fn(&Gateway, &ControlRequest, &[&str]) -> Answered,
    ) -> Self {
        Self::new(method, path, who, summary, move |gateway, request, captures| {
            let answered = answer(gateway, request, captures);
            Box::pin(async { answered })
        })
    }

    #[must_use]
    pub fn with_query(self, query: &'static [(&'static str, &'static str)]) -> Self {
        Self { query, ..self }
    }

    #[must_use]
    fn answering(self, answers: &'static str) -> Self {
        Self { answers, ..self }
    }

    /// The captured parts, if the path is of this route.
    fn captures<'a>(&self, path: &'a str) -> Option<Vec<&'a str>> {
        let mut captured = Vec::new();
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        for wanted in self.path.split('/').filter(|part| !part.is_empty()) {
            let part = parts.next()?;
            if wanted.starts_with('{') {
                captured.push(part);
            } else if wanted != part {
                return None;
            }
        }
        parts.next().is_none().then_some(captured)
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// All routes: the gateway's own, and those that the program adds.
pub(crate) struct Routes(RwLock<Vec<Arc<Route>>>);

impl Default for Routes {
    fn default() -> Self {
        Self(RwLock::new(own_routes().into_iter().chain(more_routes()).map(Arc::new).collect()))
    }
}

impl Routes {
    fn all(&self) -> Vec<Arc<Route>> {
        self.0.read().clone()
    }
}

/// The table of the API: what can be read of upstreams, the catalog and clients.
fn own_routes() -> Vec<Route> {
    let get = |path, summary, answer| Route::at_once(Method::GET, path, Who::Client, summary, answer);
    let secret = |path, summary, answer| Route::at_once(Method::GET, path, Who::Operator, summary, answer);
    vec![
        get("/status", "Version, process id, uptime and counts.", |one, _, _| ok(&one.status_json())),
        get("/upstreams", "All upstreams with their state.", |one, request, _| {
            let stderr = Stderr::of(request.is_operator);
            ok(&json!({ "upstreams": status::all(&one.upstreams(), one.common(), stderr) }))
        }),
        get("/upstreams/{id}", "One upstream with the last steps of its life.", |one, request, at| {
            one.upstream_json(at[0], Stderr::of(request.is_operator))
        }),
        get(
            "/upstreams/{id}/definitions",
            "One list of an upstream, as it defined it.",
            |one, request, at| one.definitions(request, at[0]),
        )
        .with_query(&[
            ("list", "tools, resources, resourceTemplates or prompts."),
            ("search", "A part of the name."),
            ("offset", "How many to leave out."),
            ("limit", "How many to list."),
        ]),
        get(
            "/upstreams/{id}/samples",
            "Calls, failures and durations over the last minutes.",
            |one, _, at| one.samples(at[0]),
        ),
        secret("/upstreams/{id}/changes", "Changes of its definitions, before and after.", |one, _, at| {
            one.changes(at[0])
        }),
        secret("/upstreams/{id}/stderr", "What its process wrote to stderr.", |one, _, at| one.stderr(at[0])),
        get("/catalog", "The tools of a view.", |one, request, _| one.catalog(request)).with_query(&[
            ("view", "The path of the view, such as /mcp/p/work."),
            ("search", "A part of the id."),
            ("offset", "How many to leave out."),
            ("limit", "How many to list."),
        ]),
        get("/sessions", "Open sessions and connections.", |one, request, _| {
            let asking = (!request.is_operator).then_some(&request.principal);
            ok(&json!({ "sessions": one.shared().sessions.to_json(asking) }))
        }),
        get("/calls", "Calls under way and the last that have ended.", |one, request, _| {
            Ok(one.calls(request))
        })
        .with_query(&[("upstream", "Only calls of this upstream."), ("limit", "How many to list.")]),
    ]
}

/// The rest of the table: calls, streams and descriptions, and what changes the gateway.
fn more_routes() -> Vec<Route> {
    let get = |path, summary, answer| Route::at_once(Method::GET, path, Who::Client, summary, answer);
    let secret = |path, summary, answer| Route::at_once(Method::GET, path, Who::Operator, summary, answer);
    let post = |path, summary, answer| Route::at_once(Method::POST, path, Who::Operator, summary, answer);
    vec![
        secret("/calls/{call}", "One call with its payloads.", |one, _, at| one.call(at[0])),
        post("/calls/{call}/cancel", "Cancel a call under way.", |one, _, at| one.cancel_call(at[0])),
        get("/report", "Everything that `toolyard doctor` shows.", |one, request, _| {
            ok(&one.report_json(request))
        }),
        get("/events", "Events as they happen; `Last-Event-ID` resumes.", |one, request, _| {
            Ok(one.events(request))
        })
        .answering("text/event-stream"),
        get("/live", "The state, then once a second what has changed.", |one, request, _| {
            Ok(one.live(request))
        })
        .answering("text/event-stream"),
        get("/metrics", "Metrics for Prometheus, also at /metrics.", |one, _, _| {
            Ok(ControlResponse::text("text/plain; version=0.0.4; charset=utf-8", one.metrics()))
        })
        .answering("text/plain"),
        get("/openapi.json", "This description.", |one, _, _| {
            ok(&openapi::describe(one.shared().routes.all().iter().map(|route| &**route)))
        }),
        post("/upstreams/{id}/restart", "Connect to an upstream again.", |one, _, at| one.restart(at[0])),
        post("/upstreams/{id}/enable", "Switch an upstream on.", |one, _, at| one.enable(at[0])),
        post("/upstreams/{id}/disable", "Switch an upstream off.", |one, _, at| one.disable(at[0])),
        Route::new(
            Method::POST,
            "/upstreams/{id}/sign-in",
            Who::Operator,
            "Begin a sign-in at an upstream: the page to open in a browser, in `url`.",
            |one, _, at| one.begin_sign_in(at[0]),
        ),
        secret("/definitions", "The tools of all servers, as they define them.", |one, _, _| {
            ok(&one.definitions_json())
        }),
        secret("/approvals", "What waits for an operator, and what was decided.", |one, _, _| {
            ok(&one.approvals_json())
        }),
        secret(
            "/approvals/{id}",
            "A call that waits for an operator, with all of its arguments.",
            |one, _, at| one.waiting_call(at[0]),
        ),
        Route::new(
            Method::POST,
            "/approvals/approve",
            Who::Operator,
            "Approve a call or a changed tool: `{\"id\": …}`.",
            |one, request, _| one.decide_anywhere(request, true),
        ),
        Route::new(
            Method::POST,
            "/approvals/deny",
            Who::Operator,
            "Deny a call that waits: `{\"id\": …}`.",
            |one, request, _| one.decide_anywhere(request, false),
        ),
        Route::new(
            Method::POST,
            "/tools/{switch}",
            Who::Operator,
            "Switch one tool off (`disable`) or on (`enable`): `{\"id\": …}`.",
            |one, request, at| one.switch_tool(request, at[0]),
        ),
        secret("/logs", "Stderr output, calls and changes of state, in order.", |one, request, _| {
            one.logs(request)
        })
        .with_query(&[
            ("upstream", "Only of this upstream."),
            ("since", "Only what is not older than this moment (RFC 3339, UTC)."),
            ("after", "Only what is new since the answer whose `next` this was."),
        ]),
        Route::new(
            Method::POST,
            "/hooks/{point}",
            Who::Operator,
            "Run the hooks of a point for a client that reports it.",
            |one, request, at| one.answer_hooks(request, at[0]),
        ),
        post("/reload", "Read the config again.", |one, _, _| {
            one.with_controls(|controls| (controls.reload)())
        }),
        post("/stop", "Stop the gateway.", |one, _, _| one.with_controls(|controls| (controls.stop)())),
    ]
}

#[expect(clippy::unnecessary_wraps, reason = "what the table wants")]
fn ok(json: &Value) -> Answered {
    Ok(ControlResponse::json(json))
}

/// A query parameter that is a number.
fn number(request: &ControlRequest, name: &str) -> Option<usize> {
    request.parameter(name)?.parse().ok()
}

impl Control for Gateway {
    fn control(&self, request: ControlRequest) -> BoxFuture<ControlResponse> {
        let gateway = self.clone();
        Box::pin(async move { gateway.answer(&request).await.unwrap_or_else(|error| error) })
    }
}

impl Gateway {
    /// Sets how the program reloads and stops; until then neither can be done through the API.
    pub fn set_controls(&self, controls: Controls) {
        let _ = self.shared().controls.set(controls);
    }

    /// Adds paths to the API.
    pub fn add_routes(&self, routes: impl IntoIterator<Item = Route>) {
        let mut all = self.shared().routes.0.write();
        all.extend(routes.into_iter().map(Arc::new));
    }

    async fn answer(&self, request: &ControlRequest) -> Answered {
        let routes = self.shared().routes.all();
        let here = || routes.iter().filter_map(|route| Some((route, route.captures(&request.path)?)));
        let Some((route, captures)) = here().find(|(route, _)| route.method == request.method) else {
            let is_there = here().next().is_some();
            let error =
                if is_there { ControlResponse::method_not_allowed() } else { ControlResponse::not_found() };
            return Err(error);
        };
        if route.who == Who::Operator {
            request.require_operator()?;
        }
        (route.answer)(self, request, &captures).await
    }

    fn upstream_json(&self, id: &str, stderr: Stderr) -> Answered {
        let status = match self.find(id) {
            Some(found) => found.status(),
            None => self.disabled_status(id).ok_or_else(|| unknown(id))?,
        };
        ok(&status.to_json_with_history(stderr))
    }

    fn status_json(&self) -> Value {
        let shared = self.shared();
        let (rules, snapshot) = (shared.catalog.rules(), shared.catalog.snapshot());
        let totals = Totals::new(&rules.upstreams, &snapshot);
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "uptimeSeconds": shared.started.elapsed().as_secs(),
            "upstreams": { "active": totals.active, "total": rules.upstreams.len(), "disabled": shared.common.disabled_statuses().len() },
            "tools": totals.tools,
            "leftOut": totals.left_out,
            "listeners": shared.listeners.count(),
        })
    }

    fn disabled_status(&self, id: &str) -> Option<UpstreamStatus> {
        self.common().disabled_statuses().into_iter().find(|one| one.id.eq_ignore_ascii_case(id))
    }

    fn report_json(&self, request: &ControlRequest) -> Value {
        let common = self.common();
        let asking = (!request.is_operator).then_some(&request.principal);
        let mut report = report::report(&self.upstreams(), &common.ledger, &common.sections, asking);
        report["uptimeSeconds"] = json!(self.shared().started.elapsed().as_secs());
        report
    }

    fn events(&self, request: &ControlRequest) -> ControlResponse {
        let reader = self.common().events.follow(request.last_event_id.as_deref());
        let principal = (!request.is_operator).then(|| request.principal.clone());
        let events = stream::unfold((reader, principal), async |(mut reader, principal)| {
            let event = next_event(&mut reader, principal.as_ref()).await;
            Some((event, (reader, principal)))
        });
        ControlResponse::Events(events.boxed())
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<Upstream>> {
        self.upstreams().into_iter().find(|upstream| upstream.id().as_str().eq_ignore_ascii_case(id))
    }

    /// One that an operator may stop and start: apps and instances do so by themselves, and `yard` is the gateway.
    fn managed(&self, id: &str) -> Result<Arc<Upstream>, ControlResponse> {
        let upstream = self.find(id).ok_or_else(|| unknown(id))?;
        let is_ours = *upstream.id() == UpstreamId::yard();
        let message = match upstream.kind() {
            _ if is_ours => "the built-in tools run as long as the gateway does",
            UpstreamKind::App => "an app connects by itself; stop or start the app",
            UpstreamKind::Instance => "an instance is found when it runs; stop or start the instance",
            UpstreamKind::Node => "it belongs to another node; use that node",
            UpstreamKind::Server | UpstreamKind::BuiltIn => return Ok(upstream),
        };
        Err(ControlResponse::error(StatusCode::CONFLICT, "not_managed", message))
    }

    /// Replaces an upstream by a new connection of the same plan; calls in flight may finish on the old one. A process
    /// is started after the one before it has ended: both may need the same port or file.
    fn restart(&self, id: &str) -> Answered {
        let upstream = self.managed(id)?;
        let _one_at_a_time = self.changing();
        let old = self.rules();
        let plan = upstream.plan();
        let next = self.make(plan, upstream.definitions());
        let put = |one: &Arc<Upstream>| if Arc::ptr_eq(one, &upstream) { next.clone() } else { one.clone() };
        self.adopt(&old, old.upstreams.iter().map(put).collect());
        upstream.life.hand_over(&next);
        tracing::info!(target: "upstream", upstream = %next.id(), "restarted by an operator");
        let id = next.id().to_string();
        if next.connector().starts_process() {
            let gateway = self.clone();
            self.scope().spawn(async move {
                upstream.clone().retire(DRAIN).await;
                gateway.start_one(&next);
                gateway.move_listeners(&upstream, &next);
            });
        } else {
            self.start_one(&next);
            self.move_listeners(&upstream, &next);
            self.scope().spawn(upstream.retire(DRAIN));
        }
        Ok(done(&id, "restarting"))
    }

    fn disable(&self, id: &str) -> Answered {
        if let Some(status) = self.disabled_status(id) {
            return Ok(ControlResponse::json(&status.to_json(Stderr::Shown)));
        }
        let upstream = self.managed(id)?;
        let _one_at_a_time = self.changing();
        let old = self.rules();
        self.common().switched_off().insert(upstream.id().clone(), upstream.plan());
        let rest = old.upstreams.iter().filter(|one| !Arc::ptr_eq(one, &upstream)).cloned();
        self.adopt(&old, rest.collect());
        tracing::info!(target: "upstream", upstream = %upstream.id(), "disabled by an operator");
        let id = upstream.id().to_string();
        self.scope().spawn(upstream.retire(DRAIN));
        Ok(done(&id, "disabled"))
    }

    fn enable(&self, id: &str) -> Answered {
        let _one_at_a_time = self.changing();
        let plan = {
            let mut disabled = self.common().switched_off();
            let key = disabled.keys().find(|key| key.as_str().eq_ignore_ascii_case(id)).cloned();
            key.and_then(|key| disabled.remove(&key))
        };
        let Some(plan) = plan else {
            let upstream = self.find(id).ok_or_else(|| unknown(id))?;
            return Ok(ControlResponse::json(&upstream.status().to_json(Stderr::Shown)));
        };
        let old = self.rules();
        let next = self.make_stored(plan);
        self.adopt(&old, old.upstreams.iter().chain([&next]).cloned().collect());
        self.start_one(&next);
        tracing::info!(target: "upstream", upstream = %next.id(), "enabled by an operator");
        Ok(done(next.id().as_str(), "enabled"))
    }

    fn with_controls(&self, act: impl FnOnce(&Controls)) -> Answered {
        let controls = self.shared().controls.get().ok_or_else(|| {
            let message = "the program that runs this gateway does not support that";
            ControlResponse::error(StatusCode::CONFLICT, "not_managed", message)
        })?;
        act(controls);
        Ok(ControlResponse::with_status(StatusCode::ACCEPTED, &json!({ "accepted": true })))
    }
}

fn done(id: &str, state: &str) -> ControlResponse {
    ControlResponse::json(&json!({ "id": id, "state": state }))
}

fn unknown(id: &str) -> ControlResponse {
    let message = format!("there is no upstream `{id}`; `toolyard list` shows them");
    ControlResponse::error(StatusCode::NOT_FOUND, "unknown_upstream", &message)
}

/// The next event that this reader may see; an operator sees all.
async fn next_event(reader: &mut Reader, principal: Option<&Principal>) -> ControlEvent {
    loop {
        match reader.next().await {
            Followed::Lagged(missed) => {
                tracing::warn!(target: "api", missed, "a reader of events was too slow; some events were skipped");
                return ControlEvent {
                    id: None,
                    name: "lagged",
                    data: json!({ "missed": missed }).to_string(),
                };
            }
            Followed::Event { id, event } => {
                if principal.is_none_or(|principal| event.what.is_visible_to(principal)) {
                    let (name, data) =
                        (event.what.name(), event.to_json(Stderr::of(principal.is_none())).to_string());
                    return ControlEvent { id: Some(id), name, data };
                }
            }
        }
    }
}
