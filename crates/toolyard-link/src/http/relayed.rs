//! Answers of modern upstreams on their way to modern clients, checked as they flow.
//!
//! A small JSON answer is read whole and checked like any other. A larger one passes piece by piece: the id is
//! checked where it comes before the result, and size, nesting and completeness as the bytes pass. An event
//! stream passes event by event: only notifications and the one answer to the call get through.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::time::Sleep;
use toolyard_model::answer::RelayError;
use toolyard_model::peer::{unanswerable, unknown_result_type};
use toolyard_model::{Answer, AnswerBody, LinkRequest, Origin, Relay, RelayKind};
use toolyard_proto::codec::MAX_MESSAGE;
use toolyard_proto::codec::sse::{data_of, event_end};
use toolyard_proto::message::{Nesting, leading_id, nests_too_deep};
use toolyard_proto::{CallError, Id, Message, Method, Notification, Raw, Revision};

use super::client::is_same_id;
use super::endpoint::{Endpoint, root_cause};
use super::wire::Arriving;

/// Up to this size a JSON answer is read whole before anything of it is passed on.
const WHOLE: usize = 64 * 1024;
/// A comment, which clients skip.
const ALIVE: &[u8] = b":\n\n";
const TOO_DEEP: &str = "its answer is nested too deep";
/// How long a stream may stay open after the answer, so that its connection can be used again.
const AFTER_ANSWER: Duration = Duration::from_secs(1);

/// The answer to a call in JSON: whole if it is small, otherwise as a stream.
pub(super) async fn json(endpoint: Arc<Endpoint>, id: Id, mut body: Arriving) -> Answer {
    let mut first = Bytes::new();
    let mut more = BytesMut::new();
    while first.len() + more.len() <= WHOLE {
        let Some(frame) = body.frame().await else {
            return whole(&endpoint, &id, &joined(first, &more));
        };
        let frame = frame.map_err(|error| endpoint.lost(&root_cause(&error)))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.is_empty() {
            first = data;
        } else {
            more.extend_from_slice(&data);
        }
        if body.is_end_stream() {
            return whole(&endpoint, &id, &joined(first, &more));
        }
    }
    let start = joined(first, &more);
    if leading_id(&start).is_some_and(|found| !is_same_id(&found, &id)) {
        return Err(endpoint.bad_answer("it answered another request"));
    }
    let passing = LargeJson { endpoint, start, body, nesting: Nesting::default(), passed: 0, is_over: false };
    Ok(AnswerBody::Stream(Relay::new(RelayKind::Json, passing)))
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

fn whole(endpoint: &Endpoint, id: &Id, body: &Bytes) -> Answer {
    if nests_too_deep(body) {
        return Err(endpoint.bad_answer(TOO_DEEP));
    }
    match Message::parse(body) {
        Ok(Message::Response(response)) if response.id.as_ref().is_none_or(|found| is_same_id(found, id)) => {
            let result = response.outcome.map_err(|error| CallError::reported(error).at(&endpoint.name));
            Ok(AnswerBody::Whole(result.map_err(crate::own::own_hop)?, Revision::NEWEST))
        }
        Ok(Message::Response(_)) => Err(endpoint.bad_answer("it answered another request")),
        Ok(_) => Err(endpoint.bad_answer("its answer is not a response")),
        Err(error) => Err(endpoint.bad_answer(&error.message)),
    }
}

/// A JSON answer of more than [`WHOLE`] bytes.
struct LargeJson {
    endpoint: Arc<Endpoint>,
    /// What was read already.
    start: Bytes,
    body: Arriving,
    nesting: Nesting,
    passed: usize,
    is_over: bool,
}

impl LargeJson {
    fn check(&mut self, piece: &[u8]) -> Result<(), CallError> {
        self.passed += piece.len();
        if self.passed > MAX_MESSAGE {
            return Err(self.endpoint.too_large());
        }
        self.nesting.read(piece).map_err(|why| self.endpoint.bad_answer(why))
    }

    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, CallError>>> {
        if !self.start.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.start))));
        }
        loop {
            return Poll::Ready(match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Some(Ok(data)),
                    Err(_) => continue,
                },
                Some(Err(error)) => Some(Err(self.endpoint.lost(&root_cause(&error)))),
                None if self.nesting.is_complete() => None,
                None => Some(Err(self.endpoint.lost("its answer is incomplete"))),
            });
        }
    }
}

