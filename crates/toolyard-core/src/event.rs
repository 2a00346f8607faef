//! The events of a gateway. Each event goes to the sinks, in line, so that they miss nothing, and into a
//! bounded log that readers follow at their own pace: a reader that is too slow learns how many events it missed.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::SystemTime;

use data_encoding::HEXLOWER;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::watch;
use toolyard_model::{BoxFuture, Principal, View};
use toolyard_proto::{CallError, Reason};

use crate::call::Trace;
use crate::ledger::{Captured, OpenCall, Record};
use crate::report::at;
use crate::status::Stderr;
use crate::upstream::state::Phase;

/// How many events are kept for readers.
const KEPT: usize = 4_096;

/// One event. It is made once and never changed.
#[derive(Clone, Debug)]
pub struct Event {
    pub at: SystemTime,
    pub what: What,
}

/// The kind of an event, with its data.
#[derive(Clone, Debug)]
pub enum What {
    /// A call was accepted and is about to pass its steps. The record has neither status nor duration yet.
    CallOpened {
        trace: Trace,
        record: Arc<Record>,
    },
    /// Its answer has ended.
    CallEnded {
        trace: Trace,
        record: Arc<Record>,
    },
    /// A request that reached no upstream.
    Refused {
        record: Arc<Record>,
        /// The rule that hides what was asked for. Only for the audit: to its client, it does not exist.
        rule: Option<String>,
    },
    /// An upstream entered another phase of its life.
    UpstreamChanged {
        upstream: Arc<str>,
        from: Phase,
        to: Phase,
        reason: Option<Reason>,
    },
    /// Lists changed: the upstreams that offer something else now.
    CatalogChanged {
        upstreams: Vec<Arc<str>>,
    },
    /// A call that needs approval was approved or denied.
    ApprovalDecided {
        tool: Arc<str>,
        /// The principal that made the call.
        principal: Arc<str>,
        /// The digest of the arguments.
        digest: Arc<str>,
        /// `client` or `operator`.
        by: &'static str,
        is_approved: bool,
    },
    /// A tool is held because of its definition.
    ToolHeld {
        tool: Arc<str>,
        why: String,
    },
    /// An operator has accepted the definition of a held tool.
    ToolAccepted {
        tool: Arc<str>,
        why: String,
    },
    /// Something happened in a pack, such as a line that an agent has written.
    Published {
        pack: Arc<str>,
        /// The owner of what it is about.
        principal: Arc<str>,
        event: Arc<Value>,
    },
    SessionBegan {
        client: String,
        principal: Principal,
        view: View,
    },
    SessionEnded {
        client: String,
        principal: Option<Arc<str>>,
    },
}

impl What {
    pub fn name(&self) -> &'static str {
        match self {
            Self::CallOpened { .. } => "call.opened",
            Self::CallEnded { .. } => "call.ended",
            Self::Refused { .. } => "call.refused",
            Self::UpstreamChanged { .. } => "upstream.changed",
            Self::CatalogChanged { .. } => "catalog.changed",
            Self::ApprovalDecided { .. } => "approval.decided",
            Self::ToolHeld { .. } => "tool.held",
            Self::ToolAccepted { .. } => "tool.accepted",
            Self::Published { .. } => "pack.event",
            Self::SessionBegan { .. } => "session.began",
            Self::SessionEnded { .. } => "session.ended",
        }
    }

    /// Whether a client that is not an operator may read it: everything but other
    /// principals' calls and sessions, and tools that may be hidden from it.
    pub fn is_visible_to(&self, principal: &Principal) -> bool {
        let own = &**principal.name();
        match self {
            Self::CallOpened { record, .. }
            | Self::CallEnded { record, .. }
            | Self::Refused { record, .. } => *record.principal == *own,
            Self::SessionBegan { principal, .. } => **principal.name() == *own,
            Self::SessionEnded { principal, .. } => principal.as_deref() == Some(own),
            Self::ApprovalDecided { principal, .. } | Self::Published { principal, .. } => {
                **principal == *own
            }
            Self::ToolHeld { .. } | Self::ToolAccepted { .. } => false,
            Self::UpstreamChanged { .. } | Self::CatalogChanged { .. } => true,
        }
    }
}

impl Event {
    pub fn to_json(&self, stderr: Stderr) -> Value {
        let mut json = match &self.what {
            What::CallOpened { trace, record } => opened(trace, record),
            What::CallEnded { trace, record } => {
                let mut json = record.to_json();
                put_trace(&mut json, trace);
                json
            }
            What::Refused { record, .. } => record.to_json(),
            What::UpstreamChanged { upstream, from, to, reason } => json!({
                "upstream": upstream, "from": from.as_str(), "to": to.as_str(),
                "reason": stderr.summary(reason.as_ref()), "hint": reason.as_ref().and_then(Reason::hint),
            }),
            What::CatalogChanged { upstreams } => json!({ "upstreams": upstreams }),
            What::ApprovalDecided { tool, principal, digest, by, is_approved } => json!({
                "tool": tool, "principal": principal, "digest": digest, "by": by, "approved": is_approved,
            }),
            What::ToolHeld { tool, why } | What::ToolAccepted { tool, why } => {
                json!({ "tool": tool, "why": why })
            }
            What::Published { pack, principal, event } => {
                json!({ "pack": pack, "principal": principal, "event": &**event })
            }
            What::SessionBegan { client, principal, view } => {
                json!({ "client": client, "principal": principal.name(), "view": format!("/mcp/{view}") })
            }
            What::SessionEnded { client, .. } => json!({ "client": client }),
        };
        json["at"] = json!(at(self.at));
        json
    }
}

