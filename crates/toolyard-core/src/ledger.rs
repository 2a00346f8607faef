//! What was called, by which principal, how long it took and how it ended. Every call is closed here exactly once, and
//! all reports on calls (the log, the counters, the last calls) are made from that one record.
//!
//! Arguments, answers and tokens never come here.

mod glance;
mod record;
mod ring;
mod tally;
mod verdict;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use toolyard_model::{ClientKey, Origin, Request};
use toolyard_proto::CallError;

pub(crate) use glance::{may_be_error, may_have_failed};
pub(crate) use record::label;
pub use record::{Record, Status};
pub use tally::{Count, Tally};
pub(crate) use verdict::Verdict;

use crate::call::{Call, Trace};
use crate::event::{Events, What};
use crate::upstream::Upstream;
use ring::Ring;

/// How many clients are counted one by one.
const MOST_CLIENTS: usize = 1_000;
/// How much of an unknown name is kept.
const LONGEST_NAME: usize = 128;

/// The records of a gateway.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) events: Arc<Events>,
    /// How many calls there have been.
    calls: AtomicU64,
    recent: Ring,
    /// Sessions and connections that live. Single requests over HTTP, where every call counts, are none of
    /// them, so their way has no lock.
    clients: Mutex<HashMap<ClientKey, Arc<ClientTally>>>,
}

struct ClientTally {
    principal: Arc<str>,
    tally: Tally,
}

/// What one client did.
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
    pub(crate) fn open(self: &Arc<Self>, call: &Call) -> OpenRecord {
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
        };
        if self.events.wants_calls() {
            self.events.emit(What::CallOpened { trace: call.trace, record: Arc::new(record.clone()) });
        }
        OpenRecord {
            trace: call.trace,
            ledger: self.clone(),
            upstream: call.upstream.clone(),
            tally: self.client(&call.origin),
            started: Instant::now(),
            record: Some(record),
        }
    }

    /// The number of the next call.
    pub(crate) fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A request that reached no upstream.
    pub(crate) fn refused(&self, request: &Request, error: &CallError) {
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
        };
        if let Some(client) = self.client(origin) {
            client.tally.add(record.duration, record.status.is_failure());
        }
        if self.events.wants_calls() {
            self.events.emit(What::Refused { record: Arc::new(record.clone()) });
        }
        self.keep(record);
    }

    fn keep(&self, record: Record) {
        record.log();
        self.recent.push(record);
    }

    /// Where the calls of a client are counted. Looked up while it is there: what ends after it has left must
    /// not bring it back.
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
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The principal of a client that has called something.
    pub(crate) fn principal_of(&self, client: &ClientKey) -> Option<Arc<str>> {
        self.clients().get(client).map(|client| client.principal.clone())
    }

    /// A client has left.
    pub(crate) fn forget(&self, client: &ClientKey) {
        self.clients().remove(client);
    }

    /// The last calls, the newest first.
    pub(crate) fn recent(&self) -> Vec<Record> {
        self.recent.newest_first()
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

/// What a request asked for, as far as that may be in a record: the query of a URI may hold secrets.
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
    trace: Trace,
    ledger: Arc<Ledger>,
    upstream: Arc<Upstream>,
    tally: Option<Arc<ClientTally>>,
    started: Instant,
    /// Taken when the call has ended.
    record: Option<Record>,
}

impl OpenRecord {
    pub(crate) fn close(mut self, status: Status) {
        self.end(status);
    }

    fn end(&mut self, status: Status) {
        let Some(record) = self.record.take() else { return };
        let duration = self.started.elapsed();
        self.upstream.tally().add(duration, status.is_failure());
        if let Some(client) = &self.tally {
            client.tally.add(duration, status.is_failure());
        }
        let record = Record { duration, status, ..record };
        let events = &self.ledger.events;
        if events.wants_calls() {
            events.emit(What::CallEnded { trace: self.trace, record: Arc::new(record.clone()) });
        }
        self.ledger.keep(record);
    }
}

impl Drop for OpenRecord {
    fn drop(&mut self) {
        self.end(Status::Cancelled);
    }
}
