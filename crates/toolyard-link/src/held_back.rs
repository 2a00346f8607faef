//! Messages of a server that are not passed on, and the note about them in the log.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use toolyard_model::Origin;
use toolyard_model::peer::unwanted_on_call;
use toolyard_proto::Notification;

/// Progress that is held back.
pub(crate) const UNASKED_PROGRESS: &str = "progress, which the client did not ask for";

/// The kinds of messages of one server that were held back and logged.
pub(crate) struct HeldBack {
    upstream: Arc<str>,
    kinds: Mutex<HashSet<&'static str>>,
}

impl HeldBack {
    pub(crate) fn new(upstream: &Arc<str>) -> Self {
        Self { upstream: upstream.clone(), kinds: Mutex::default() }
    }

    /// Logs that a message of the server is not passed on. The first of each kind is logged for users.
    pub(crate) fn note(&self, what: &'static str) {
        let upstream = &self.upstream;
        if self.kinds.lock().insert(what) {
            tracing::info!(%upstream, what, "held back a message that this server must not send");
        } else {
            tracing::debug!(%upstream, what, "held back a message again");
        }
    }
}

/// Why a notification on a call is held back from its client. `None` for clients with a session as well: those may change
/// their log level during the call, and are filtered where their session is known.
pub(crate) fn unwanted(notification: &Notification, origin: &Origin) -> Option<&'static str> {
    (!origin.revision.keeps_level()).then(|| unwanted_on_call(notification, origin)).flatten()
}
