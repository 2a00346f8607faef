//! One request on its way to an upstream, with everything that the steps need.

use std::sync::Arc;

use http::HeaderMap;
use toolyard_model::{Origin, Parent, Peer};
use toolyard_proto::uri::ResultKind;
use toolyard_proto::{Id, Method, Params};

use crate::catalog::Entry;
use crate::ledger::{Mark, OpenCall};
use crate::pipeline::clock::Clock;
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
    /// When the call is given up; set by the deadline step, so steps before it see none.
    pub deadline: Option<Arc<Clock>>,
    /// What the rules need to know about its approval.
    pub approval: Option<Arc<Slot>>,
    pub trace: Trace,
    /// The call as operators see it, set when its record is opened. Steps may note what they decide.
    pub open: Option<Arc<OpenCall>>,
    /// The call that this one is made for, if a tool makes it.
    pub parent: Option<Arc<Parent>>,
    /// How many tools have been tried before this one.
    pub fallbacks: u8,
}

/// Which call this is, in records and events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Unique within this run of the gateway.
    pub call: u64,
    /// Counts the client's repetitions of one logical call, from 1: each answer to a question is a round.
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

/// What has to be renamed in the answer of a namespaced view.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edits {
    /// The kind of result, which decides where resource URIs are, if this upstream has resources.
    pub uris: Option<ResultKind>,
    /// Whether the answer may carry a task id.
    pub tasks: bool,
}

impl Edits {
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
