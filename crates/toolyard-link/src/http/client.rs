//! A link to a modern upstream over HTTP: one POST per call. Calls share only the connection pool. If the client can
//! receive it, the upstream's body is passed on unchanged.

mod read;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use futures_util::TryFutureExt;
use futures_util::future::Either;
use http::header::HeaderValue;
use http::{HeaderMap, Method as HttpMethod, Request, Response, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use toolyard_model::{
    Answer, AnswerBody, BoxFuture, Greeting, Link, LinkRequest, Origin, Peer, Principal, Scope,
};
use toolyard_proto::message::{leading_id, nests_too_deep};
use toolyard_proto::modern::{encode_header, name_in};
use toolyard_proto::{CallError, Id, Message, Method, Notification, RequestMessage, Revision};

use super::body::{Content, content};
use super::connections::Arriving;
use super::credentials::Parts;
use super::refusal::HttpRefusal;
use super::upstream::{HttpUpstream, METHOD, NAME, PROTOCOL_VERSION, root_cause, target};
use super::{relayed, spare};
use crate::events::Events;
use crate::own::own_hop;
pub(crate) use read::{AnswerReader, is_same_id};

/// Up to this size a JSON answer is read whole before any part of it is passed on.
const WHOLE: usize = 64 * 1024;

/// A link to a modern HTTP upstream.
pub struct HttpLink {
    greeting: Greeting,
    caller: Arc<ModernCaller>,
    events: Events,
    scope: Scope,
    /// The link is released; calls in flight continue.
    let_go: AtomicBool,
}

impl HttpLink {
    pub(crate) fn new(greeting: Greeting, caller: ModernCaller, events: Events, scope: Scope) -> Self {
        Self { greeting, caller: Arc::new(caller), events, scope, let_go: AtomicBool::new(false) }
    }
}

impl std::fmt::Debug for HttpLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpLink").field("upstream", &self.caller.upstream.name).finish_non_exhaustive()
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
            (self.events.clone(), self.caller.upstream.reason("was released by the gateway"));
        Box::pin(async move { events.closed_soon(reason).await })
    }

    fn close(&self) -> BoxFuture<()> {
        let events = self.events.clone();
        let scope = self.scope.clone();
        let reason = self.caller.upstream.reason("was closed by the gateway");
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
pub(crate) struct ModernCaller {
    pub(crate) upstream: Arc<HttpUpstream>,
    headers: HeaderMap,
    /// Like `headers`, with `tools/call` preset and room for the tool name.
    call_headers: HeaderMap,
}

impl ModernCaller {
    pub(crate) fn new(upstream: Arc<HttpUpstream>) -> Self {
        let mut headers = upstream.post_headers();
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(Revision::NEWEST.as_str()));
        let mut call_headers = headers.clone();
        call_headers.insert(METHOD, HeaderValue::from_static("tools/call"));
        Self { upstream, headers, call_headers }
    }

    /// The request's data is dropped before the wait begins, and rare cases are boxed: a
    /// small future is cheap to make and to move.
    fn call(self: Arc<Self>, request: LinkRequest, peer: Peer) -> impl Future<Output = Answer> {
        let relay = request.relay;
        let listens = request.method == Method::LISTEN;
        let is_call = request.method == Method::TOOLS_CALL;
        let id = request.id.clone();
        let principal = self.principal_of(&request);
        let client = relayed::Client::of(&request);
        let (headers, body) = self.render(request);
        async move {
            let sent = self.upstream.send(principal.as_ref(), HttpMethod::POST, headers, body);
            let response = sent.await?;
            // A note about the second credential is added to the answer, so the answer must be read whole.
            let is_spared = is_call && spare::is_marked(&response);
            let relay = relay && !is_spared;
            match content(response.headers()) {
                _ if response.status() != StatusCode::OK => {
                    let refusal = Box::pin(HttpRefusal::read(response)).await;
                    Err(own_hop(refusal.to_call_error(&self.upstream)))
                }
                Content::Json if relay => {
                    let body = response.into_body();
                    Box::pin(relay_json(self.upstream.clone(), id, body)).await
                }
                Content::Events if relay => {
                    Ok(relayed::events(self.upstream.clone(), id, client, response.into_body()))
                }
                _ => {
                    let reader = AnswerReader {
                        upstream: &self.upstream,
                        peer: &peer,
                        listens,
                        id: Some(&id),
                        client: Some(&client),
                    };
                    let result = Box::pin(reader.read(response)).await.map_err(own_hop)?;
                    let result = if is_spared { spare::stated(&result, &self.upstream.name) } else { result };
                    Ok(AnswerBody::Whole(result, Revision::NEWEST))
                }
            }
        }
    }

    pub(crate) async fn post(&self, request: LinkRequest) -> Result<Response<Arriving>, CallError> {
        let principal = self.principal_of(&request);
        let (headers, body) = self.render(request);
        self.upstream.send(principal.as_ref(), HttpMethod::POST, headers, body).await
    }

    /// The principal whose credentials the request carries, if it carries any.
    fn principal_of(&self, request: &LinkRequest) -> Option<Principal> {
        self.upstream.is_guarded().then(|| request.origin.principal.clone())
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

/// Returns a JSON answer to a call: whole if it is small, otherwise as a stream. The id of a large answer is checked only
/// if it comes before the result.
async fn relay_json(upstream: Arc<HttpUpstream>, id: Id, mut body: Arriving) -> Answer {
    let mut first = Bytes::new();
    let mut more = BytesMut::new();
    while first.len() + more.len() <= WHOLE {
        let Some(frame) = body.frame().await else {
            return parse_whole(&upstream, &id, &joined(first, &more));
        };
        let frame = frame.map_err(|error| upstream.lost(&root_cause(&error)))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.is_empty() {
            first = data;
        } else {
            more.extend_from_slice(&data);
        }
        if body.is_end_stream() {
            return parse_whole(&upstream, &id, &joined(first, &more));
        }
    }
    let start = joined(first, &more);
    if leading_id(&start).is_some_and(|found| !is_same_id(&found, &id)) {
        return Err(upstream.bad_answer("it answered another request"));
    }
    Ok(relayed::large_json(upstream, start, body))
}

fn joined(first: Bytes, more: &BytesMut) -> Bytes {
    if more.is_empty() {
        return first;
    }
    let mut whole = BytesMut::with_capacity(first.len() + more.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(more);
    whole.freeze()
}

fn parse_whole(upstream: &HttpUpstream, id: &Id, body: &Bytes) -> Answer {
    if nests_too_deep(body) {
        return Err(upstream.bad_answer(relayed::TOO_DEEP));
    }
    match Message::parse(body) {
        Ok(Message::Response(response)) if response.id.as_ref().is_none_or(|found| is_same_id(found, id)) => {
            let result = response.outcome.map_err(|error| CallError::reported(error).at(&upstream.name));
            Ok(AnswerBody::Whole(result.map_err(own_hop)?, Revision::NEWEST))
        }
        Ok(Message::Response(_)) => Err(upstream.bad_answer("it answered another request")),
        Ok(_) => Err(upstream.bad_answer("its answer is not a response")),
        Err(error) => Err(upstream.bad_answer(&error.message)),
    }
}

impl HttpUpstream {
    /// Sends a request of `principal`, or of the gateway itself.
    pub(crate) fn send(
        &self,
        principal: Option<&Principal>,
        method: HttpMethod,
        headers: HeaderMap,
        body: Bytes,
    ) -> impl Future<Output = Result<Response<Arriving>, CallError>> + use<'_> {
        self.dispatch(principal, self.target.clone(), method, headers, body)
    }

    /// Sends a request to another address of the same server.
    pub(crate) fn send_to(
        &self,
        url: &Uri,
        method: HttpMethod,
        headers: HeaderMap,
        body: Bytes,
    ) -> impl Future<Output = Result<Response<Arriving>, CallError>> {
        self.dispatch(None, target(url), method, headers, body)
    }

    /// Sends a request at once, or with the credentials that it needs.
    fn dispatch(
        &self,
        principal: Option<&Principal>,
        target: Uri,
        method: HttpMethod,
        headers: HeaderMap,
        body: Bytes,
    ) -> impl Future<Output = Result<Response<Arriving>, CallError>> + use<'_> {
        let authorize = self.authorize.as_ref().filter(|_| self.is_guarded());
        if authorize.is_none() && self.spare.is_none() {
            return Either::Left(self.send_plain(target, method, headers, body));
        }
        let request = Parts { target, method, headers, body };
        Either::Right(Box::pin(self.with_spare(authorize, principal.cloned(), request)))
    }

    /// Sends a request as it is.
    pub(super) fn send_plain(
        &self,
        target: Uri,
        method: HttpMethod,
        headers: HeaderMap,
        body: Bytes,
    ) -> impl Future<Output = Result<Response<Arriving>, CallError>> + use<'_> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = target;
        *request.headers_mut() = headers;
        self.pool.send(request).map_err(|error| self.failed(&error))
    }
}
