//! An upstream that can be called. One trait for all kinds: a child process, a remote server,
//! a built-in pack.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use tokio::sync::mpsc;
use toolyard_proto::modern::SERVER_INFO;
use toolyard_proto::{Era, Id, Method, Notification, Params, Raw, Reason, Revision};

use crate::peer::{Ask, AskError};
use crate::{Answer, BoxFuture, ClientKey, Origin, Parent, Peer};

/// How an upstream introduced itself when the link was opened: its answer to `initialize` or `server/discover`.
#[derive(Clone, Debug)]
pub struct Greeting {
    pub revision: Revision,
    /// Capabilities in the form of `revision`.
    pub capabilities: Raw,
    pub server_info: Option<Raw>,
    pub instructions: Option<Raw>,
    /// The whole result, unchanged.
    pub whole: Raw,
    /// Whether the era was inferred from the upstream's silence. It must be probed again the next time.
    pub guessed: bool,
}

impl Greeting {
    /// Reads the result of `initialize` or `server/discover`.
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
    /// The client that the request is made for: it decides the upstream session and the addressee of questions.
    pub origin: Arc<Origin>,
    /// The client's id. Links that do not share a channel forward it unchanged, others mint their own.
    pub id: Id,
    pub method: Method,
    pub params: Params,
    pub headers: Option<Box<HeaderMap>>,
    /// The name of what is called, as in the `Mcp-Name` header, where it is known already.
    pub name: Option<HeaderValue>,
    /// The answer may come as the upstream's own bytes.
    pub relay: bool,
    /// The gateway's number of the call; 0 for requests of the gateway itself.
    pub call: u64,
    /// The call that it is made for, if a tool makes it.
    pub parent: Option<Arc<Parent>>,
}

impl LinkRequest {
    /// A request without headers, whose answer comes whole.
    pub fn new(origin: Arc<Origin>, id: Id, method: Method, params: impl Into<Params>) -> Self {
        let headers = None;
        let name = None;
        let relay = false;
        let call = 0;
        let parent = None;
        Self { origin, id, method, params: params.into(), headers, name, relay, call, parent }
    }

    #[must_use]
    pub fn with_headers(self, headers: Option<Box<HeaderMap>>) -> Self {
        Self { headers, ..self }
    }

    #[must_use]
    pub fn numbered(self, call: u64, parent: Option<Arc<Parent>>) -> Self {
        Self { call, parent, ..self }
    }

    #[must_use]
    pub fn with_name(self, name: Option<HeaderValue>) -> Self {
        Self { name, ..self }
    }

    #[must_use]
    pub fn with_relay(self, relay: bool) -> Self {
        Self { relay, ..self }
    }
}

/// A message that an upstream sends outside of any call.
#[derive(Debug)]
pub enum LinkEvent {
    /// With the client whose upstream session it came on, if there is one per client.
    Notification(Option<ClientKey>, Notification),
    /// A question that belongs to no call; the receiver of the event answers it. With the client whose
    /// upstream session it came on, if there is one per client.
    Ask(Option<ClientKey>, Ask, tokio::sync::oneshot::Sender<Result<Raw, AskError>>),
    /// The link has ended, and its calls in flight have already failed. Always the last event.
    Closed(Reason),
}

/// A link, its messages outside of calls, and the era to remember for the next time.
pub struct Connected {
    pub link: Arc<dyn Link>,
    pub events: mpsc::Receiver<LinkEvent>,
}

impl Connected {
    pub fn era(&self) -> Era {
        self.link.greeting().revision.era()
    }
}

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected").field("era", &self.era()).finish_non_exhaustive()
    }
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

    /// Whether the upstream can announce changes. One that cannot has to be asked now and then.
    fn announces_changes(&self) -> bool {
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

    /// Whether the upstream is in this process: without a wire it never refuses the form of our requests.
    fn is_in_process(&self) -> bool {
        false
    }

    /// Whether it makes sense to ping the upstream.
    fn answers_pings(&self) -> bool {
        true
    }

    /// A client has disconnected: what was kept for it alone is released.
    fn forget(&self, _client: &ClientKey) {}

    /// A client connects to another upstream: what is kept for it alone is released once it has no call under way.
    fn leave(&self, client: &ClientKey) {
        self.forget(client);
    }

    /// Unsubscribes `origin`, if the upstream keeps a session for each client. The upstream is unsubscribed when
    /// no client that shares the session is subscribed any more.
    fn unsubscribe(&self, _origin: &Arc<Origin>, _uri: &str) -> BoxFuture<()> {
        Box::pin(async {})
    }

    /// Ends the link, but lets independent calls finish, which may be healthy. No new call is accepted.
    fn let_go(&self) -> BoxFuture<()> {
        self.close()
    }

    /// Ends the link and everything it owns (sessions, child process), within a bounded time.
    fn close(&self) -> BoxFuture<()>;
}
