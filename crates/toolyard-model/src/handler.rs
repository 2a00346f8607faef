//! The trait for everything that answers clients: the gateway, a set of tools, a test fixture.

use std::sync::Arc;

use http::HeaderMap;
use toolyard_proto::{Id, Method, Notification, Params, Raw};

use crate::{Answer, BoxFuture, ClientKey, Origin, Parent, Peer, View};

/// One request of a client, checked and with its origin known.
#[derive(Debug, Clone)]
pub struct Request {
    pub origin: Arc<Origin>,
    pub id: Id,
    pub method: Method,
    /// As sent, in the form of the origin's revision; `{}` where there were none.
    pub params: Params,
    /// `Mcp-Param-*` headers, to be passed on as they came.
    pub headers: Option<Box<HeaderMap>>,
    /// Whether the client can take an upstream's HTTP body as it is (`AnswerBody::Stream`).
    pub relay: bool,
    /// The gateway's number of the call; 0 where no gateway has numbered it.
    pub call: u64,
    /// The call that it is made for, if a tool makes it.
    pub parent: Option<Arc<Parent>>,
}

impl Request {
    /// A request without headers, whose answer comes whole.
    pub fn new(origin: Arc<Origin>, id: Id, method: Method, params: impl Into<Params>) -> Self {
        Self { origin, id, method, params: params.into(), headers: None, relay: false, call: 0, parent: None }
    }

    #[must_use]
    pub fn with_headers(self, headers: Option<Box<HeaderMap>>) -> Self {
        Self { headers, ..self }
    }

    /// Sets the number that the gateway gave the call, and the call that it is made for.
    #[must_use]
    pub fn numbered(self, call: u64, parent: Option<Arc<Parent>>) -> Self {
        Self { call, parent, ..self }
    }

    #[must_use]
    pub fn with_relay(self, relay: bool) -> Self {
        Self { relay, ..self }
    }
}

/// Answers requests in modern terms: one request, one answer, and a peer as the way back.
///
/// The endpoint itself handles everything that only legacy clients have (handshake, sessions, `ping`, subscriptions
/// per URI). It requires from a handler: `server/discover` for the handshake of either era,
/// `logging/setLevel` from legacy clients, and `subscriptions/listen`, whose events are sent with
/// [`Peer::notify`]: first `notifications/subscriptions/acknowledged` with the honoured `notifications`
/// filter, then plain notifications (the endpoint stamps the subscription id); the answer ends it. On the first
/// listen of a legacy session the endpoint also expects log messages that belong to no call.
pub trait Handler: Send + Sync + 'static {
    /// `'static`: a call may outlive its connection.
    fn handle(&self, request: Request, peer: Peer) -> BoxFuture<Answer>;

    /// A notification from a client, except those that the endpoint handles itself.
    fn notice(&self, origin: &Arc<Origin>, notification: Notification);

    /// A client has opened a session, or has sent its first request on a stream connection.
    fn began(&self, _origin: &Arc<Origin>) {}

    /// A client has left for good: its session ended or its connection was closed.
    fn ended(&self, client: &ClientKey);

    /// State to restore when a session outlives this process, beside what the endpoint keeps of it.
    fn save_session(&self, _origin: &Origin) -> Option<String> {
        None
    }

    /// A session of an earlier process is open again, with the state that was saved. It has sent no request yet.
    fn restore_session(&self, _origin: &Arc<Origin>, _saved: &str) {}

    /// Whether the upstream of a view supports a method that the endpoint answers on its behalf. If not, the client
    /// receives the error that the upstream itself would return.
    fn knows(&self, _view: &View, _method: &Method) -> bool {
        true
    }

    /// The id of a tool, `UPSTREAM:TOOL`, whatever the view of the client calls it.
    fn tool_id(&self, _origin: &Origin, _shown: &str) -> Option<String> {
        None
    }

    /// The tools that the client can find by these words, best first: name, id, title, description and input schema of
    /// each. `None` if the handler has no search.
    fn search_tools(
        &self,
        _origin: &Arc<Origin>,
        _words: &str,
        _limit: usize,
    ) -> Option<BoxFuture<Vec<Raw>>> {
        None
    }

    /// Whether there is such a view.
    fn offers(&self, view: &View) -> bool {
        *view == View::Everything
    }
}
