//! The requests that wait for an operator: calls that need approval, and tools whose definitions have changed.
//! `toolyard approve` and the dashboard use it.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Map, Value, json};
use toolyard_model::{BoxFuture, ControlRequest, ControlResponse};
use toolyard_policy::pin::Held;
use toolyard_proto::Raw;
use toolyard_proto::name::canonical;

use super::Answered;
use crate::Gateway;
use crate::catalog::ListKind;
use crate::pins;
use crate::upstream::Upstream;

/// The requests that wait at other gateways of a cluster, and a way to decide about it there.
pub trait ApprovalsElsewhere: Send + Sync + 'static {
    /// Calls and tools, each with its `node`, in the form of [`Gateway::waiting`].
    fn waiting(&self) -> Value;

    /// A call that waits there under this id, with all of its arguments. Nothing if there is none.
    fn waiting_call(&self, id: &str) -> Option<Value>;

    /// Decides about what waits there under this id. Nothing if there is none.
    fn decide(&self, id: &str, is_approved: bool) -> BoxFuture<Option<Result<Value, String>>>;
}

impl Gateway {
    /// Shows what waits elsewhere, too, and decides about it. Set once.
    pub fn set_approvals_elsewhere(&self, elsewhere: Arc<dyn ApprovalsElsewhere>) {
        let _ = self.shared().approvals_elsewhere.set(elsewhere);
    }

    /// The `calls` and `tools` that wait for an operator at this gateway.
    pub fn waiting(&self) -> Value {
        let Value::Object(mut all) = self.own_approvals_json() else { return Value::Null };
        all.retain(|key, _| key == "calls" || key == "tools");
        Value::Object(all)
    }

    /// Decides about a call or tool that waits at this gateway. Nothing if there is none of that id.
    pub fn decide(&self, id: &str, is_approved: bool) -> Option<Result<Value, String>> {
        let answered = if is_approved { self.approve(id) } else { self.deny(id) };
        match answered {
            Ok(value) => Some(Ok(value)),
            Err(NotDecided::Unknown) => None,
            Err(NotDecided::Locked(message)) => Some(Err(message)),
        }
    }

    /// Decides about what the body names, wherever it waits.
    pub(super) fn decide_anywhere(&self, request: &ControlRequest, is_approved: bool) -> BoxFuture<Answered> {
        let (gateway, id) = (self.clone(), id_in(request));
        Box::pin(async move {
            let id = id?;
            let decided = match (gateway.decide(&id, is_approved), gateway.shared().approvals_elsewhere.get())
            {
                (None, Some(elsewhere)) => elsewhere.decide(&id, is_approved).await,
                (decided, _) => decided,
            };
            match decided {
                Some(Ok(value)) => Ok(ControlResponse::json(&value)),
                Some(Err(message)) => {
                    Err(ControlResponse::error(StatusCode::CONFLICT, "not_decided", &message))
                }
                None => Err(no_such_approval(&id)),
            }
        })
    }

    /// Everything that waits, here and elsewhere, and the last changes that did not have to.
    pub(super) fn approvals_json(&self) -> Value {
        let mut all = self.own_approvals_json();
        let elsewhere = self.shared().approvals_elsewhere.get().map(|elsewhere| elsewhere.waiting());
        for key in ["calls", "tools"] {
            let more = elsewhere.as_ref().and_then(|more| more[key].as_array().cloned());
            if let (Some(own), Some(more)) = (all[key].as_array_mut(), more) {
                own.extend(more);
            }
        }
        all
    }

    /// One call that waits, here or elsewhere, with all of its arguments.
    pub(super) fn waiting_call(&self, id: &str) -> Answered {
        let elsewhere = || self.shared().approvals_elsewhere.get()?.waiting_call(id);
        let call = self.shared().approvals.whole_json(id).or_else(elsewhere);
        call.map(|call| ControlResponse::json(&call)).ok_or_else(|| no_such_approval(id))
    }

