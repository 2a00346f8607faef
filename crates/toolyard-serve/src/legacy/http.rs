//! Legacy clients over HTTP: `initialize` opens a session, POST brings messages to it, GET reads a stream of
//! it, DELETE ends it.

use std::future::poll_fn;
use std::sync::Arc;

use http::header::{ACCEPT, HeaderValue};
use http::{HeaderMap, StatusCode};
use toolyard_model::headers::LAST_EVENT_ID as LAST_EVENT;
pub(crate) use toolyard_model::headers::SESSION_ID as SESSION;
use toolyard_model::{Origin, View};
use toolyard_proto::error::code;
use toolyard_proto::{CallError, Era, Message, Method, ParseError, RequestMessage, Revision, RpcError};

use super::handshake::{Handshake, HandshakeCaller, greet};
use super::remember::RestoredSession;
use super::replay::{FirstRead, Reader, Streams};
use super::session::ClientSession;
use super::sessions::{HttpSession, Turn, mint};
use crate::ServeBody;
use crate::admit::Admitted;
use crate::calls::{Calls, Outlet};
use crate::endpoint::Endpoint;
use crate::http::method_not_allowed;
use crate::reply::{self, HttpResponse, Rendered, array};
use crate::request::version;

/// A posted request.
pub(crate) async fn request(
    endpoint: &Arc<Endpoint>,
    view: View,
    admitted: Admitted,
    headers: &HeaderMap,
    message: RequestMessage,
) -> HttpResponse {
    if message.method == Method::INITIALIZE {
        return initialize(endpoint, view, admitted, message).await;
    }
    let session = match find(endpoint, &view, &admitted, headers).await {
        Ok(session) => session,
        Err(missing) => return missing.response(Some(&message)),
    };
    let reader = session.streams.open(1);
    session.session.start(message, session.streams.outlet(&reader)).await;
    first(reader, |mut answers| answers.pop().map(reply::message)).await
}

/// A posted notification or answer.
pub(crate) async fn traffic(
    endpoint: &Arc<Endpoint>,
    view: &View,
    admitted: &Admitted,
    headers: &HeaderMap,
    message: Message,
) -> HttpResponse {
    match find(endpoint, view, admitted, headers).await {
        Ok(session) => {
            session.session.take(message);
            reply::empty(StatusCode::ACCEPTED)
        }
        Err(missing) => missing.response(None),
    }
}

/// A posted batch, which one revision had.
pub(crate) async fn batch(
    endpoint: &Arc<Endpoint>,
    view: &View,
    admitted: &Admitted,
    headers: &HeaderMap,
    batch: Vec<Result<Message, ParseError>>,
) -> HttpResponse {
    let session = match find(endpoint, view, admitted, headers).await {
        Ok(session) if session.session.origin.revision == Revision::V2025_03_26 => session,
        Err(missing @ (Missing::ClientSession | Missing::Version(_))) => return missing.response(None),
        // A request without a session may have any revision.
        Ok(_) | Err(Missing::Header) => {
            let error = RpcError::new(code::INVALID_REQUEST, "batches are not accepted here");
            return reply::refusal(StatusCode::BAD_REQUEST, None, &error);
        }
    };
    let wants_answer = |part: &&Result<Message, ParseError>| matches!(part, Ok(Message::Request(_)) | Err(_));
    let answers = batch.iter().filter(wants_answer).count();
    let reader = session.streams.open(answers);
    let outlet = session.streams.outlet(&reader);
    for part in batch {
        take_part(&session.session, &outlet, part).await;
    }
    if answers == 0 {
        return reply::empty(StatusCode::ACCEPTED);
    }
    first(reader, |answers| Some(reply::json(ServeBody::full(array(answers))))).await
}

