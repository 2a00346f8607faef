//! The record of calls: what was called, by which principal, how long it took and how it ended. Every call is closed
//! here exactly once, and all reports on calls (the log, the counters, the last calls) are made from that one record.
//!
//! Arguments, answers and tokens are not part of it.

mod glance;
mod capture;
pub mod meter;
mod open_calls;
mod record;
mod ring;
mod rounds;
pub mod spans;
mod tally;
mod verdict;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, MutexGuard};
use toolyard_model::{ClientKey, Origin, Request};
use toolyard_proto::{CallError, Params, Raw};

pub(crate) use capture::Capture;
pub use capture::Captured;
pub(crate) use glance::{may_be_error, may_have_failed};
pub use meter::Meter;
use meter::Operation;
pub(crate) use open_calls::{Cancelled, to_milliseconds};
pub use open_calls::{Mark, Note, OpenCall};
pub(crate) use record::label;
pub use record::{Record, Status};
pub use spans::SpanContext;
pub use tally::{Count, Tally};
pub(crate) use verdict::Verdict;

use crate::call::{Call, Trace};
use crate::event::{Events, What};
use crate::upstream::Upstream;
use open_calls::OpenCalls;
use ring::Ring;
use rounds::Rounds;

/// How many clients are counted one by one.
const MOST_CLIENTS: usize = 1_000;
/// How much of an unknown name is kept.
const LONGEST_NAME: usize = 128;
/// How many of the last calls are in a report.
const REPORTED: usize = 100;
/// How long payloads are kept after an operator has last looked at calls.
const WATCHED: u64 = 10 * 60;

/// The records of a gateway.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) events: Arc<Events>,
    /// How many calls there have been.
    calls: AtomicU64,
    recent: Ring,
    open: OpenCalls,
    pub(crate) rounds: Rounds,
    /// Requests that reached no upstream.
    pub(crate) refusals: Meter,
    /// When an operator last looked at calls, in seconds since 1970. The payloads of calls are kept only while one
    /// does.
    watched_at: AtomicU64,
    /// Sessions and connections that are open. Single requests over HTTP are not included, so the path of their calls
    /// has no lock.
    clients: Mutex<HashMap<ClientKey, Arc<ClientTally>>>,
}

struct ClientTally {
    principal: Arc<str>,
    tally: Tally,
}

/// The origin of a modern request shares the buffer of the whole message. It is not kept for larger messages.
const LARGEST_KEPT: usize = 16 * 1024;

/// The origin of a request, if keeping it costs little memory.
fn small_origin(origin: &Arc<Origin>, params: &Params) -> Option<Arc<Origin>> {
    (params.len() <= LARGEST_KEPT).then(|| origin.clone())
}

/// A call that has ended, or a request that was refused.
#[derive(Clone)]
pub(crate) struct Ended {
    pub(crate) record: Record,
    /// `None` for a request that was refused.
    pub(crate) trace: Option<Trace>,
    /// The client program, as far as it is known.
    pub(crate) origin: Option<Arc<Origin>>,
    /// Request and answer, if an operator was watching.
    pub(crate) details: Option<Arc<Details>>,
}

/// A call with its payloads.
pub(crate) struct Details {
    pub(crate) call: Arc<OpenCall>,
    pub(crate) answer: Option<Captured>,
}

/// The number of a client's calls.
#[derive(Clone, Debug)]
pub(crate) struct ClientCount {
    pub(crate) client: String,
    pub(crate) principal: Arc<str>,
    pub(crate) count: Count,
}

impl Ledger {
    pub(crate) fn new(events: Arc<Events>) -> Self {
        Self { events, ..Self::default() }
    }

