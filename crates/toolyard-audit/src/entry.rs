//! One record, before it is written: what happened, and the payloads whose digests are made by the writer.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use toolyard_core::event::{Event, What as Happened};
use toolyard_core::ledger::{Captured, Mark, OpenCall, Record, Status};
use toolyard_core::redact;
use toolyard_core::report::at;
use toolyard_model::ClientKey;
use toolyard_proto::Method;

use crate::Payloads;

/// A larger request is digested at once and its text is not recorded, so that the queue stays small.
const LARGEST: usize = 64 * 1024;

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A call that is about to be sent.
    Opened,
    Ended,
    /// A request that reached no upstream.
    Refused,
    /// A call that needs approval was approved or denied.
    Decided,
    /// A tool is held because of its definition.
    Held,
    /// The definition of a held tool was accepted.
    Accepted,
}

impl What {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Ended => "ended",
            Self::Refused => "refused",
            Self::Decided => "decided",
            Self::Held => "held",
            Self::Accepted => "accepted",
        }
    }
}

pub(crate) struct Entry {
    pub(crate) what: What,
    record: Record,
    call: Option<Arc<OpenCall>>,
    request: Option<Payload>,
    answer: Option<Captured>,
    /// What else a decision has.
    more: Option<Value>,
}

/// A request: all of it, or its length and digest.
enum Payload {
    Whole(Bytes),
    Digest(usize, [u8; 32]),
}

impl Payload {
    fn of(bytes: Bytes) -> Self {
        if bytes.len() <= LARGEST {
            return Self::Whole(bytes);
        }
        Self::Digest(bytes.len(), Sha256::digest(&bytes).into())
    }

    fn put(&self, json: &mut Value, payloads: Payloads) {
        let (length, digest) = match self {
            Self::Whole(bytes) => (bytes.len(), Sha256::digest(bytes).into()),
            Self::Digest(length, digest) => (*length, *digest),
        };
        json["requestBytes"] = json!(length);
        json["requestDigest"] = json!(HEXLOWER.encode(&digest));
        if let (Self::Whole(bytes), Payloads::Redacted) = (self, payloads) {
            json["request"] = json!(redact::payload(bytes).0);
        }
    }
}

impl Entry {
    pub(crate) fn opened(call: &Arc<OpenCall>) -> Self {
        let request = Some(Payload::of(call.params.bytes()));
        Self {
            what: What::Opened,
            record: call.record.clone(),
            call: Some(call.clone()),
            request,
            answer: None,
            more: None,
        }
    }

    pub(crate) fn ended(call: &Arc<OpenCall>, record: &Record, answer: Option<&Captured>) -> Self {
        let request = Some(Payload::of(call.params.bytes()));
        let (record, answer) = (record.clone(), answer.cloned());
        Self { what: What::Ended, record, call: Some(call.clone()), request, answer, more: None }
    }

    pub(crate) fn refused(record: &Record, rule: Option<&str>) -> Self {
        let record = record.clone();
        let more =
            rule.map(|rule| json!({ "notes": [{ "step": "rules", "text": format!("hide by {rule}") }] }));
        Self { what: What::Refused, record, call: None, request: None, answer: None, more }
    }

    /// What was decided about a call or a tool; `None` for events that are no decisions.
    pub(crate) fn decision(event: &Event) -> Option<Self> {
        let operator: Arc<str> = "operator".into();
        let (what, tool, principal, is_good, more) = match &event.what {
            Happened::ApprovalDecided { tool, principal, digest, by, is_approved } => {
                let more = json!({ "by": by, "approved": is_approved, "argumentsDigest": digest });
                (What::Decided, tool, principal.clone(), *is_approved, more)
            }
            Happened::ToolHeld { tool, why } => {
                (What::Held, tool, "gateway".into(), false, json!({ "why": why }))
            }
            Happened::ToolAccepted { tool, why } => {
                (What::Accepted, tool, operator, true, json!({ "why": why }))
            }
            _ => return None,
        };
        let record = Record {
            at: event.at,
            duration: Duration::ZERO,
            upstream: tool.split(':').next().map(Arc::from),
            kind: None,
            name: Some(tool.clone()),
            method: Method::new(if what == What::Decided { "approval" } else { "definition" }),
            principal,
            client: ClientKey::Gateway,
            status: if is_good { Status::Ok } else { Status::Refused(what.as_str()) },
            attempts: 0,
        };
        Some(Self { what, record, call: None, request: None, answer: None, more: Some(more) })
    }