fn opened(trace: &Trace, record: &Record) -> Value {
    let mut json = record.to_json();
    for key in ["status", "code", "error", "durationMs"] {
        json.as_object_mut().map(|json| json.remove(key));
    }
    put_trace(&mut json, trace);
    json
}

fn put_trace(json: &mut Value, trace: &Trace) {
    json["call"] = json!(trace.call);
    json["round"] = json!(trace.round);
    json["attempt"] = json!(trace.attempt);
    json["parent"] = json!(trace.parent);
}

/// Receives events in line. It must not wait.
pub trait Sink: Send + Sync + 'static {
    /// Everything but calls that reached an upstream.
    fn take(&self, event: &Event);

    /// A call is about to be sent. It is sent when the future, if there is one, has ended well; otherwise the call
    /// fails with that error.
    fn call_opened(&self, _call: &Arc<OpenCall>) -> Option<BoxFuture<Result<(), CallError>>> {
        None
    }

    /// The answer of a call has ended. It is given where [`wants_answers`](Self::wants_answers) asks for it.
    fn call_ended(&self, _call: &Arc<OpenCall>, _record: &Record, _answer: Option<&Captured>) {}

    /// Whether answers are kept for [`call_ended`](Self::call_ended).
    fn wants_answers(&self) -> bool {
        false
    }

    /// The lines that the sink adds to the metrics of the gateway, in the text format.
    fn metrics(&self, _out: &mut String) {}
}

/// The sinks that the embedding program adds.
#[derive(Clone, Default)]
pub struct Sinks(pub Vec<Arc<dyn Sink>>);

impl fmt::Debug for Sinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sinks({})", self.0.len())
    }
}

/// All events of a gateway.
pub struct Events {
    /// Distinguishes ids of this run from those of another.
    run: String,
    sinks: Sinks,
    kept: Mutex<RecentEvents>,
    latest: watch::Sender<u64>,
    /// How many readers follow. Calls, which are many, are events only while one does or a sink wants them.
    readers: AtomicUsize,
    /// Whether there was ever a reader, which may come back for what it missed.
    ever_read: AtomicU64,
}

#[derive(Default)]
struct RecentEvents {
    events: VecDeque<Event>,
    /// The number of the next event; the first is 1.
    next: u64,
}

impl Default for Events {
    fn default() -> Self {
        Self::new(Sinks::default())
    }
}

impl Events {
    pub(crate) fn new(sinks: Sinks) -> Self {
        let mut run = [0; 4];
        // Without randomness a reader from an earlier run may be given events again.
        let _ = getrandom::fill(&mut run);
        Self {
            run: HEXLOWER.encode(&run),
            sinks,
            kept: Mutex::new(RecentEvents { events: VecDeque::new(), next: 1 }),
            latest: watch::Sender::new(0),
            readers: AtomicUsize::new(0),
            ever_read: AtomicU64::new(0),
        }
    }