async fn take_part(
    session: &Arc<ClientSession>,
    outlet: &Arc<dyn Outlet>,
    part: Result<Message, ParseError>,
) {
    match part {
        Ok(Message::Request(message)) => session.start(message, outlet.clone()).await,
        Ok(message) => session.take(message),
        Err(error) => outlet.answer(Rendered::error(error.id.as_ref(), &error.to_rpc().to_raw())).await,
    }
}

/// A GET: the messages after an event, or those that belong to no call.
pub(crate) async fn get(
    endpoint: &Arc<Endpoint>,
    view: &View,
    admitted: &Admitted,
    headers: &HeaderMap,
) -> HttpResponse {
    if !headers.contains_key(SESSION) {
        return method_not_allowed();
    }
    let session = match find(endpoint, view, admitted, headers).await {
        Ok(session) => session,
        Err(missing) => return missing.response(None),
    };
    let wants_events = |value: &HeaderValue| {
        value.to_str().is_ok_and(|text| text.contains("text/event-stream") || text.contains("*/*"))
    };
    if !headers.get_all(ACCEPT).iter().any(wants_events) {
        return reply::text(StatusCode::NOT_ACCEPTABLE, "the client must accept text/event-stream\n");
    }
    let reader = match headers.get(LAST_EVENT).map(|value| value.to_str().unwrap_or_default()) {
        None => Some(session.streams.open_outside()),
        Some(last) => session.streams.resume(last).or_else(|| {
            // Messages before a restart, or beyond the ring, are lost; those from now on are not.
            (session.is_restored || Streams::is_outside(last)).then(|| session.streams.open_outside())
        }),
    };
    let lost = || ServeBody::full(": what came after that event is lost\n\n");
    reply::events(reader.map_or_else(lost, |reader| ServeBody::live_until(reader, admitted.until)))
}

/// A DELETE ends the session.
pub(crate) async fn delete(
    endpoint: &Arc<Endpoint>,
    view: &View,
    admitted: &Admitted,
    headers: &HeaderMap,
) -> HttpResponse {
    if !headers.contains_key(SESSION) {
        return method_not_allowed();
    }
    match find(endpoint, view, admitted, headers).await {
        Ok(session) => {
            endpoint.sessions.end(session).await;
            reply::empty(StatusCode::NO_CONTENT)
        }
        Err(missing) => missing.response(None),
    }
}

async fn initialize(
    endpoint: &Arc<Endpoint>,
    view: View,
    admitted: Admitted,
    message: RequestMessage,
) -> HttpResponse {
    let RequestMessage { id, params, .. } = message;
    let Some((session_id, client)) = mint() else {
        return reply::error(Era::Legacy, &id, &CallError::internal("no randomness for a session id"));
    };
    let session_id = match &endpoint.options.nodes {
        Some(nodes) => format!("{session_id}.{}", nodes.mark_session(&session_id)).into(),
        None => session_id,
    };
    let caller = HandshakeCaller { view, admitted, client };
    let patience = endpoint.options.handshake_timeout;
    let met = match greet(&endpoint.handler, patience, caller, id.clone(), params).await {
        Ok(met) => met,
        Err(error) => return reply::error(Era::Legacy, &id, &error),
    };
    let Handshake { origin, result } = met;
    let ground = endpoint.clone();
    let new_id = session_id.clone();
    let opening = move || open(&ground, new_id, origin, None, &ground.sessions.turn());
    if endpoint.sessions.apart(opening).await.flatten().is_none() {
        return reply::text(StatusCode::SERVICE_UNAVAILABLE, "too many sessions are open\n");
    }
    let mut response = reply::message(Rendered::result(&id, result));
    if let Ok(value) = HeaderValue::from_str(&session_id) {
        response.headers_mut().insert(SESSION, value);
    }
    response
}

