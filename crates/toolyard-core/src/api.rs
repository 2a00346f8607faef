//! The control API: what a request under `/api/v1` does. Reading states and names is open to every admitted client;
//! changing anything needs an operator.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use toolyard_model::{BoxFuture, Control, ControlEvent, ControlRequest, ControlResponse, Principal};
use toolyard_proto::name::UpstreamId;

use crate::Gateway;
use crate::catalog::{Definitions, ListKind};
use crate::event::{Followed, Reader};
use crate::plan::UpstreamKind;
use crate::report;
use crate::upstream::Upstream;

/// How long calls in flight of an upstream that is restarted or switched off may take to finish.
const DRAIN: Duration = Duration::from_secs(10);

/// What the program around the gateway does on request.
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

impl Control for Gateway {
    fn control(&self, request: ControlRequest) -> BoxFuture<ControlResponse> {
        let response = self.answer(&request).unwrap_or_else(|error| error);
        Box::pin(async { response })
    }
}

type Answered = Result<ControlResponse, ControlResponse>;

impl Gateway {
    /// Sets how the program reloads and stops; until then neither can be done through the API.
    pub fn set_controls(&self, controls: Controls) {
        let _ = self.shared().controls.set(controls);
    }

    fn answer(&self, request: &ControlRequest) -> Answered {
        let segments: Vec<&str> = request.path.split('/').filter(|part| !part.is_empty()).collect();
        match segments.as_slice() {
            ["status"] => read(request, || self.status_json()),
            ["upstreams"] => read(request, || json!({ "upstreams": self.upstreams_json() })),
            ["upstreams", id] => {
                let found = self.find(id);
                let off = || self.disabled_json(id).ok_or_else(|| unknown(id));
                let status = found.map_or_else(off, |one| Ok(one.status().to_json_with_history()))?;
                read(request, || status)
            }
            ["report"] => read(request, || self.report_json(request)),
            ["events"] => match request.method {
                Method::GET => Ok(self.events(request)),
                _ => Err(ControlResponse::method_not_allowed()),
            },
            ["upstreams", id, "restart"] => change(request, || self.restart(id)),
            ["upstreams", id, "enable"] => change(request, || self.enable(id)),
            ["upstreams", id, "disable"] => change(request, || self.disable(id)),
            ["reload"] => change(request, || self.with_controls(|controls| (controls.reload)())),
            ["stop"] => change(request, || self.with_controls(|controls| (controls.stop)())),
            _ => Err(ControlResponse::not_found()),
        }
    }

    fn status_json(&self) -> Value {
        let shared = self.shared();
        let (rules, snapshot) = (shared.catalog.rules(), shared.catalog.snapshot());
        let active = rules.upstreams.iter().filter(|upstream| upstream.links.live().is_some()).count();
        let listed = || snapshot.parts().iter().filter(|part| part.listed).map(|part| &part.definitions);
        let left_out = |definitions: &Arc<Definitions>| {
            ListKind::ALL
                .map(|kind| definitions.list(kind).len() - definitions.shown(kind))
                .iter()
                .sum::<usize>()
        };
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "uptimeSeconds": shared.started.elapsed().as_secs(),
            "upstreams": { "active": active, "total": rules.upstreams.len(), "disabled": shared.common.disabled_json().len() },
            "tools": listed().map(|definitions| definitions.shown(ListKind::Tools)).sum::<usize>(),
            "leftOut": listed().map(left_out).sum::<usize>(),
            "listeners": shared.listeners.count(),
        })
    }

    fn upstreams_json(&self) -> Vec<Value> {
        let mut all: Vec<Value> =
            self.upstreams().iter().map(|upstream| upstream.status().to_json()).collect();
        all.extend(self.common().disabled_json());
        all
    }

    fn disabled_json(&self, id: &str) -> Option<Value> {
        let mut disabled = self.common().disabled_json().into_iter();
        disabled.find(|one| one["id"].as_str().is_some_and(|own| own.eq_ignore_ascii_case(id)))
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

    fn find(&self, id: &str) -> Option<Arc<Upstream>> {
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
            UpstreamKind::Server | UpstreamKind::BuiltIn => return Ok(upstream),
        };
        Err(ControlResponse::error(StatusCode::CONFLICT, "not_managed", message))
    }

    /// Replaces an upstream by a new connection of the same plan; calls in flight may finish on the old one.
    fn restart(&self, id: &str) -> Answered {
        let upstream = self.managed(id)?;
        let _one_at_a_time = self.changing();
        let old = self.rules();
        let plan = upstream.plan();
        let next = self.make(plan, upstream.definitions());
        let put = |one: &Arc<Upstream>| if Arc::ptr_eq(one, &upstream) { next.clone() } else { one.clone() };
        self.adopt(&old, old.upstreams.iter().map(put).collect());
        upstream.life.hand_over(&next);
        self.start_one(&next);
        self.move_listeners(&upstream, &next);
        self.scope().spawn(upstream.retire(DRAIN));
        tracing::info!(target: "upstream", upstream = %next.id(), "restarted by an operator");
        Ok(done(next.id().as_str(), "restarting"))
    }

    fn disable(&self, id: &str) -> Answered {
        if let Some(status) = self.disabled_json(id) {
            return Ok(ControlResponse::json(&status));
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
            return Ok(ControlResponse::json(&upstream.status().to_json()));
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
            let message = "this gateway was not started by a program that can do that";
            ControlResponse::error(StatusCode::CONFLICT, "not_managed", message)
        })?;
        act(controls);
        Ok(ControlResponse::with_status(StatusCode::ACCEPTED, &json!({ "accepted": true })))
    }
}

fn read(request: &ControlRequest, answer: impl FnOnce() -> Value) -> Answered {
    if request.method != Method::GET {
        return Err(ControlResponse::method_not_allowed());
    }
    Ok(ControlResponse::json(&answer()))
}

fn change(request: &ControlRequest, answer: impl FnOnce() -> Answered) -> Answered {
    if request.method != Method::POST {
        return Err(ControlResponse::method_not_allowed());
    }
    request.require_operator()?;
    answer()
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
                return ControlEvent {
                    id: None,
                    name: "lagged",
                    data: json!({ "missed": missed }).to_string(),
                };
            }
            Followed::Event { id, event } => {
                if principal.is_none_or(|principal| event.what.is_visible_to(principal)) {
                    let (name, data) = (event.what.name(), event.to_json().to_string());
                    return ControlEvent { id: Some(id), name, data };
                }
            }
        }
    }
}
