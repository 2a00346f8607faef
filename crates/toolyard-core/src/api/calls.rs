//! Calls under way and calls that have ended: lists, one with its payloads, and cancel.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};
use toolyard_model::{ControlRequest, ControlResponse, Origin, Principal};
use toolyard_proto::Revision;

use super::Answered;
use crate::Gateway;
use crate::ledger::{Captured, Details, Ended, Mark, OpenCall, to_milliseconds};
use crate::redact;

/// How many calls one answer lists.
const MOST: usize = 256;

impl Gateway {
    /// Calls under way and the last that have ended, the newest first.
    pub(super) fn calls(&self, request: &ControlRequest) -> ControlResponse {
        if request.is_operator {
            self.common().ledger.watch();
        }
        let asking = (!request.is_operator).then_some(&request.principal);
        let limit = super::number(request, "limit").unwrap_or(MOST).min(MOST);
        let mut calls: Vec<Value> = self.open_calls_json(asking);
        calls.reverse();
        let ended = self.common().ledger.ended_calls();
        calls.extend(ended.iter().filter(|(_, one)| may_see(asking, &one.record.principal)).map(to_json));
        if let Some(upstream) = request.parameter("upstream") {
            calls.retain(|call| call["upstream"] == upstream);
        }
        calls.truncate(limit);
        ControlResponse::json(&json!({ "calls": calls }))
    }

    pub(super) fn open_calls_json(&self, asking: Option<&Principal>) -> Vec<Value> {
        let open = self.common().ledger.open_calls();
        let seen = open.iter().filter(|call| may_see(asking, &call.record.principal));
        seen.map(|call| call.to_json()).collect()
    }

    /// One call with everything that is kept of it.
    pub(super) fn call(&self, id: &str) -> Answered {
        let ledger = &self.common().ledger;
        ledger.watch();
        if let Some(open) = self.open_call(id) {
            let mut json = open.to_json();
            put_details(&mut json, &open, None);
            return Ok(ControlResponse::json(&json));
        }
        let wanted: Option<u64> = id.parse().ok();
        let is_it = |one: &&(usize, Ended)| one.1.trace.is_some_and(|trace| Some(trace.call) == wanted);
        let ended = ledger.ended_calls();
        let Some(found) = ended.iter().find(is_it) else { return Err(unknown(id)) };
        let mut json = to_json(found);
        if let Some(details) = &found.1.details {
            let Details { call, answer } = &**details;
            put_details(&mut json, call, answer.as_ref());
        }
        Ok(ControlResponse::json(&json))
    }

    pub(super) fn cancel_call(&self, id: &str) -> Answered {
        let open = self.open_call(id).ok_or_else(|| unknown(id))?;
        open.cancel();
        tracing::info!(target: "calls", call = open.trace.call, "cancelled by an operator");
        Ok(ControlResponse::json(&json!({ "call": open.trace.call, "state": "cancelled" })))
    }

    fn open_call(&self, id: &str) -> Option<Arc<OpenCall>> {
        let id: u64 = id.parse().ok()?;
        self.common().ledger.open_calls().into_iter().find(|call| call.trace.call == id)
    }
}

fn may_see(asking: Option<&Principal>, owner: &Arc<str>) -> bool {
    asking.is_none_or(|asking| asking.name() == owner)
}

/// A call that has ended, with a number that only grows.
pub(super) fn to_json((number, ended): &(usize, Ended)) -> Value {
    let mut json = ended.record.to_json();
    json["state"] = json!("ended");
    json["number"] = json!(number);
    json["hasDetails"] = json!(ended.details.is_some());
    json["program"] = json!(ended.origin.as_deref().and_then(program));
    if let Some(details) = &ended.details {
        json["marks"] = marks(&details.call);
    }
    if let Some(trace) = ended.trace {
        json["call"] = json!(trace.call);
        json["round"] = json!(trace.round);
        json["parent"] = json!(trace.parent);
    }
    json
}

/// The name of the client program.
fn program(origin: &Origin) -> Option<String> {
    let info = origin.client_info.as_ref()?;
    info.member("title").or_else(|| info.member("name"))?.as_string()
}

fn put_details(json: &mut Value, call: &OpenCall, answer: Option<&Captured>) {
    let Origin { view, revision, client_info, .. } = &*call.origin;
    json["hasDetails"] = json!(true);
    json["client"] = json!(client_info);
    json["view"] = json!(format!("/mcp/{view}").trim_end_matches('/'));
    json["clientRevision"] = json!(revision.as_str());
    json["upstreamRevision"] = json!(call.upstream_revision().map(Revision::as_str));
    let (text, is_redacted) = redact::payload(call.params.as_bytes());
    json["request"] =
        json!({ "text": text, "bytes": call.params.len(), "redacted": is_redacted, "whole": true });
    if let Some(answer) = answer {
        let (text, is_redacted) = redact::payload(&answer.bytes);
        json["answer"] = json!({
            "text": text, "bytes": answer.total, "redacted": is_redacted, "whole": answer.is_whole(),
        });
    }
    json["marks"] = marks(call);
    let note = |note: &crate::ledger::Note| json!({ "step": note.step, "text": note.text, "atMs": to_milliseconds(note.at) });
    json["notes"] = call.notes().iter().map(note).collect();
}

/// When a call reached what, from its beginning: where its time went.
fn marks(call: &OpenCall) -> Value {
    let reached = |mark| call.reached(mark).map(to_milliseconds);
    json!({
        "queuedMs": reached(Mark::Queued), "hookedMs": reached(Mark::Hooked), "reviewedMs": reached(Mark::Reviewed),
        "passedMs": reached(Mark::Passed), "sentMs": reached(Mark::Leased), "answeredMs": reached(Mark::Answered),
    })
}

fn unknown(id: &str) -> ControlResponse {
    let message = format!("call {id} is neither under way nor among the last calls");
    ControlResponse::error(StatusCode::NOT_FOUND, "unknown_call", &message)
}
