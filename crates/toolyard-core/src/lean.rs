//! The lean view: `search_tools` and `call_tool` instead of every definition, for clients whose model reads each
//! definition in every request. `call_tool` names a tool in its arguments; from there on the request is a call of that
//! tool like any other, with its steps, its record, its progress and its cancel, and its answer as it is.

use serde_json::json;
use toolyard_model::{Request, View};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{CallError, Raw};

use crate::catalog::{Entry, Snapshot};
use crate::yard;

pub(crate) const SEARCH: &str = "search_tools";
pub(crate) const CALL: &str = "call_tool";

/// The two tools that every lean view lists.
pub(crate) fn tools() -> Vec<Raw> {
    let call = json!({
        "name": CALL,
        "title": "Call a tool",
        "description": "Calls a tool that `search_tools` found; the answer is that tool's own.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": "The tool's `name` as `search_tools` returned it" },
                "arguments": { "type": "object", "description": "What the tool's `inputSchema` asks for" },
            },
            "required": ["name"],
        },
    });
    vec![yard::search_tool(yard::LEAN_SEARCH_LIMIT), call.into()]
}

/// Whether this is the tool that calls others. It grants nothing by itself, so no rule hides it.
pub(crate) fn is_call(entry: &Entry) -> bool {
    entry.own_name == CALL && *entry.upstream.id() == UpstreamId::yard()
}

/// The request that a call of `call_tool` in a lean view wraps; `None` for all other requests.
pub(crate) fn resolve_call_tool(
    snapshot: &Snapshot,
    request: &Request,
) -> Option<Result<Request, CallError>> {
    if !matches!(request.origin.view, View::Lean | View::Profile(_)) {
        return None;
    }
    let view = snapshot.view(&request.origin.view)?;
    let name = request.params.find_once("name").ok().flatten()?;
    let is_call = view.is_lean() && request.params.slice(name).text().is_some_and(|name| *name == *CALL);
    is_call.then(|| inner(request))
}

fn inner(request: &Request) -> Result<Request, CallError> {
    let duplicate = |_| CallError::invalid_params("duplicate `arguments` in `params`");
    let at = request.params.find_once("arguments").map_err(duplicate)?;
    let given = at.map_or_else(Raw::empty_object, |at| request.params.slice(at));
    let name = given.member("name").filter(|name| name.as_string().is_some());
    let name = name.ok_or_else(|| {
        CallError::invalid_params(
            "`call_tool` needs `name`, the name of a tool as `search_tools` returned it, and its `arguments`",
        )
    })?;
    if name.as_string().as_deref() == Some(CALL) {
        return Err(CallError::invalid_params("`call_tool` cannot call itself; name the tool to call"));
    }
    let arguments = given.member("arguments").filter(|inner| !inner.is_null());
    let arguments = arguments.unwrap_or_else(Raw::empty_object);
    if !arguments.is_object() {
        return Err(CallError::invalid_params(
            "`arguments` of `call_tool` must be an object with the arguments of the tool",
        ));
    }
    let params = request.params.with("name", &name).with("arguments", &arguments);
    // The headers belong to the outer call.
    Ok(Request { params: params.into(), headers: None, relay: false, ..request.clone() })
}