/// A session for `origin`, if there is room for one; `restored` is what it watched before.
fn open(
    endpoint: &Endpoint,
    id: Arc<str>,
    origin: Arc<Origin>,
    restored: Option<Vec<String>>,
    turn: &Turn<'_>,
) -> Option<Arc<HttpSession>> {
    let options = &endpoint.options;
    let scope = endpoint.sessions.scope();
    let streams = Streams::new(origin.revision, options.keep_alive, endpoint.counts.clone());
    let session = ClientSession::new(endpoint, origin, Calls::new(options.calls), streams.outside(), scope);
    let session = HttpSession::new(id, session, streams, restored.is_some());
    session.session.watch_again(restored.unwrap_or_default());
    if !endpoint.sessions.add(session.clone(), turn) {
        session.session.end();
        return None;
    }
    Some(session)
}

/// A session from before this process, opened again without a new handshake.
fn restore(endpoint: &Endpoint, id: &str, view: &View, admitted: &Admitted) -> Option<Arc<HttpSession>> {
    if !endpoint.sessions.is_remembered(id) {
        return None;
    }
    // Two requests of one client may arrive at once; only the first finds the session closed.
    let turn = endpoint.sessions.turn();
    if let Some(found) = endpoint.sessions.find(id, view, &admitted.principal) {
        return Some(found);
    }
    if endpoint.sessions.is_open(id) {
        return None;
    }
    let restored = endpoint.sessions.restore(id, view, admitted)?;
    let RestoredSession { origin, watched, handler_state } = restored;
    if let Some(handler_state) = handler_state {
        endpoint.handler.restore_session(&origin, &handler_state);
    }
    let session = open(endpoint, id.into(), origin, Some(watched), &turn)?;
    session.session.restore_level();
    Some(session)
}

/// The response to a POST: JSON if the first events are all of its answers, otherwise a stream.
async fn first(mut reader: Reader, json: impl FnOnce(Vec<Rendered>) -> Option<HttpResponse>) -> HttpResponse {
    let empty_stream = || reply::events(ServeBody::empty());
    match poll_fn(|cx| reader.poll_first(cx)).await {
        FirstRead::Json(answers) => json(answers).unwrap_or_else(empty_stream),
        FirstRead::Events => reply::events(ServeBody::live(reader)),
        FirstRead::Nothing => empty_stream(),
    }
}

/// Why there is no session to continue.
enum Missing {
    Header,
    Version(String),
    ClientSession,
}

impl Missing {
    fn response(&self, message: Option<&RequestMessage>) -> HttpResponse {
        let (status, text) = match self {
            Self::Header => (
                StatusCode::BAD_REQUEST,
                "the Mcp-Session-Id header is required: send initialize first".into(),
            ),
            Self::Version(version) => {
                (StatusCode::BAD_REQUEST, format!("protocol version {version:?} is not supported"))
            }
            Self::ClientSession => {
                (StatusCode::NOT_FOUND, "there is no such session: send initialize again".into())
            }
        };
        reply::refusal(
            status,
            message.map(|message| &message.id),
            &RpcError::new(code::INVALID_REQUEST, text),
        )
    }
}

async fn find(
    endpoint: &Arc<Endpoint>,
    view: &View,
    admitted: &Admitted,
    headers: &HeaderMap,
) -> Result<Arc<HttpSession>, Missing> {
    if let Some(version) = version(headers)
        && Revision::parse(version).is_none()
    {
        return Err(Missing::Version(version.into()));
    }
    let id = headers.get(SESSION).ok_or(Missing::Header)?;
    let id = id.to_str().map_err(|_| Missing::ClientSession)?;
    let found = endpoint.sessions.find(id, view, &admitted.principal);
    // A stored session does not record that another node has carried out the steps.
    if found.is_some() || admitted.is_relayed || !endpoint.sessions.may_restore(id) {
        return found.ok_or(Missing::ClientSession);
    }
    let ground = endpoint.clone();
    let id = id.to_owned();
    let view = view.clone();
    let admitted = admitted.clone();
    let restoring = move || restore(&ground, &id, &view, &admitted);
    Box::pin(endpoint.sessions.apart(restoring)).await.flatten().ok_or(Missing::ClientSession)
}
