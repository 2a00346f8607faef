//! A call that has ended, as far as its spans need it. Payloads are not kept.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use toolyard_core::ledger::spans::{Sending, SpanId, TraceId};
use toolyard_core::ledger::{Mark, Note, OpenCall, Record, Status};
use toolyard_proto::Method;

pub(crate) struct Finished {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
    pub(crate) parent: Option<SpanId>,
    pub(crate) sends: Vec<Sending>,
    pub(crate) record: Record,
    pub(crate) call: u64,
    pub(crate) revision: &'static str,
    pub(crate) passed: Option<u64>,
    pub(crate) leased: Option<u64>,
    pub(crate) notes: Vec<Note>,
}

impl Finished {
    /// `None` for a call that is not traced.
    pub(crate) fn of(call: &OpenCall, record: &Record) -> Option<Self> {
        let spans = call.spans()?;
        Some(Self {
            trace: spans.trace,
            span: spans.span,
            parent: spans.parent,
            sends: spans.sends(),
            record: record.clone(),
            call: call.trace.call,
            revision: call.origin.revision.as_str(),
            passed: call.reached(Mark::Passed),
            leased: call.reached(Mark::Leased),
            notes: call.notes(),
        })
    }

    /// A point of the call in nanoseconds since 1970.
    pub(crate) fn at(&self, micros: u64) -> u64 {
        nanos(self.record.at + Duration::from_micros(micros))
    }

    pub(crate) fn end(&self) -> u64 {
        nanos(self.record.at + self.record.duration)
    }

    /// The tool without the name of its upstream.
    pub(crate) fn target(&self) -> Option<&str> {
        let name = self.record.name.as_deref()?;
        let own = self.record.upstream.as_deref().and_then(|upstream| name.strip_prefix(upstream));
        Some(own.and_then(|own| own.strip_prefix(':')).unwrap_or(name))
    }

    /// The name of the span by the conventions for MCP: `tools/call echo`.
    pub(crate) fn span_name(&self) -> String {
        let method = self.record.method.as_str();
        self.target().map_or_else(|| method.to_owned(), |target| format!("{method} {target}"))
    }

    pub(crate) fn is_tool_call(&self) -> bool {
        self.record.method == Method::TOOLS_CALL
    }

    pub(crate) fn error(&self) -> Option<Arc<str>> {
        let status = self.record.status;
        let text = match status {
            Status::Ok | Status::Answered => return None,
            Status::ToolError => "tool_error".to_owned(),
            Status::ProtocolError(code) => code.to_string(),
            Status::Refused(why) | Status::Failed(why) => why.to_owned(),
            Status::Timeout | Status::Cancelled => status.as_str().to_owned(),
        };
        Some(text.into())
    }
}

fn nanos(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}
