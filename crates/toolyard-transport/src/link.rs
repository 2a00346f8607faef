//! An upstream that can be called. One trait, whatever stands behind it: a child process, a remote server,
//! a built-in pack.

pub(crate) mod asks;
pub(crate) mod events;
pub(crate) mod inflight;
pub(crate) mod levels;

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use toolyard_proto::error::code;
use toolyard_proto::modern::SERVER_INFO;
use toolyard_proto::{CallError, Fault, Id, Method, Notification, Params, Raw, Retry, Revision};

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
    /// Whether the era was taken from the upstream's silence. Nobody should rely on it the next time.
    pub guessed: bool,
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
        let instructions = whole.member("instructions");
        Self { revision, capabilities, server_info, instructions, whole, guessed: false }
    }

    /// Whether it remembers a log level between requests.
    pub fn keeps_level(&self) -> bool {
        self.revision.keeps_level() && self.capabilities.member("logging").is_some()
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
    pub params: Params,
    pub headers: Option<Box<HeaderMap>>,
    /// What is called, as the `Mcp-Name` header says it, where that is known already.
    pub name: Option<HeaderValue>,
    /// The answer may come as the upstream's own bytes.
    pub relay: bool,
}

/// What an upstream says outside of any call.
#[derive(Debug)]
pub enum LinkEvent {
    /// With the client whose upstream session it came on, where there is one per client.
    Notification(Option<ClientKey>, Notification),
    /// A question that belongs to no call; whoever takes the event answers it. With the client whose
    /// upstream session it came on, where there is one per client.
    Ask(Option<ClientKey>, Ask, tokio::sync::oneshot::Sender<Result<Raw, AskError>>),
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

    /// Whether the upstream can say that something has changed. One that cannot has to be asked now and then.
    fn hears_changes(&self) -> bool {
        true
    }

    /// Whether calls of several clients share one channel, so that a question may be for any of them.
    fn is_shared(&self) -> bool {
        false
    }

    /// Whether a question has come that was, or soon would be, for any of several clients. From then on each
    /// should have a link of its own.
    fn is_interactive(&self) -> bool {
        false
    }

    /// Whether it leads to something in this process, which never refuses our way of asking: there is no wire.
    fn is_in_process(&self) -> bool {
        false
    }

    /// Whether it makes sense to ask the upstream now and then whether it is there.
    fn answers_pings(&self) -> bool {
        true
    }

    /// A client is gone for good: what was kept for it alone can go.
    fn forget(&self, _client: &ClientKey) {}

    /// A client turns to another upstream: what is kept for it alone goes as soon as no call of it is under way.
    fn leave(&self, client: &ClientKey) {
        self.forget(client);
    }

    /// Takes back what `origin` has subscribed to, where the upstream keeps a session for each client. It is told
    /// when nobody who shares that session wants it any more.
    fn unsubscribe(&self, _origin: &Arc<Origin>, _uri: &str) -> BoxFuture<()> {
        Box::pin(async {})
    }

    /// Ends the link, but lets calls finish that stand on their own and may be well. Nobody begins one any more.
    fn let_go(&self) -> BoxFuture<()> {
        self.close()
    }

    /// Ends the link and everything it owns (sessions, child process), within a bounded time.
    fn close(&self) -> BoxFuture<()>;
}

/// An error that an upstream reported, where it speaks of our hop and not of the client's request: our
/// headers or our protocol version were refused. It keeps its kind, with the upstream as its origin, so that
/// whoever called can mend it; it must not reach the client as it is.
pub(crate) fn own_hop(mut error: CallError) -> CallError {
    let message = error.message;
    error.message = String::new();
    let told = match error.code() {
        code::HEADER_MISMATCH => {
            CallError::header_mismatch(format!("the upstream refused our headers: {message}"))
        }
        code::UNSUPPORTED_VERSION => {
            let told = CallError::unsupported_version(Revision::NEWEST.as_str());
            CallError { message: format!("the upstream refused our protocol version: {message}"), ..told }
        }
        _ => return CallError { message, ..error },
    };
    CallError { origin: Fault::Upstream, retry: Retry::Always, upstream: error.upstream, ..told }
}

/// The gateway's own question to an upstream, as part of meeting it.
pub(crate) fn own_request(origin: &Arc<Origin>, id: Id, method: Method, params: Raw) -> LinkRequest {
    let (origin, params) = (origin.clone(), params.into());
    LinkRequest { origin, id, method, params, headers: None, name: None, relay: false }
}