    /// Opens the record of a call that is about to pass the steps.
    pub(crate) fn open(self: &Arc<Self>, call: &mut Call) -> OpenRecord {
        let record = Record {
            at: SystemTime::now(),
            duration: Duration::ZERO,
            upstream: Some(call.upstream.name().clone()),
            kind: Some(call.upstream.kind()),
            name: call.entry.as_ref().map(|entry| entry.canonical.clone()),
            method: call.method.clone(),
            principal: call.origin.principal.name().clone(),
            client: call.origin.client.clone(),
            status: Status::Cancelled,
            attempts: 1,
        };
        let origin = call.origin.clone();
        let params = call.params.clone();
        let open = Arc::new(OpenCall::new(call.trace, record, origin, params));
        if self.events.is_read() {
            let record = Arc::new(open.record.clone());
            self.events.emit(What::CallOpened { trace: call.trace, record });
        }
        self.open.add(&open);
        call.open = Some(open.clone());
        let tally = self.client(&call.origin);
        let upstream = call.upstream.clone();
        OpenRecord { ledger: self.clone(), upstream, tally, open: Some(open) }
    }

    /// Notes that an operator watches calls, so that payloads are kept for some time.
    pub(crate) fn watch(&self) {
        self.watched_at.store(seconds(SystemTime::now()), Ordering::Relaxed);
    }

    fn is_watched(&self, now: SystemTime) -> bool {
        seconds(now).saturating_sub(self.watched_at.load(Ordering::Relaxed)) < WATCHED
    }

    /// The calls under way, the oldest first.
    pub(crate) fn open_calls(&self) -> Vec<Arc<OpenCall>> {
        self.open.all()
    }

    /// The last calls that have ended, the newest first, each with a number that only grows.
    pub(crate) fn ended_calls(&self) -> Vec<(usize, Ended)> {
        self.recent.newest_first()
    }

    /// The number of the next call.
    pub(crate) fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A request that reached no upstream. `rule` is the place of the rule that hides what it names.
    pub(crate) fn refused(&self, request: &Request, error: &CallError, rule: Option<String>) {
        let origin = &request.origin;
        let record = Record {
            at: SystemTime::now(),
            duration: Duration::ZERO,
            upstream: error.upstream.clone(),
            kind: None,
            name: requested_name(request),
            method: request.method.clone(),
            principal: origin.principal.name().clone(),
            client: origin.client.clone(),
            status: Status::of_error(error),
            attempts: 0,
        };
        if let Some(client) = self.client(origin) {
            client.tally.add(record.duration, record.status.is_failure());
        }
        self.refusals.add(origin, Operation::of(&record.method, record.status), record.duration);
        if self.events.wants_calls() {
            self.events.emit(What::Refused { record: Arc::new(record.clone()), rule });
        }
        self.keep(Ended {
            record,
            trace: None,
            origin: small_origin(origin, &request.params),
            details: None,
        });
    }

    fn keep(&self, ended: Ended) {
        ended.record.log();
        self.recent.push(ended);
    }

    /// The counters of a client's calls. Looked up while the client is connected: a call that ends after the
    /// client has disconnected must not add it again.
    fn client(&self, origin: &Origin) -> Option<Arc<ClientTally>> {
        if !matches!(origin.client, ClientKey::Session(_) | ClientKey::Connection(_)) {
            return None;
        }
        let mut clients = self.clients();
        if let Some(client) = clients.get(&origin.client) {
            return Some(client.clone());
        }
        let client = ClientTally { principal: origin.principal.name().clone(), tally: Tally::default() };
        (clients.len() < MOST_CLIENTS)
            .then(|| clients.entry(origin.client.clone()).or_insert(Arc::new(client)).clone())
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<ClientKey, Arc<ClientTally>>> {
        self.clients.lock()
    }

    /// The principal of a client that has called something.
    pub(crate) fn principal_of(&self, client: &ClientKey) -> Option<Arc<str>> {
        self.clients().get(client).map(|client| client.principal.clone())
    }

    /// A client has disconnected.
    pub(crate) fn forget(&self, client: &ClientKey) {
        self.clients().remove(client);
    }

    /// The last calls, the newest first.
    pub(crate) fn recent(&self) -> Vec<Record> {
        self.recent.records(REPORTED)
    }

    /// Sessions and connections that called something, in no order.
    pub(crate) fn client_counts(&self) -> Vec<ClientCount> {
        let clients = self.clients();
        let count = |(key, client): (&ClientKey, &Arc<ClientTally>)| ClientCount {
            client: record::label(key),
            principal: client.principal.clone(),
            count: client.tally.count(),
        };
        clients.iter().map(count).collect()
    }
}

/// The name in a request, for its record. The query of a URI is left out, because it may hold secrets.
fn requested_name(request: &Request) -> Option<Arc<str>> {
    let member = |key: &str| request.params.member(key).and_then(|name| name.as_string());
    let name = match request.method.as_str() {
        "tools/call" | "prompts/get" => member("name"),
        "resources/read" => {
            member("uri").map(|uri| uri.split(['?', '#']).next().unwrap_or_default().to_owned())
        }
        _ => None,
    };
    let name = name.filter(|name| !name.is_empty())?;
    Some(name.chars().take(LONGEST_NAME).collect::<String>().into())
}

/// The record of a call that has not ended. Dropped before it is closed, the call was cancelled.
pub(crate) struct OpenRecord {
    ledger: Arc<Ledger>,
    upstream: Arc<Upstream>,
    tally: Option<Arc<ClientTally>>,
    /// Taken when the call has ended.
    open: Option<Arc<OpenCall>>,
}

impl OpenRecord {
    pub(crate) fn close(mut self, status: Status, answer: Option<Captured>) {
        self.end(status, answer);
    }

