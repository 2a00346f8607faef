//! Finds the upstream behind a reference, a URI or a task id, and explains why a name leads nowhere.

use std::sync::Arc;

use toolyard_model::Request;
use toolyard_proto::uri::ResultKind;
use toolyard_proto::{CallError, Params, Raw, Reason};

use super::{edits, member, string_member, view};
use crate::call::Edits;
use crate::catalog::{Snapshot, ViewCatalog};
use crate::upstream::Upstream;
use crate::{bridge, hub, tasks};

pub(super) fn unknown(
    snapshot: &Snapshot,
    request: &Request,
    view: &ViewCatalog,
    what: &str,
    name: &str,
) -> CallError {
    if let Some(error) = without_instance(snapshot, request, view) {
        return error;
    }
    if let Some(reason) = view.why_left_out(name) {
        return CallError::invalid_params(format!("{what} `{name}` is not shown: {reason}"));
    }
    if let Some(why) = why_unlisted(snapshot, view, name) {
        return CallError::invalid_params(format!("unknown {what} `{name}`: {why}"));
    }
    if view.is_lean() && what == "tool" {
        let how =
            "`search_tools` finds tools by words, and `call_tool` calls them by the name that it returns";
        return CallError::invalid_params(format!("unknown tool `{name}`; {how}"));
    }
    CallError::invalid_params(format!("unknown {what} `{name}`; `{what}s/list` lists the available ones"))
}

pub(super) fn unknown_resource(uri: &str) -> CallError {
    CallError::invalid_params(format!("unknown resource {uri}; `resources/list` lists the resources"))
}

pub(super) fn unknown_skill(uri: &str) -> CallError {
    CallError::invalid_params(format!("unknown skill {uri}; `skills/list` lists the skills"))
}

/// Whether a name in a view of many upstreams seems to be one of this upstream's.
pub(super) fn is_of(name: &str, upstream: &Upstream) -> bool {
    let rest = name.strip_prefix(upstream.id().as_str());
    rest.is_some_and(|rest| rest.starts_with("__") || rest.starts_with(':'))
}

/// Why the upstream that a name seems to belong to is unavailable, if its definitions were never received. Only for the
/// error message: nothing is called by it.
fn why_unlisted(snapshot: &Snapshot, view: &ViewCatalog, name: &str) -> Option<Reason> {
    let is_meant = |upstream: &&Arc<Upstream>| {
        let is_named = is_of(name, upstream);
        is_named && upstream.definitions().is_none()
    };
    let upstream = snapshot.rules().upstreams.iter().filter(|_| view.alone.is_none()).find(is_meant)?;
    Some(upstream.why_unavailable(&upstream.state()))
}

/// In the hub view, whatever is not the hub's own needs an instance.
pub(super) fn without_instance(
    snapshot: &Snapshot,
    request: &Request,
    view: &ViewCatalog,
) -> Option<CallError> {
    let silent = view.alone.as_ref().filter(|alone| alone.definitions().is_none());
    match (view.is_hub, &view.alone, silent) {
        (true, None, _) => Some(snapshot.rules().hub.not_connected(&request.origin.client)),
        (true, _, Some(silent)) => Some(hub::silent(silent)),
        _ => None,
    }
}

pub(super) fn complete_target(
    snapshot: &Snapshot,
    request: &Request,
) -> Result<(Arc<Upstream>, Params), CallError> {
    let view = view(snapshot, request)?;
    if let Some(alone) = &view.alone {
        return Ok((alone.clone(), request.params.clone()));
    }
    let reference = Params::from(request.params.slice(member(&request.params, "ref")?));
    match string_member(&reference, "type")?.as_str() {
        "ref/prompt" => {
            let name = string_member(&reference, "name")?;
            let entry =
                view.prompt(&name).ok_or_else(|| unknown(snapshot, request, view, "prompt", &name))?;
            let params =
                request.params.with_path(&["ref", "name"], &Raw::from_serialize(&entry.entry.own_name));
            Ok((entry.entry.upstream.clone(), params.into()))
        }
        "ref/resource" => {
            let uri = string_member(&reference, "uri")?;
            let owner = view.resource(&uri);
            let (upstream, own) =
                owner.ok_or_else(|| CallError::invalid_params(format!("unknown resource {uri}")))?;
            Ok((upstream, request.params.with_path(&["ref", "uri"], &Raw::from_serialize(&own)).into()))
        }
        other => Err(CallError::invalid_params(format!("`ref.type` {other:?} is not known"))),
    }
}

pub(super) fn task_target(
    snapshot: &Snapshot,
    request: &Request,
) -> Result<(Arc<Upstream>, Params, Edits), CallError> {
    let view = view(snapshot, request)?;
    if let Some(alone) = &view.alone {
        return Ok((alone.clone(), request.params.clone(), Edits::default()));
    }
    if !bridge::has_inbox(&request.origin) && !tasks::declared(&request.origin) {
        return Err(tasks::undeclared());
    }
    let shown = string_member(&request.params, "taskId")?;
    let found = tasks::own(&shown).and_then(|(id, own)| Some((view.upstream(id)?.clone(), own)));
    let (upstream, own) =
        found.ok_or_else(|| CallError::invalid_params(format!("unknown task {shown:?}")))?;
    let params = request.params.with("taskId", &Raw::from_serialize(&own));
    let edits = edits(request, &upstream, ResultKind::ToolResult);
    Ok((upstream, params.into(), Edits { tasks: true, ..edits }))
}
