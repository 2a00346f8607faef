//! One call in a session: its POST, the stream of its answer, which is resumed if it breaks, and its cancel.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Response, StatusCode};
use toolyard_model::{LinkRequest, Peer};
use toolyard_proto::codec::MAX_MESSAGE;
use toolyard_proto::codec::sse::Event;
use toolyard_proto::error::code;
use toolyard_proto::{
    CallError, Id, Incoming as Parsed, Message, Method, Notification, ParseError, Raw, RequestMessage,
    Response as RpcResponse,
};

use super::owner::Owner;
use super::session::{Errand, UpstreamSession};
use crate::asks::{Verdict, to_ask};
use crate::events::is_change;
use crate::http::body::{Content, ReadError, content, read_whole};
use crate::http::connections::Arriving;
use crate::http::refusal::HttpRefusal;
use crate::http::spare;
use crate::http::sse::EventStream;
use crate::http::upstream::LAST_EVENT_ID;
use crate::inflight::{Flight, is_addressable};

/// How often a stream is resumed without anything new on it.
const DRY_RESUMES: u32 = 5;
/// How long to wait before resuming if the server does not state it.
const RESUME_AFTER: Duration = Duration::from_secs(1);
/// Limits of the wait, whatever the server asks for.
const SHORTEST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

pub(crate) enum Failed {
    /// The upstream does not know the session; the call was not carried out.
    SessionLost,
    Call(CallError),
}

impl From<CallError> for Failed {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl UpstreamSession {
    pub(crate) async fn call(self: &Arc<Self>, request: &LinkRequest, peer: &Peer) -> Result<Raw, Failed> {
        let level = self.lock().sent_level.before(request, &self.greeting);
        if let Some(level) = level {
            // Its answer does not matter, unless the session was lost.
            if let Err(Failed::SessionLost) = self.exchange(&level, &Peer::none()).await {
                return Err(Failed::SessionLost);
            }
        }
        let outcome = self.exchange(request, peer).await;
        if outcome.is_ok() {
            self.lock().memory.note(request);
        }
        outcome
    }

    /// Sends the request and waits for its answer, without recording what the request sets up in the session.
    pub(super) async fn exchange(
        self: &Arc<Self>,
        request: &LinkRequest,
        peer: &Peer,
    ) -> Result<Raw, Failed> {
        let (call, message) = Underway::begin(self, request, peer).ok_or(Failed::SessionLost)?;
        let outcome = call.run(&message, request.method == Method::TOOLS_CALL).await;
        call.end();
        outcome
    }
}

/// A call under way. Dropped before its end, it is cancelled.
struct Underway<'a> {
    session: Arc<UpstreamSession>,
    peer: &'a Peer,
    number: u64,
    id: Id,
    /// Whether id and progress token are ours and not the client's.
    minted: bool,
    ended: bool,
}

impl<'a> Underway<'a> {
    fn begin(
        session: &Arc<UpstreamSession>,
        request: &LinkRequest,
        peer: &'a Peer,
    ) -> Option<(Self, Message)> {
        let mut state = session.lock();
        if state.ended {
            return None;
        }
        state.last += 1;
        state.used = Instant::now();
        let number = state.last;
        let token = request.params.at(&["_meta", "progressToken"]);
        let (client, principal) = (request.origin.client.clone(), request.origin.principal.clone());
        let addressable = is_addressable(&client, &request.method);
        let minted = mints(&session.owner, request);
        state.calls.insert(
            number,
            Flight { client, principal, peer: peer.clone(), token: token.clone(), addressable, more: () },
        );
        drop(state);
        let id = if minted { Id::string(&format!("yard-{number}")) } else { request.id.clone() };
        let params = match token {
            Some(_) if minted => request.params.with_path(&["_meta", "progressToken"], id.as_raw()).into(),
            _ => request.params.clone(),
        };
        let message = RequestMessage { id: id.clone(), method: request.method.clone(), params: Some(params) };
        let call = Self { session: session.clone(), peer, number, id, minted, ended: false };
        Some((call, Message::Request(message)))
    }