    /// A record without a call, for tests.
    #[cfg(test)]
    pub(crate) fn example(what: What, at: SystemTime) -> Self {
        let record = Record {
            at,
            duration: Duration::from_millis(3),
            upstream: Some("notes".into()),
            kind: None,
            name: Some("notes:search".into()),
            method: Method::new("tools/call"),
            principal: "ann".into(),
            client: ClientKey::Gateway,
            status: Status::Ok,
            attempts: 1,
        };
        Self { what, record, call: None, request: None, answer: None, more: None }
    }

    /// When it happened, in microseconds since 1970.
    pub(crate) fn at(&self) -> i64 {
        micros(self.record.at)
    }

    pub(crate) fn call(&self) -> Option<u64> {
        self.call.as_ref().map(|call| call.trace.call)
    }

    pub(crate) fn upstream(&self) -> Option<&str> {
        self.record.upstream.as_deref()
    }

    pub(crate) fn tool(&self) -> Option<&str> {
        self.record.name.as_deref()
    }

    pub(crate) fn principal(&self) -> &str {
        &self.record.principal
    }

    /// Name of the client program, or its session.
    pub(crate) fn client(&self) -> String {
        let info = self.call.as_ref().and_then(|call| call.origin.client_info.as_ref());
        let name = info.and_then(|info| info.member("name")).and_then(|name| name.as_string());
        name.unwrap_or_else(|| self.record.client_label())
    }

    pub(crate) fn status(&self) -> &'static str {
        if self.what == What::Opened { "open" } else { self.record.status.as_str() }
    }

    /// Rounded as in the text of the record.
    pub(crate) fn duration_us(&self) -> i64 {
        let rounded = self.record.duration.saturating_add(Duration::from_nanos(500));
        i64::try_from(rounded.as_micros()).unwrap_or(i64::MAX)
    }

    /// The record as it is stored and exported.
    pub(crate) fn to_json(&self, run: &str, payloads: Payloads) -> Value {
        let Record { method, status, principal, .. } = &self.record;
        let is_open = self.what == What::Opened;
        let mut json = json!({
            "at": at(self.record.at),
            "what": self.what.as_str(),
            "run": run,
            "call": self.call(),
            "upstream": self.upstream(),
            "tool": self.tool(),
            "method": method.as_str(),
            "principal": principal,
            "session": self.record.client_label(),
            "client": self.client(),
            "status": self.status(),
        });
        if !is_open {
            json["code"] = json!(status.code());
            json["error"] = json!(status.why());
            json["durationMs"] = json!(self.record.milliseconds());
        }
        for (key, value) in self.more.iter().filter_map(Value::as_object).flatten() {
            json[key] = value.clone();
        }
        if let Some(call) = &self.call {
            put_call(&mut json, call, is_open);
        }
        if let Some(request) = &self.request {
            request.put(&mut json, payloads);
        }
        if let Some(answer) = &self.answer {
            json["answerBytes"] = json!(answer.total);
            json["answerDigest"] = json!(HEXLOWER.encode(&answer.digest()));
            if payloads == Payloads::Redacted {
                json["answer"] = json!(redact::payload(&answer.bytes).0);
            }
        }
        json
    }
}

fn put_call(json: &mut Value, call: &OpenCall, is_open: bool) {
    json["round"] = json!(call.rounds());
    json["parent"] = json!(call.trace.parent);
    json["view"] = json!(format!("/mcp/{}", call.origin.view).trim_end_matches('/'));
    json["revision"] = json!(call.origin.revision.as_str());
    if is_open {
        return;
    }
    let passed = call.reached(Mark::Passed);
    let sent = call.reached(Mark::Leased);
    let answered = call.reached(Mark::Answered);
    let (queued, hooked) = (call.reached(Mark::Queued), call.reached(Mark::Hooked));
    if let Some(queued) = queued {
        json["queueUs"] = json!(queued);
    }
    if let Some(hooked) = hooked {
        json["hooksUs"] = json!(hooked.saturating_sub(queued.unwrap_or(0)));
    }
    json["stepsUs"] = json!(passed);
    json["waitUs"] = json!(passed.zip(sent).map(|(from, to)| to.saturating_sub(from)));
    json["upstreamUs"] = json!(sent.zip(answered).map(|(from, to)| to.saturating_sub(from)));
    let notes = call.notes();
    if !notes.is_empty() {
        json["notes"] = notes.iter().map(|note| json!({ "step": note.step, "text": note.text })).collect();
    }
}

pub(crate) fn micros(time: SystemTime) -> i64 {
    i64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()).unwrap_or(i64::MAX)
}
