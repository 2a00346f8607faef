//! A link to a modern upstream over HTTP: one POST per call, nothing shared between calls but the pool.
//! Where the client can take it, the upstream's body passes through untouched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::HeaderValue;
use http::{HeaderMap, Method as HttpMethod, Response, StatusCode};
use toolyard_model::{
    Answer, AnswerBody, BoxFuture, Greeting, Link, LinkRequest, Origin, Peer, Principal, Scope,
};
use toolyard_proto::codec::MAX_MESSAGE;
use toolyard_proto::modern::{SUBSCRIPTION_ID, encode_header, name_in};
use toolyard_proto::{
    CallError, Id, Message, Method, Notification, Raw, RequestMessage, Response as RpcResponse, Revision,
};

use super::body::{Content, ReadError, content, read_whole};
use super::endpoint::{Endpoint, METHOD, NAME, PROTOCOL_VERSION};
use super::refusal::Refusal;
use super::sse::EventStream;
use super::wire::Arriving;
use super::{relayed, spare};
use crate::events::Events;
use crate::own::own_hop;

/// A link to a modern HTTP upstream.
pub struct HttpLink {
    greeting: Greeting,
    caller: Arc<Caller>,
    events: Events,
    scope: Scope,
    /// The link is closed; calls under way continue.
    let_go: AtomicBool,
}

impl HttpLink {
    pub(crate) fn new(greeting: Greeting, caller: Caller, events: Events, scope: Scope) -> Self {
        Self { greeting, caller: Arc::new(caller), events, scope, let_go: AtomicBool::new(false) }
    }
}

impl std::fmt::Debug for HttpLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpLink").field("upstream", &self.caller.endpoint.name).finish_non_exhaustive()
    }
}

impl Link for HttpLink {
    fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    fn call(&self, request: LinkRequest, peer: Peer) -> BoxFuture<Answer> {
        Box::pin(self.caller.clone().call(request, peer))
    }

    /// Modern upstreams take no notifications over HTTP: cancelling is closing the stream.
    fn notify(&self, _: &Arc<Origin>, _: Notification) {}

    /// Each call holds what it needs; the connections end with the last of them.
    fn let_go(&self) -> BoxFuture<()> {
        self.let_go.store(true, Ordering::Relaxed);
        let (events, reason) =
            (self.events.clone(), self.caller.endpoint.reason("was released by the gateway"));
        Box::pin(async move { events.closed_soon(reason).await })
    }

    fn close(&self) -> BoxFuture<()> {
        let (events, scope) = (self.events.clone(), self.scope.clone());
        let reason = self.caller.endpoint.reason("was closed by the gateway");
        Box::pin(async move {
            events.closed_soon(reason).await;
            scope.cancel();
        })
    }
}

impl Drop for HttpLink {
    fn drop(&mut self) {
        if !*self.let_go.get_mut() {
            self.scope.cancel();
        }
    }
}

/// Posts requests of the modern form.
pub(crate) struct Caller {
    pub(crate) endpoint: Arc<Endpoint>,
    headers: HeaderMap,
    /// The same with the method of a tool call, the most frequent one, and room for the name.
    call_headers: HeaderMap,
}

impl Caller {
    pub(crate) fn new(endpoint: Arc<Endpoint>) -> Self {
        let mut headers = endpoint.post_headers();
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(Revision::NEWEST.as_str()));
        let mut call_headers = headers.clone();
        call_headers.insert(METHOD, HeaderValue::from_static("tools/call"));
        Self { endpoint, headers, call_headers }
    }

    /// The request's data is dropped before the wait begins, and rare cases are boxed: a
    /// small future is cheap to make and to move.
    fn call(self: Arc<Self>, request: LinkRequest, peer: Peer) -> impl Future<Output = Answer> {
        let (relay, listens) = (request.relay, request.method == Method::LISTEN);
        let (id, is_call) = (request.id.clone(), request.method == Method::TOOLS_CALL);
        let principal = self.principal_of(&request);
        let client = relayed::Client::of(&request);
        let (headers, body) = self.render(request);
        async move {
            let sent = self.endpoint.send(principal.as_ref(), HttpMethod::POST, headers, body);
            let response = sent.await?;
            // What the answer states about it is put into a whole answer.
            let is_spared = is_call && spare::is_marked(&response);
            let relay = relay && !is_spared;
            match content(response.headers()) {
                _ if response.status() != StatusCode::OK => {
                    let refusal = Box::pin(Refusal::read(response)).await;
                    Err(own_hop(refusal.to_call_error(&self.endpoint)))
                }
                Content::Json if relay => {
                    let body = response.into_body();
                    Box::pin(relayed::json(self.endpoint.clone(), id, body)).await
                }
                Content::Events if relay => {
                    Ok(relayed::events(self.endpoint.clone(), id, client, response.into_body()))
                }
                _ => {
                    let reader = Reader {
                        endpoint: &self.endpoint,
                        peer: &peer,
                        listens,
                        id: Some(&id),
                        client: Some(&client),
                    };
                    let result = Box::pin(reader.read(response)).await.map_err(own_hop)?;
                    let result = if is_spared { spare::stated(&result, &self.endpoint.name) } else { result };
                    Ok(AnswerBody::Whole(result, Revision::NEWEST))
                }
            }
        }
    }

    pub(crate) async fn post(&self, request: LinkRequest) -> Result<Response<Arriving>, CallError> {
        let principal = self.principal_of(&request);
        let (headers, body) = self.render(request);
        self.endpoint.send(principal.as_ref(), HttpMethod::POST, headers, body).await
    }

    /// The principal whose credentials the request carries, if it carries any.
    fn principal_of(&self, request: &LinkRequest) -> Option<Principal> {
        self.endpoint.is_guarded().then(|| request.origin.principal.clone())
    }

    fn render(&self, request: LinkRequest) -> (HeaderMap, Bytes) {
        let headers = self.headers_for(&request);
        let LinkRequest { id, method, params, .. } = request;
        let body = Message::Request(RequestMessage { id, method, params: Some(params) }).render();
        (headers, body)
    }

    fn headers_for(&self, request: &LinkRequest) -> HeaderMap {
        let mut headers = if request.method == Method::TOOLS_CALL {
            self.call_headers.clone()
        } else {
            let mut headers = self.headers.clone();
            if let Ok(method) = HeaderValue::from_str(request.method.as_str()) {
                headers.insert(METHOD, method);
            }
            headers
        };
        let name = request.name.clone().or_else(|| {
            let name = name_in(&request.method, &request.params).map(|name| encode_header(&name))?;
            HeaderValue::try_from(name).ok()
        });
        if let Some(name) = name {
            headers.insert(NAME, name);
        }
        if let Some(more) = &request.headers {
            headers.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        headers
    }
}