    async fn run(&self, message: &Message, is_call: bool) -> Result<Raw, Failed> {
        let response = self.session.post(message).await?;
        let is_spared = is_call && spare::is_marked(&response);
        if response.status() != StatusCode::OK {
            let refusal = HttpRefusal::read(response).await;
            if self.session.has_id && is_session_lost(&refusal) {
                return Err(Failed::SessionLost);
            }
            return Err(refusal.to_call_error(&self.session.upstream).into());
        }
        let outcome = match content(response.headers()) {
            Content::Json => self.read_json(response).await,
            Content::Events => self.follow(EventStream::new(response.into_body())).await,
            Content::Other => Err(self.session.upstream.not_mcp(response.headers())),
        };
        let result = outcome.map_err(Failed::Call)?;
        Ok(if is_spared { spare::stated(&result, &self.session.upstream.name) } else { result })
    }

    async fn read_json(&self, response: Response<Arriving>) -> Result<Raw, CallError> {
        let upstream = &self.session.upstream;
        let body = read_whole(response.into_body(), MAX_MESSAGE).await.map_err(|error| match error {
            ReadError::Broken(cause) => upstream.lost(&cause),
            ReadError::TooLarge => upstream.too_large(),
        })?;
        match self.take(&body) {
            Ok(Some(outcome)) => outcome,
            Ok(None) => Err(self.bad_answer("its answer holds no response to the request")),
            Err(error) => Err(self.bad_answer(&error.message)),
        }
    }

    fn bad_answer(&self, why: &str) -> CallError {
        self.session.upstream.bad_answer(why)
    }

    /// Reads the stream of this call to its answer. A stream that ends before is resumed where it stopped,
    /// if the server numbers its events; if the server ended it on purpose, the client's stream is ended, too.
    async fn follow(&self, mut events: EventStream) -> Result<Raw, CallError> {
        let mut place = StreamPosition::default();
        loop {
            let why = match self.read_on(&mut events, &mut place).await {
                Stop::Answered(outcome) => return outcome,
                Stop::Broken(cause) => cause,
                Stop::Ended => {
                    if place.last_id.is_some() {
                        self.peer.hang_up(place.wait());
                    }
                    "the stream ended before the answer".to_owned()
                }
            };
            events = self.resume(&mut place, &why).await?;
        }
    }

    async fn read_on(&self, events: &mut EventStream, place: &mut StreamPosition) -> Stop {
        loop {
            match events.next().await {
                Ok(Some(event)) => {
                    place.note(&event);
                    match self.take(&event.data) {
                        Ok(Some(outcome)) => return Stop::Answered(outcome),
                        Err(error) if error.is_answer => {
                            return Stop::Answered(Err(self.bad_answer(&error.message)));
                        }
                        Ok(None) | Err(_) => {}
                    }
                }
                Ok(None) => return Stop::Ended,
                Err(cause) => return Stop::Broken(cause),
            }
        }
    }

    /// Resumes a stream that stopped for the reason `why`, with a bounded number of attempts.
    async fn resume(&self, place: &mut StreamPosition, why: &str) -> Result<EventStream, CallError> {
        while let Some(last_id) = place.last_id.clone().filter(|_| place.dry < DRY_RESUMES) {
            place.dry += 1;
            tokio::time::sleep(place.wait()).await;
            if let Some(events) = self.resume_once(&last_id).await? {
                return Ok(events);
            }
        }
        Err(self.session.upstream.lost(why))
    }

    /// `None` if the server could not be reached just now.
    async fn resume_once(&self, last_id: &str) -> Result<Option<EventStream>, CallError> {
        let mut headers = self.session.get_headers();
        let Ok(last_id) = http::HeaderValue::from_str(last_id) else {
            return Err(self.bad_answer("an event id of its stream is not valid in a header"));
        };
        headers.insert(LAST_EVENT_ID, last_id);
        let sent = self.session.get(headers).await;
        let Ok(response) = sent else { return Ok(None) };
        if response.status() == StatusCode::OK && content(response.headers()) == Content::Events {
            return Ok(Some(EventStream::new(response.into_body())));
        }
        let why = format!("its stream could not be resumed (HTTP {})", response.status());
        Err(self.session.upstream.lost(&why))
    }

    /// Takes a message of this call's stream; returns the outcome if the message is the answer.
    fn take(&self, data: &Bytes) -> Result<Option<Result<Raw, CallError>>, ParseError> {
        if data.is_empty() {
            return Ok(None);
        }
        match Parsed::parse(data)? {
            Parsed::One(message) => Ok(self.take_message(message)),
            Parsed::Batch(parts) => {
                let outcomes = parts.into_iter().filter_map(Result::ok).map(|part| self.take_message(part));
                // Every message is taken, also those after the answer.
                Ok(outcomes.fold(None, Option::or))
            }
        }
    }

