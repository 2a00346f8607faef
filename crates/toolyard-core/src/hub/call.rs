//! The call that `instances_call` makes: the same request under the name of the instance's tool. From there on it is
//! a call like any other, with the steps, the progress and the cancel of that tool, and its unchanged answer.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;
use toolyard_model::{Request, View};
use toolyard_proto::{CallError, Raw};

use super::{HOW, find, needed, own_id, refused, silent, text};
use crate::catalog::{Entry, Snapshot, ViewCatalog, ViewEntry, Visibility};
use crate::upstream::Upstream;

/// The inner request, and the tool it names.
pub(crate) struct InstanceCall {
    pub(crate) request: Request,
    pub(crate) found: ViewEntry,
}

/// The request that `request` wraps.
pub(crate) fn resolve_instances_call(
    snapshot: &Snapshot,
    request: &Request,
) -> Result<InstanceCall, CallError> {
    let at = request.params.find_once("arguments");
    let at = at.map_err(|_| CallError::invalid_params("duplicate `arguments` in `params`"))?;
    let given = at.map_or_else(Raw::empty_object, |at| request.params.slice(at));
    let arguments: Value = given.read().map_err(|error| refused(format!("`arguments`: {error}")))?;
    let tool = needed(&arguments, "tool")?;
    let instance = target(snapshot, request, &arguments)?;
    let found = tool_of(snapshot, request, &instance, tool)?;
    let inner = given.member("arguments").filter(|inner| !inner.is_null());
    let inner = inner.unwrap_or_else(Raw::empty_object);
    if !inner.is_object() {
        return Err(refused(format!("`arguments` must be an object with what `{tool}` takes")));
    }
    // The session cannot poll a task of an instance that it is not connected to.
    let params =
        request.params.without(&["task"]).with("name", &found.entry.own_name_raw).with("arguments", &inner);
    // The headers belong to the outer call.
    let request = Request { params: params.into(), headers: None, relay: false, ..request.clone() };
    Ok(InstanceCall { request, found })
}

/// The instance that a request means: by handle, by id, or the one that its session is connected to.
fn target(snapshot: &Snapshot, request: &Request, arguments: &Value) -> Result<Arc<Upstream>, CallError> {
    let (rules, origin) = (snapshot.rules(), &request.origin);
    let by_id = text(arguments, "instance_id")?.map(|id| find(&rules.upstreams, id)).transpose()?;
    let by_handle = match text(arguments, "handle")? {
        None => None,
        Some(handle) => Some(redeemed(snapshot, request, handle)?),
    };
    match (by_id, by_handle) {
        (Some(one), Some(other)) if !Arc::ptr_eq(one, &other) => {
            Err(refused("`handle` and `instance_id` name two instances; give one of them"))
        }
        (_, Some(one)) => Ok(one),
        (Some(one), None) => Ok(one.clone()),
        (None, None) if origin.view == View::Hub => {
            let target = rules.hub.target(&origin.client).and_then(|id| snapshot.find(&id).cloned());
            target.ok_or_else(|| rules.hub.not_connected(&origin.client))
        }
        (None, None) => Err(refused(
            "not connected to an instance: give the `handle` that `instances_connect` gave, or an `instance_id`",
        )),
    }
}

fn redeemed(snapshot: &Snapshot, request: &Request, handle: &str) -> Result<Arc<Upstream>, CallError> {
    let rules = snapshot.rules();
    let id = rules.hub.handles.redeem(handle, &request.origin.principal, Instant::now());
    let id = id.ok_or_else(|| {
        refused("not connected to an instance: the handle was released, has expired or belongs to another client; `instances_connect` returns a new one")
    })?;
    snapshot.find(&id).cloned().ok_or_else(|| {
        CallError::unavailable(format!("not connected to an instance: `{id}` is no longer there; {HOW}"))
    })
}

/// A tool of the instance, if the caller's own view shows it: a profile may hide it.
fn tool_of(
    snapshot: &Snapshot,
    request: &Request,
    instance: &Arc<Upstream>,
    tool: &str,
) -> Result<ViewEntry, CallError> {
    let own = View::Upstream(instance.name().clone());
    let view = match snapshot.seen_by(&request.origin) {
        Some(view) if view.is_namespaced() => view,
        _ => snapshot.view(&own).ok_or_else(|| CallError::internal("an instance without a view"))?,
    };
    let name = if view.is_namespaced() {
        toolyard_proto::name::canonical(instance.id(), tool)
    } else {
        tool.to_owned()
    };
    let steps = &snapshot.rules().steps;
    let found = view.tool(&name).filter(|found| !steps.hides(&request.origin, &found.entry));
    found.ok_or_else(|| no_tool(view, &steps.visibility(&request.origin), instance, tool))
}

fn no_tool(view: &ViewCatalog, seen: &Visibility, instance: &Upstream, tool: &str) -> CallError {
    let id = own_id(instance);
    if instance.definitions().is_none() {
        return silent(instance);
    }
    if view.upstream(instance.id().as_str()).is_none() {
        return refused(format!("instance `{id}` is not in this profile"));
    }
    let is_own = |entry: &&Arc<Entry>| entry.upstream.id() == instance.id() && !seen.hides(entry);
    let own = view.listed_tools().filter(is_own);
    let names: Vec<&str> = own.map(|entry| entry.own_name.as_str()).collect();
    refused(format!("instance `{id}` has no tool `{tool}`; it has {}", names.join(", ")))
}