/// Reads an answer whole; notifications on the way go to `peer`.
pub(crate) struct Reader<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) peer: &'a Peer,
    pub(crate) listens: bool,
    /// The request whose answer is waited for; any answer counts if this is `None`.
    pub(crate) id: Option<&'a Id>,
    /// The client that it is read for, if there is one.
    pub(crate) client: Option<&'a relayed::Client>,
}

impl Reader<'_> {
    pub(crate) async fn read(&self, response: Response<Arriving>) -> Result<Raw, CallError> {
        match content(response.headers()) {
            Content::Json => self.read_json(response.into_body()).await,
            Content::Events => self.read_events(response.into_body()).await,
            Content::Other => Err(self.endpoint.not_mcp(response.headers())),
        }
    }

    async fn read_json(&self, body: Arriving) -> Result<Raw, CallError> {
        let body = read_whole(body, MAX_MESSAGE).await.map_err(|error| match error {
            ReadError::Broken(cause) => self.endpoint.lost(&cause),
            ReadError::TooLarge => self.endpoint.too_large(),
        })?;
        match Message::parse(&body) {
            Ok(Message::Response(response)) if self.is_answered_by(&response) => {
                self.settle(response.outcome)
            }
            Ok(Message::Response(_)) => Err(self.endpoint.bad_answer("it answered another request")),
            Ok(_) => Err(self.endpoint.bad_answer("its answer is not a response")),
            Err(error) => Err(self.endpoint.bad_answer(&error.message)),
        }
    }

    async fn read_events(&self, body: Arriving) -> Result<Raw, CallError> {
        let mut events = EventStream::new(body);
        while let Some(event) = events.next().await.map_err(|cause| self.endpoint.lost(&cause))? {
            match Message::parse(&event.data) {
                Ok(Message::Response(response)) if self.is_answered_by(&response) => {
                    return self.settle(response.outcome);
                }
                Ok(Message::Notification(notification)) if self.may_pass(&notification) => {
                    self.peer.notify(plain(notification, self.listens));
                }
                Ok(Message::Notification(_)) => self.peer.alive(),
                Err(error) if error.is_answer => return Err(self.endpoint.bad_answer(&error.message)),
                // The answer to another request. A modern server sends no requests; without data it is no message at all.
                Ok(Message::Response(_) | Message::Request(_)) | Err(_) => {}
            }
        }
        Err(self.endpoint.lost("the stream ended before the answer"))
    }

    /// Log messages are filtered nearer to the client, which may set its level during the call.
    fn may_pass(&self, notification: &Notification) -> bool {
        let wants = |client: &relayed::Client| client.wants_progress;
        notification.method != Method::PROGRESS || self.client.is_none_or(wants)
    }

    /// The id as it was sent, or in another spelling of the same string; an error may come without an id.
    fn is_answered_by(&self, response: &RpcResponse) -> bool {
        let (Some(wanted), Some(id)) = (self.id, &response.id) else { return true };
        is_same_id(id, wanted)
    }

    fn settle(&self, outcome: Result<Raw, Raw>) -> Result<Raw, CallError> {
        outcome.map_err(|error| CallError::reported(error).at(&self.endpoint.name))
    }
}

/// Whether two ids are the same, however their string is spelled.
pub(super) fn is_same_id(found: &Id, wanted: &Id) -> bool {
    found == wanted || {
        let text = found.as_raw().as_string();
        text.is_some() && text == wanted.as_raw().as_string()
    }
}

/// What a listen receives, without the subscription id: the client's own subscription has another.
fn plain(notification: Notification, listens: bool) -> Notification {
    let Notification { method, params } = notification;
    let strip = |params: Raw| if listens { params.without_in("_meta", &[SUBSCRIPTION_ID]) } else { params };
    Notification { method, params: params.map(strip) }
}