    /// A buffer for the answer, if an operator watches calls or a sink asks for it.
    pub(crate) fn capture(&self) -> Option<Capture> {
        let open = self.open.as_ref()?;
        let is_kept = self.ledger.events.wants_answers() || self.ledger.is_watched(open.record.at);
        is_kept.then(Capture::default)
    }

    /// A buffer for a relayed answer of a later round: its `requestState` identifies the next round.
    pub(crate) fn capture_state(&self) -> Option<Capture> {
        (self.open.as_ref()?.rounds() > 1).then(Capture::default)
    }

    /// The call is answered with this result.
    pub(crate) fn answered(&self, result: &Raw) {
        if let Some(open) = &self.open {
            self.ledger.rounds.answered(open.rounds(), result);
        }
    }

    /// The call is answered with this body.
    pub(crate) fn relayed(&self, body: &Captured) {
        if let Some(open) = &self.open {
            self.ledger.rounds.relayed(open.rounds(), &body.bytes);
        }
    }

    /// The call itself, until it has ended.
    pub(crate) fn call(&self) -> Option<&Arc<OpenCall>> {
        self.open.as_ref()
    }

    fn end(&mut self, status: Status, answer: Option<Captured>) {
        let Some(open) = self.open.take() else { return };
        self.ledger.open.remove(&open);
        let duration = open.started.elapsed();
        self.count(&open, status, duration);
        let record = Record { duration, status, attempts: open.attempts(), ..open.record.clone() };
        let events = &self.ledger.events;
        events.call_ended(&open, &record, answer.as_ref());
        if events.is_read() {
            events.emit(What::CallEnded { trace: open.trace_now(), record: Arc::new(record.clone()) });
        }
        let trace = Some(open.trace_now());
        let origin = small_origin(&open.origin, &open.params);
        let details =
            self.ledger.is_watched(open.record.at).then(|| Arc::new(Details { call: open, answer }));
        self.ledger.keep(Ended { record, trace, origin, details });
    }

    fn count(&self, open: &OpenCall, status: Status, duration: Duration) {
        self.upstream.tally().add(duration, status.is_failure());
        let meter = self.upstream.meter();
        let operation = Operation::of(&open.record.method, status);
        meter.add(&open.origin, operation, duration);
        if let (Some(sent), Some(revision)) = (open.reached(Mark::Leased), open.upstream_revision()) {
            let sent = Duration::from_micros(sent);
            let answered = open.reached(Mark::Answered).map_or(duration, Duration::from_micros);
            meter.add_sent(revision, operation, answered.saturating_sub(sent));
            meter.overhead.add(sent);
        }
        if let Some(client) = &self.tally {
            client.tally.add(duration, status.is_failure());
        }
    }
}

impl Drop for OpenRecord {
    fn drop(&mut self) {
        self.end(Status::Cancelled, None);
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
