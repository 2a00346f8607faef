//! What a run with tools has done so far. It is kept apart from the work, so that it can be reported however the work
//! ends: with an answer, with an error, or because its time is up in the middle of calls.

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;

/// One request to the model and the calls that followed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct TurnReport {
    /// What the model wrote beside its calls.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) text: String,
    /// The calls that were begun, in this order.
    pub(crate) calls: Vec<CallReport>,
}

/// One call of a tool.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct CallReport {
    pub(crate) tool: String,
    pub(crate) failed: bool,
    /// Whether it was stopped before it had ended. It may still have had an effect.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unfinished: bool,
    pub(crate) duration_ms: u64,
}

/// The turns of a run that is under way.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<Vec<Turn>>);

#[derive(Debug)]
struct Turn {
    text: String,
    calls: Vec<Call>,
}

#[derive(Debug)]
struct Call {
    tool: String,
    begun: Instant,
    /// When it ended, and whether it failed.
    ended: Option<(Instant, bool)>,
}

/// A call of the last turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallNumber(usize);

impl Turns {
    pub(super) fn begin(&self, text: String) {
        self.0.lock().push(Turn { text, calls: Vec::new() });
    }

    pub(super) fn begin_call(&self, tool: &str) -> CallNumber {
        let call = Call { tool: tool.to_owned(), begun: Instant::now(), ended: None };
        let mut turns = self.0.lock();
        let Some(turn) = turns.last_mut() else { return CallNumber(0) };
        turn.calls.push(call);
        CallNumber(turn.calls.len() - 1)
    }

    pub(super) fn end_call(&self, CallNumber(number): CallNumber, failed: bool) {
        let mut turns = self.0.lock();
        if let Some(call) = turns.last_mut().and_then(|turn| turn.calls.get_mut(number)) {
            call.ended = Some((Instant::now(), failed));
        }
    }

    /// The report, once no call is made any more.
    pub(super) fn into_reports(self) -> Vec<TurnReport> {
        let turns = self.0.into_inner().into_iter();
        turns
            .map(|turn| TurnReport {
                text: turn.text,
                calls: turn.calls.into_iter().map(Call::into_report).collect(),
            })
            .collect()
    }
}

impl Call {
    fn into_report(self) -> CallReport {
        let (end, failed) = self.ended.unwrap_or_else(|| (Instant::now(), true));
        let duration = end.duration_since(self.begun);
        CallReport {
            tool: self.tool,
            failed,
            unfinished: self.ended.is_none(),
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