impl Body for LargeJson {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let next = ready!(self.next(cx));
        let checked = next.map(|piece| piece.and_then(|piece| self.check(&piece).map(|()| piece)));
        self.is_over = !matches!(checked, Some(Ok(_)));
        Poll::Ready(checked.map(|piece| piece.map(Frame::data).map_err(RelayError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }
}

/// What a client has declared, which decides what it may get.
#[derive(Debug)]
pub(crate) struct Client {
    origin: Arc<Origin>,
    pub(crate) wants_progress: bool,
}

impl Client {
    pub(super) fn of(request: &LinkRequest) -> Self {
        let wants_progress = request.params.at(&["_meta", "progressToken"]).is_some();
        Self { origin: request.origin.clone(), wants_progress }
    }

    /// Why the client must not get this result, if it must not.
    fn gets_not(&self, result: &Raw) -> Option<String> {
        let capabilities = &self.origin.capabilities;
        let asks = || unanswerable(result, capabilities).map(|refusal| format!("it asks, but {refusal}"));
        let kind = || unknown_result_type(result, capabilities);
        asks().or_else(|| kind().map(|kind| format!("its result has the unknown type `{kind}`")))
    }

    /// Why a notification is held back, if it is.
    fn refuses(&self, notification: &Notification) -> Option<&'static str> {
        if notification.method == Method::PROGRESS && !self.wants_progress {
            return Some("progress, which the client did not ask for");
        }
        (notification.method == Method::LOG && self.origin.log_level.get().is_none())
            .then_some("a log message, which the client did not ask for")
    }
}

/// The answer to a call as an event stream.
pub(super) fn events(endpoint: Arc<Endpoint>, id: Id, client: Client, body: Arriving) -> AnswerBody {
    let (buffer, stage) = (BytesMut::new(), Stage::Open);
    let events = CheckedEvents { endpoint, id, client, body, buffer, scanned: 0, stage };
    AnswerBody::Stream(Relay::new(RelayKind::Sse, events))
}

struct CheckedEvents {
    endpoint: Arc<Endpoint>,
    id: Id,
    client: Client,
    body: Arriving,
    /// The start of an event whose end has not come yet.
    buffer: BytesMut,
    /// How much of it is known to hold no end.
    scanned: usize,
    stage: Stage,
}

enum Stage {
    Open,
    /// The answer has passed; the end of the stream is awaited for a moment.
    Answered(Option<Pin<Box<Sleep>>>),
    Over,
}

/// What to do with an event.
enum EventVerdict {
    Pass,
    Answer,
    HoldBack(&'static str),
    /// It is held back, but shows that the call is under way.
    Replace(&'static str),
}

impl CheckedEvents {
    /// The events that may pass, of those in `piece` and of what came before.
    fn take(&mut self, piece: &Bytes) -> Result<Bytes, CallError> {
        if self.buffer.is_empty()
            && event_end(piece, 0).ok() == Some(piece.len())
            && let EventVerdict::Pass | EventVerdict::Answer = self.judge_and_note(piece)?
        {
            return Ok(piece.clone());
        }
        self.take_in_parts(piece)
    }

    fn take_in_parts(&mut self, piece: &Bytes) -> Result<Bytes, CallError> {
        self.buffer.extend_from_slice(piece);
        let mut passing = BytesMut::new();
        while matches!(self.stage, Stage::Open) {
            match event_end(&self.buffer, self.scanned) {
                Ok(end) => {
                    let event = self.buffer.split_to(end).freeze();
                    self.scanned = 0;
                    match self.judge_and_note(&event)? {
                        EventVerdict::Pass | EventVerdict::Answer => passing.extend_from_slice(&event),
                        EventVerdict::HoldBack(what) => self.held_back(what),
                        EventVerdict::Replace(what) => {
                            self.held_back(what);
                            passing.extend_from_slice(ALIVE);
                        }
                    }
                }
                Err(scanned) => {
                    self.scanned = scanned;
                    break;
                }
            }
        }
        if self.buffer.len() > MAX_MESSAGE {
            return Err(self.endpoint.too_large());
        }
        Ok(passing.freeze())
    }

    fn judge_and_note(&mut self, event: &Bytes) -> Result<EventVerdict, CallError> {
        let verdict = self.judge(event)?;
        if matches!(verdict, EventVerdict::Answer) {
            self.stage = Stage::Answered(None);
        }
        Ok(verdict)
    }

    fn judge(&self, event: &Bytes) -> Result<EventVerdict, CallError> {
        let Some(data) = data_of(event).filter(|data| !data.is_empty()) else {
            return Ok(EventVerdict::Pass);
        };
        if nests_too_deep(&data) {
            return Err(self.endpoint.bad_answer(TOO_DEEP));
        }
        Ok(match Message::parse(&data) {
            Ok(Message::Notification(notification)) => {
                self.client.refuses(&notification).map_or(EventVerdict::Pass, EventVerdict::Replace)
            }
            Ok(Message::Response(response)) => match &response.id {
                Some(found) if !is_same_id(found, &self.id) => {
                    EventVerdict::HoldBack("an answer to another request")
                }
                _ => {
                    if let Some(why) =
                        response.outcome.as_ref().ok().and_then(|result| self.client.gets_not(result))
                    {
                        return Err(self.endpoint.bad_answer(&why));
                    }
                    EventVerdict::Answer
                }
            },
            Ok(Message::Request(_)) => {
                EventVerdict::HoldBack("a request, which modern servers must not send")
            }
            Err(error) if error.is_answer => return Err(self.endpoint.bad_answer(&error.message)),
            Err(_) => EventVerdict::HoldBack("an event that is not a message"),
        })
    }

    fn held_back(&self, what: &str) {
        tracing::debug!(upstream = %self.endpoint.name, what, "held back an event of a relayed answer");
    }

    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, CallError>>> {
        loop {
            match &mut self.stage {
                Stage::Over => return Poll::Ready(None),
                Stage::Answered(wait) => {
                    let polled = Pin::new(&mut self.body).poll_frame(cx);
                    if polled.is_pending() {
                        let wait = wait.get_or_insert_with(|| Box::pin(tokio::time::sleep(AFTER_ANSWER)));
                        ready!(wait.as_mut().poll(cx));
                    }
                    // Nothing may follow the answer.
                    self.stage = Stage::Over;
                    return Poll::Ready(None);
                }
                Stage::Open => {}
            }
            let piece = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => piece,
                    Err(_) => continue,
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(self.endpoint.lost(&root_cause(&error))))),
                None => {
                    let error = self.endpoint.lost("it ended the event stream without an answer");
                    return Poll::Ready(Some(Err(error)));
                }
            };
            match self.take(&piece) {
                Ok(passing) if passing.is_empty() => {}
                taken => return Poll::Ready(Some(taken)),
            }
        }
    }
}

impl Body for CheckedEvents {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        let next = ready!(self.next(cx));
        if !matches!(next, Some(Ok(_))) {
            self.stage = Stage::Over;
        }
        Poll::Ready(next.map(|piece| piece.map(Frame::data).map_err(RelayError::from)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }
}