    fn kept(&self) -> MutexGuard<'_, RecentEvents> {
        self.kept.lock()
    }

    /// Whether a refused request is worth an event.
    pub(crate) fn wants_calls(&self) -> bool {
        self.is_read() || !self.sinks.0.is_empty()
    }

    /// Whether there was ever a reader; without one, calls are no events.
    pub(crate) fn is_read(&self) -> bool {
        self.ever_read.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn wants_answers(&self) -> bool {
        self.sinks.0.iter().any(|sink| sink.wants_answers())
    }

    /// Reports that a call was opened. Returns what must be awaited before it is sent.
    pub(crate) fn call_opened(&self, call: &Arc<OpenCall>) -> Option<BoxFuture<Result<(), CallError>>> {
        let mut waits: Vec<_> = self.sinks.0.iter().filter_map(|sink| sink.call_opened(call)).collect();
        match waits.len() {
            0 => None,
            1 => waits.pop(),
            _ => Some(Box::pin(async move {
                for wait in waits {
                    wait.await?;
                }
                Ok(())
            })),
        }
    }

    pub(crate) fn call_ended(&self, call: &Arc<OpenCall>, record: &Record, answer: Option<&Captured>) {
        for sink in &self.sinks.0 {
            sink.call_ended(call, record, answer);
        }
    }

    pub(crate) fn metrics(&self, out: &mut String) {
        for sink in &self.sinks.0 {
            sink.metrics(out);
        }
    }

    pub(crate) fn emit(&self, what: What) {
        let event = Event { at: SystemTime::now(), what };
        if !matches!(event.what, What::CallOpened { .. } | What::CallEnded { .. }) {
            for sink in &self.sinks.0 {
                sink.take(&event);
            }
        }
        let mut kept = self.kept();
        let number = kept.next;
        kept.next += 1;
        if kept.events.len() == KEPT {
            kept.events.pop_front();
        }
        kept.events.push_back(event);
        // Under the lock: the number of an earlier event must not be sent after it.
        self.latest.send_replace(number);
    }

    /// Follows the events from now on, or after the event with the id `after`.
    pub fn follow(self: &Arc<Self>, after: Option<&str>) -> Reader {
        self.readers.fetch_add(1, Ordering::Relaxed);
        self.ever_read.store(1, Ordering::Relaxed);
        let next = self.kept().next;
        let known = after.map(|id| {
            let (run, number) = id.rsplit_once('-')?;
            number.parse::<u64>().ok().filter(|number| run == self.run && *number < next)
        });
        let (at, missed) = match known {
            None => (next, 0),
            Some(Some(number)) => (number + 1, 0),
            // Of another run: everything there is, and what was missed is not known.
            Some(None) => (1, 1),
        };
        Reader { events: self.clone(), next: at, missed, latest: self.latest.subscribe() }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("next", &self.kept().next).finish_non_exhaustive()
    }
}

/// The next item for a reader.
#[derive(Clone, Debug)]
pub enum Followed {
    Event {
        /// To resume after this event.
        id: String,
        event: Event,
    },
    /// The number of events that were dropped before this reader read them; at least one if the number is not known.
    Lagged(u64),
}

/// Follows the events of a gateway at its own pace.
pub struct Reader {
    events: Arc<Events>,
    next: u64,
    missed: u64,
    latest: watch::Receiver<u64>,
}

impl Reader {
    /// The next event, once there is one. Safe to drop while it waits.
    pub async fn next(&mut self) -> Followed {
        loop {
            if let Some(followed) = self.take() {
                return followed;
            }
            let next = self.next;
            if self.latest.wait_for(|latest| *latest >= next).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn take(&mut self) -> Option<Followed> {
        let kept = self.events.kept();
        let oldest = kept.next - u64::try_from(kept.events.len()).unwrap_or(0);
        if self.next < oldest {
            self.missed += oldest - self.next;
            self.next = oldest;
        }
        if self.missed > 0 {
            return Some(Followed::Lagged(std::mem::take(&mut self.missed)));
        }
        let event = kept.events.get(usize::try_from(self.next - oldest).ok()?)?.clone();
        let id = format!("{}-{}", self.events.run, self.next);
        self.next += 1;
        Some(Followed::Event { id, event })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.events.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("next", &self.next).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(number: usize) -> What {
        What::CatalogChanged { upstreams: vec![number.to_string().into()] }
    }

    async fn read(reader: &mut Reader) -> Result<(String, String), u64> {
        match reader.next().await {
            Followed::Event { id, event } => {
                Ok((id, event.to_json(Stderr::Shown)["upstreams"][0].as_str().unwrap().to_owned()))
            }
            Followed::Lagged(missed) => Err(missed),
        }
    }

    #[test]
    fn an_event_is_visible_only_together_with_its_number() {
        let events = Arc::new(Events::default());
        std::thread::scope(|scope| {
            // No number can be sent while this is held.
            let latest = events.latest.borrow();
            let emitting = scope.spawn(|| events.emit(changed(0)));
            let mut locked = 0;
            while locked < 1_000 {
                let kept = events.kept.try_lock();
                assert!(
                    kept.as_ref().is_none_or(|kept| kept.next == 1),
                    "a later one could be sent before it"
                );
                locked = if kept.is_none() { locked + 1 } else { 0 };
                drop(kept);
                std::thread::yield_now();
            }
            drop(latest);
            emitting.join().unwrap();
        });
        assert_eq!(*events.latest.borrow(), 1);
    }

    #[tokio::test]
    async fn a_reader_gets_every_event_resumes_by_id_and_learns_what_it_missed() {
        let events = Arc::new(Events::default());
        events.emit(changed(0));
        let mut reader = events.follow(None);
        events.emit(changed(1));
        events.emit(changed(2));
        let (id, first) = read(&mut reader).await.unwrap();
        assert_eq!(first, "1");
        let mut resumed = events.follow(Some(&id));
        assert_eq!(read(&mut resumed).await.unwrap().1, "2");
        for number in 3..KEPT + 13 {
            events.emit(changed(number));
        }
        assert_eq!(read(&mut reader).await, Err(11), "events 2 to 12 are gone");
        assert_eq!(read(&mut reader).await.unwrap().1, "13");
        let mut stranger = events.follow(Some("00000000-1"));
        assert!(read(&mut stranger).await.is_err(), "of another run");
    }
}