    fn own_approvals_json(&self) -> Value {
        let upstreams = self.upstreams();
        let held = |upstream: &Arc<Upstream>| -> Vec<Value> {
            held_of(upstream).iter().map(|held| pins::to_json(upstream.id(), held)).collect()
        };
        let announced = |upstream: &Arc<Upstream>| -> Vec<Value> {
            let known = self.shared().outlets.pins.as_ref().filter(|_| pins::is_pinned(upstream.kind()));
            let known = known.map(|pins| pins.announced(upstream.id())).unwrap_or_default();
            known.iter().map(|one| pins::announced_json(upstream.id(), one)).collect()
        };
        let (calls, decided) = self.shared().approvals.to_json();
        json!({
            "calls": calls,
            "decided": decided,
            "tools": upstreams.iter().flat_map(held).collect::<Vec<_>>(),
            "announced": upstreams.iter().flat_map(announced).collect::<Vec<_>>(),
        })
    }

    /// The tools of each server as it defines them now, those that are held included, for lock files.
    pub(super) fn definitions_json(&self) -> Value {
        let tools = |upstream: &Arc<Upstream>| {
            let definitions = upstream.definitions().filter(|_| pins::is_pinned(upstream.kind()))?;
            let tool = |raw: &Raw| Some((raw.member("name")?.as_string()?, raw.read::<Value>().ok()?));
            let tools: Map<String, Value> =
                definitions.list(ListKind::Tools).iter().filter_map(tool).collect();
            Some((upstream.id().to_string(), Value::Object(tools)))
        };
        json!({ "upstreams": self.upstreams().iter().filter_map(tools).collect::<Map<_, _>>() })
    }

    /// Approves a call, a held tool by its canonical id, or all held tools of an upstream by its id.
    fn approve(&self, id: &str) -> Result<Value, NotDecided> {
        if self.shared().approvals.decide(id, true).is_some() {
            return Ok(json!({ "approved": [id] }));
        }
        let mut approved = Vec::new();
        for upstream in self.upstreams() {
            let is_whole = upstream.id().as_str() == id;
            let is_meant = |held: &&Held| is_whole || canonical(upstream.id(), &held.tool) == id;
            for held in held_of(&upstream).iter().filter(is_meant) {
                approved.push(self.approve_tool(&upstream, held)?);
            }
            if !approved.is_empty() {
                upstream.review_again(&self.shared().outlets);
                return Ok(json!({ "approved": approved }));
            }
        }
        Err(NotDecided::Unknown)
    }

    fn approve_tool(&self, upstream: &Upstream, held: &Held) -> Result<String, NotDecided> {
        let id = canonical(upstream.id(), &held.tool);
        let pins = self.shared().outlets.pins.as_ref();
        let Some(pins) = pins.filter(|_| !held.is_locked()) else {
            let message =
                format!("a lock file decides about `{id}`; `toolyard lock` accepts what is offered now");
            return Err(NotDecided::Locked(message));
        };
        pins.accept(upstream.id(), held);
        tracing::info!(target: "upstream", tool = %id, "a changed definition was approved by an operator");
        Ok(id)
    }

    /// Denies a call. A held tool cannot be denied: it stays held until it is approved.
    fn deny(&self, id: &str) -> Result<Value, NotDecided> {
        let denied = self.shared().approvals.decide(id, false);
        denied.map(|_| json!({ "denied": id })).ok_or(NotDecided::Unknown)
    }
}

/// Why there is no decision.
enum NotDecided {
    /// There is no pending approval with that id here.
    Unknown,
    Locked(String),
}

fn held_of(upstream: &Upstream) -> pins::HeldTools {
    upstream.definitions().map(|definitions| definitions.held().clone()).unwrap_or_default()
}

pub(super) fn id_in(request: &ControlRequest) -> Result<String, ControlResponse> {
    let body: Option<Value> = serde_json::from_slice(&request.body).ok();
    body.and_then(|body| body["id"].as_str().map(str::to_owned)).ok_or_else(|| {
        let message = "the body must be a JSON object with the text `id`";
        ControlResponse::error(StatusCode::BAD_REQUEST, "invalid_body", message)
    })
}

fn no_such_approval(id: &str) -> ControlResponse {
    let message = format!("there is no pending approval `{id}`; `toolyard approve` lists them");
    ControlResponse::error(StatusCode::NOT_FOUND, "unknown_approval", &message)
}
