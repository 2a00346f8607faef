//! An upstream that can be called. One trait, whatever stands behind it: a child process, a remote server,
//! a built-in pack.

use std::sync::Arc;

use http::HeaderMap;
use toolyard_proto::modern::SERVER_INFO;
use toolyard_proto::{Id, Method, Notification, Raw, Revision};

use crate::peer::{Ask, AskError};
use crate::{Answer, BoxFuture, ClientKey, Origin, Peer};

/// What an upstream said of itself when we met: `initialize` or `server/discover`.
#[derive(Clone, Debug)]
pub struct Greeting {
    pub revision: Revision,
    /// Capabilities in the form of `revision`.
    pub capabilities: Raw,
    pub server_info: Option<Raw>,
    pub instructions: Option<Raw>,
    /// The whole result as it was said.
    pub whole: Raw,
}

impl Greeting {
    /// From the result of `initialize` or `server/discover`.
    pub fn read(revision: Revision, whole: Raw) -> Self {
        let server_info = if revision.has_result_stamps() {
            whole.at(&["_meta", SERVER_INFO])
        } else {
            whole.member("serverInfo")
        };
        let capabilities =
            whole.member("capabilities").filter(Raw::is_object).unwrap_or_else(Raw::empty_object);
        Self { revision, capabilities, server_info, instructions: whole.member("instructions"), whole }
    }
}

/// One request to an upstream, in the form of that upstream's revision.
#[derive(Debug, Clone)]
pub struct LinkRequest {
    /// On whose behalf: chooses the upstream session and attributes asks.
    pub origin: Arc<Origin>,
    /// The client's id. Links that do not share a channel forward it unchanged, others mint their own.
    pub id: Id,
    pub method: Method,
    pub params: Raw,
    pub headers: Option<Box<HeaderMap>>,
    /// The answer may come as the upstream's own bytes.
    pub relay: bool,
}

/// What an upstream says outside of any call.
#[derive(Debug)]
pub enum LinkEvent {
    /// With the client whose upstream session it came on, where there is one per client.
    Notification(Option<ClientKey>, Notification),
    /// A question that belongs to no call; whoever takes the event answers it.
    Ask(Ask, tokio::sync::oneshot::Sender<Result<Raw, AskError>>),
    /// The link is gone; calls in flight have been failed already. Always the last event.
    Closed(String),
}

pub trait Link: Send + Sync + 'static {
    fn greeting(&self) -> &Greeting;

    /// Sends a request and waits for its answer. Dropping the future cancels the request upstream.
    fn call(&self, request: LinkRequest, peer: Peer) -> BoxFuture<Answer>;

    /// Passes a notification on, on behalf of `origin`.
    fn notify(&self, origin: &Arc<Origin>, notification: Notification);

    /// Whether the upstream keeps a session for each client, rather than one for all.
    fn per_client(&self) -> bool {
        false
    }

    /// A client is gone for good: what was kept for it alone can go.
    fn forget(&self, _client: &ClientKey) {}

    /// Ends the link and everything it owns (sessions, child process), within a bounded time.
    fn close(&self) -> BoxFuture<()>;
}
