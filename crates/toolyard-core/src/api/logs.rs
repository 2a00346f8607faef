//! The logs: what upstreams wrote to stderr, the calls that ended and the changes of state, in the order of time. A
//! reader that follows passes the `next` of its last answer and gets what is new since.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use http::StatusCode;
use serde_json::{Value, json};
use toolyard_model::{ControlRequest, ControlResponse};
use toolyard_proto::Reason;
use toolyard_proto::name::UpstreamId;

use super::{Answered, calls, unknown};
use crate::Gateway;
use crate::report::at;
use crate::upstream::Upstream;

/// How many entries one answer has; the newest are kept.
const MOST: usize = 2_000;

/// Up to where a reader has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LogPosition {
    /// The number of a line on stderr.
    line: u64,
    /// The number after that of a call.
    call: usize,
    /// Microseconds since 1970 of a change of state.
    change: u128,
}

impl LogPosition {
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let place = Self {
            line: parts.next()?.parse().ok()?,
            call: parts.next()?.parse().ok()?,
            change: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(place)
    }

    fn to_text(self) -> String {
        format!("{}-{}-{}", self.line, self.call, self.change)
    }
}

type LogEntry = (SystemTime, Value);

impl Gateway {
    pub(super) fn logs(&self, request: &ControlRequest) -> Answered {
        let after = request.parameter("after");
        let place = match after.as_deref().map(LogPosition::read) {
            None => LogPosition::default(),
            Some(Some(place)) => place,
            Some(None) => {
                let message = "`after` is not the `next` of an answer";
                return Err(ControlResponse::error(StatusCode::BAD_REQUEST, "bad_parameter", message));
            }
        };
        let upstreams = self.logged(request.parameter("upstream").as_deref())?;
        let mut next = place;
        let mut entries = Vec::new();
        for upstream in &upstreams {
            put_lines(&mut entries, upstream, place, &mut next, after.is_some());
            put_changes(&mut entries, upstream, place, &mut next);
        }
        self.put_calls(&mut entries, request.parameter("upstream").as_deref(), place, &mut next);
        entries.sort_by_key(|(time, _)| *time);
        let since = request.parameter("since").unwrap_or_default();
        let mut entries: Vec<Value> = entries.into_iter().map(|(_, entry)| entry).collect();
        entries.retain(|entry| entry["at"].as_str().is_some_and(|at| at >= since.as_str()));
        let entries = entries.split_off(entries.len().saturating_sub(MOST));
        Ok(ControlResponse::json(&json!({ "entries": entries, "next": next.to_text() })))
    }

    /// The upstreams that a reader asks about. One that is switched off has no output, but its calls are known.
    fn logged(&self, id: Option<&str>) -> Result<Vec<Arc<Upstream>>, ControlResponse> {
        let Some(id) = id else {
            let mut all = self.upstreams();
            all.retain(|upstream| *upstream.id() != UpstreamId::yard());
            return Ok(all);
        };
        match self.find(id) {
            Some(upstream) => Ok(vec![upstream]),
            None if self.disabled_status(id).is_some() => Ok(Vec::new()),
            None => Err(unknown(id)),
        }
    }

    fn put_calls(
        &self,
        entries: &mut Vec<LogEntry>,
        only: Option<&str>,
        place: LogPosition,
        next: &mut LogPosition,
    ) {
        for one in self.common().ledger.ended_calls() {
            let (number, ended) = &one;
            next.call = next.call.max(number + 1);
            let upstream = ended.record.upstream.as_deref();
            let is_asked = only.is_none_or(|only| upstream.is_some_and(|own| own.eq_ignore_ascii_case(only)));
            if *number >= place.call && is_asked {
                let mut entry = calls::to_json(&one);
                entry["kind"] = json!("call");
                let ended_at = ended.record.at + ended.record.duration;
                entry["at"] = json!(at(ended_at));
                entries.push((ended_at, entry));
            }
        }
    }
}

fn put_lines(
    entries: &mut Vec<LogEntry>,
    upstream: &Upstream,
    place: LogPosition,
    next: &mut LogPosition,
    is_following: bool,
) {
    let lines = upstream.stderr();
    let id = upstream.id().as_str();
    if let Some(oldest) = lines.first().filter(|oldest| is_following && oldest.before > place.line) {
        let lost = json!({ "at": at(oldest.at), "kind": "lost", "upstream": id });
        entries.push((oldest.at, lost));
    }
    for line in lines {
        next.line = next.line.max(line.number);
        if line.number > place.line {
            let entry = json!({ "at": at(line.at), "kind": "stderr", "upstream": id, "text": line.text });
            entries.push((line.at, entry));
        }
    }
}

fn put_changes(entries: &mut Vec<LogEntry>, upstream: &Upstream, place: LogPosition, next: &mut LogPosition) {
    for change in upstream.state().history.changes() {
        let moment = change.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        next.change = next.change.max(moment);
        if moment > place.change {
            let entry = json!({
                "at": at(change.at), "kind": "state", "upstream": upstream.id().as_str(),
                "from": change.from.as_str(), "to": change.to.as_str(),
                "reason": change.reason.as_ref().map(Reason::summary),
            });
            entries.push((change.at, entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LogPosition;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let place = LogPosition { line: 7, call: 0, change: 1_763_450_000_000_000 };
        assert_eq!(LogPosition::read(&place.to_text()), Some(place));
        for wrong in ["", "1-2", "1-2-3-4", "1-x-3"] {
            assert_eq!(LogPosition::read(wrong), None, "{wrong}");
        }
    }
}