    fn take_message(&self, message: Message) -> Option<Result<Raw, CallError>> {
        match message {
            Message::Response(response) if self.is_answered_by(&response) => {
                let name = &self.session.upstream.name;
                return Some(response.outcome.map_err(|error| CallError::reported(error).at(name)));
            }
            Message::Response(_) => {}
            Message::Notification(notification) => self.take_notification(notification),
            Message::Request(request) => {
                let ask = || Verdict::Ask(self.peer.ask(to_ask(&request)));
                let verdict = if request.method == Method::PING { Verdict::pong() } else { ask() };
                self.session.answer(request, verdict);
            }
        }
        None
    }

    /// The id as it was sent, or in another spelling of the same string; an error may come without.
    fn is_answered_by(&self, response: &RpcResponse) -> bool {
        match &response.id {
            None => response.outcome.is_err(),
            Some(id) if *id == self.id => true,
            Some(id) => {
                let text = id.as_raw().as_string();
                text.is_some() && text == self.id.as_raw().as_string()
            }
        }
    }

    fn take_notification(&self, notification: Notification) {
        let session = &self.session;
        if notification.method == Method::CANCELLED && session.asks.take_back(&notification) {
            return;
        }
        if is_change(&notification.method) || notification.method == Method::RESOURCE_UPDATED {
            return session.events.notify(session.owner.client(), notification);
        }
        if notification.method == Method::PROGRESS && self.minted {
            return session.progress(notification);
        }
        self.peer.notify(notification);
    }

    fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        let mut state = self.session.lock();
        let over = self.ended || state.ended;
        let now = Instant::now();
        state.used = now;
        if over {
            state.calls.remove(self.number);
        } else {
            state.calls.leave(self.number, now);
        }
        drop(state);
        if !over {
            let params = Raw::empty_object()
                .with("requestId", self.id.as_raw())
                .with("reason", &Raw::from_serialize(&"the client cancelled the call"));
            let message = Message::Notification(Notification::new(Method::CANCELLED, params));
            let _ = self.session.errands.try_send(Errand { session: self.session.clone(), message });
        }
    }
}

/// Ids must not repeat within a session. Only a legacy client keeps to that in its own session;
/// `yard-` ids are the gateway's, on its own behalf or on that client's.
fn mints(owner: &Owner, request: &LinkRequest) -> bool {
    !matches!(owner, Owner::Client(_))
        || request.origin.revision.is_modern()
        || request.id.as_bytes().starts_with(b"\"yard-")
}

/// The status for it is 404; servers built on the TypeScript examples answer 400 with a text.
pub(super) fn is_session_lost(refusal: &HttpRefusal) -> bool {
    let code =
        refusal.error.as_ref().and_then(|error| error.member("code")).and_then(|code| code.read().ok());
    match (refusal.status, code) {
        (StatusCode::NOT_FOUND, code) => code != Some(code::METHOD_NOT_FOUND),
        (StatusCode::BAD_REQUEST, Some(-32000)) => {
            let printed = refusal.error.as_ref().and_then(|error| error.member("message"));
            printed
                .and_then(|printed| printed.as_string())
                .is_some_and(|printed| printed.to_lowercase().contains("session"))
        }
        _ => false,
    }
}

/// Why reading a stream stopped.
enum Stop {
    Answered(Result<Raw, CallError>),
    Ended,
    Broken(String),
}

/// How far a stream has been read.
#[derive(Default)]
pub(super) struct StreamPosition {
    pub(super) last_id: Option<String>,
    retry: Option<u64>,
    /// How often it was resumed without anything new on it.
    dry: u32,
}

impl StreamPosition {
    pub(super) fn note(&mut self, event: &Event) {
        if let Some(id) = &event.id {
            self.last_id = (!id.is_empty()).then(|| id.clone());
        }
        self.retry = event.retry.or(self.retry);
        if !event.data.is_empty() {
            self.dry = 0;
        }
    }

    pub(super) fn wait(&self) -> Duration {
        self.retry.map_or(RESUME_AFTER, Duration::from_millis).clamp(SHORTEST_WAIT, LONGEST_WAIT)
    }
}
