//! One request on its way to an upstream, with everything the steps need.

use std::sync::Arc;

use http::HeaderMap;
use toolyard_model::{Origin, Peer};
use toolyard_proto::uri::ResultKind;
use toolyard_proto::{Id, Method, Params};

use crate::catalog::Entry;
use crate::upstream::Upstream;

/// A request of a client that goes to an upstream.
#[derive(Debug)]
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
    pub relay: bool,
    pub peer: Peer,
    pub edits: Edits,
}

/// What has to be renamed in the answer of a namespaced view.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edits {
    /// Where resource URIs stand, if this upstream has resources.
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
    /// The canonical name of what is called, for messages, policy and records.
    pub fn subject(&self) -> String {
        match &self.entry {
            Some(entry) => entry.canonical.to_string(),
            None => format!("{} {}", self.upstream.id(), self.method),
        }
    }
}
