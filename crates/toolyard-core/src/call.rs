//! One request on its way to an upstream, with everything that the steps need.

use std::sync::{Arc, Weak};

use http::HeaderMap;
use toolyard_model::{Origin, Parent, Peer};
use toolyard_proto::uri::ResultKind;
use toolyard_proto::{Id, Method, Params};

use crate::catalog::Entry;
use crate::ledger::{Mark, OpenCall};
use crate::pipeline::deadline::Clock;
use crate::pipeline::limit::Permits;
use crate::pipeline::policy::Slot;
use crate::upstream::Upstream;

/// A request of a client that goes to an upstream. Cloning is cheap; a clone is the same call, for a step that may
/// have to send it again.
#[derive(Clone, Debug)]
pub struct Call {
    pub origin: Arc<Origin>,
    pub upstream: Arc<Upstream>,
    /// The tool or prompt, where the call names one.
    pub entry: Option<Arc<Entry>>,
    pub id: Id,
    pub method: Method,
    /// In the upstream's own names, otherwise as the client sent them.
    pub params: Params,
    pub headers: Option<Box<HeaderMap>>,
    /// Whether the client can take the upstream's HTTP body as it is.
    pub relay: bool,
    /// A step needs the whole answer, so that nothing is relayed while it arrives. Set from the chain when the call
    /// starts; a step that decides by the call itself sets it before it passes the call on.
    pub needs_whole: bool,
    pub peer: Peer,
    pub edits: Edits,
    /// The clock that ends the call. Set by the deadline step, so it is `None` in the steps before.
    pub deadline: Option<Arc<Clock>>,
    /// The state of the call's approval, for the rules.
    pub approval: Option<Arc<Slot>>,
    pub trace: Trace,
    /// The call as operators see it, set when its record is opened. Steps may note what they decide.
    pub open: Option<Arc<OpenCall>>,
    /// The call that this one is made for, if a tool makes it.
    pub parent: Option<Arc<Parent>>,
    /// How many tools have been tried before this one.
    pub fallbacks: u8,
    /// How often the client has received the place of the call in a queue.
    pub(crate) place_reports: u32,
    /// The permits of the limits that the call has passed. Copies of the call that outlive it do not keep them.
    pub permits: Weak<Permits>,
}

/// Which call this is, in records and events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Unique within this run of the gateway.
    pub call: u64,
    /// Counts the rounds of one logical call, from 1: each time the client answers what it was asked, by repeating the
    /// call or during it, a round begins.
    pub round: u32,
    /// Counts what was sent to upstreams for this call, from 1.
    pub attempt: u32,
    /// The call that this one is made for.
    pub parent: Option<u64>,
}

impl Trace {
    pub fn new(call: u64) -> Self {
        Self { call, round: 1, attempt: 1, parent: None }
    }
}

/// The names that are replaced in the answer of a namespaced view.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edits {
    /// The kind of result, which decides where resource URIs are, if this upstream has resources.
    pub uris: Option<ResultKind>,
    /// Whether the answer may carry a task id.
    pub tasks: bool,
}

impl Edits {
    /// Whether nothing is replaced.
    pub fn none(self) -> bool {
        self.uris.is_none() && !self.tasks
    }
}

impl Call {
    /// The call has reached a point on its way.
    pub(crate) fn reach(&self, mark: Mark) {
        if let Some(open) = &self.open {
            open.reach(mark);
        }
    }

    /// Records that the call is sent once more, for this reason.
    pub(crate) fn sent_again(&mut self, why: impl Into<String>) {
        self.trace.attempt += 1;
        if let Some(open) = &self.open {
            open.sent_again(why);
        }
    }

    /// Gives back the permits of the tool, before the call goes to another one.
    pub(crate) fn release_permits(&mut self) {
        if let Some(permits) = std::mem::take(&mut self.permits).upgrade() {
            permits.release();
        }
    }

    /// Records what a step decided, for the page of this call.
    pub fn note(&self, step: &'static str, text: impl Into<String>) {
        if let Some(open) = &self.open {
            open.note(step, text);
        }
    }

    /// The canonical name of what is called, for messages, policy and records.
    pub fn subject(&self) -> String {
        match &self.entry {
            Some(entry) => entry.canonical.to_string(),
            None => format!("{} {}", self.upstream.id(), self.method),
        }
    }
}
