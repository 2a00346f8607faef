//! Event streams of modern upstreams: only notifications and the one answer to the call pass.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use tokio::time::Sleep;
use toolyard_model::answer::RelayError;
use toolyard_model::{AnswerBody, Relay, RelayKind};
use toolyard_proto::codec::MAX_MESSAGE;
use toolyard_proto::codec::sse::{Searched, data_of, event_end};
use toolyard_proto::message::nests_too_deep;
use toolyard_proto::{CallError, Id, Message};

use super::{Client, TOO_DEEP};
use crate::http::client::is_same_id;
use crate::http::connections::Arriving;
use crate::http::upstream::{FOREIGN_ANSWER, HttpUpstream, NO_MESSAGE, REQUEST, root_cause};

/// A comment, which clients skip.
const ALIVE: &[u8] = b":\n\n";
/// How long a stream may stay open after the answer, so that its connection can be used again.
const AFTER_ANSWER: Duration = Duration::from_secs(1);

/// The answer to a call as an event stream.
pub(crate) fn events(upstream: Arc<HttpUpstream>, id: Id, client: Client, body: Arriving) -> AnswerBody {
    let (buffer, stage) = (BytesMut::new(), Stage::Open);
    let events = CheckedEvents { upstream, id, client, body, buffer, searched: Searched::default(), stage };
    AnswerBody::Stream(Relay::new(RelayKind::Sse, events))
}

struct CheckedEvents {
    upstream: Arc<HttpUpstream>,
    id: Id,
    client: Client,
    body: Arriving,
    /// The start of an event whose end has not come yet.
    buffer: BytesMut,
    /// How far it has been searched for its end.
    searched: Searched,
    stage: Stage,
}

enum Stage {
    Open,
    /// The answer has passed; the end of the stream is awaited for a moment.
    Answered(Option<Pin<Box<Sleep>>>),
    Over,
}

/// The decision about an event.
enum EventVerdict {
    Pass,
    Answer,
    HoldBack(&'static str),
    /// The event is held back, but shows that the call is under way.
    Replace(&'static str),
}

impl CheckedEvents {
    /// The events that may pass, of those in `piece` and of what came before.
    fn take(&mut self, piece: &Bytes) -> Result<Bytes, CallError> {
        if self.buffer.is_empty()
            && event_end(piece, Searched::default()).ok() == Some(piece.len())
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
            match event_end(&self.buffer, self.searched) {
                Ok(end) => {
                    let event = self.buffer.split_to(end).freeze();
                    self.searched = Searched::default();
                    match self.judge_and_note(&event)? {
                        EventVerdict::Pass | EventVerdict::Answer => passing.extend_from_slice(&event),
                        EventVerdict::HoldBack(what) => self.upstream.held_back.note(what),
                        EventVerdict::Replace(what) => {
                            self.upstream.held_back.note(what);
                            passing.extend_from_slice(ALIVE);
                        }
                    }
                }
                Err(searched) => {
                    self.searched = searched;
                    break;
                }
            }
        }
        if self.buffer.len() > MAX_MESSAGE {
            return Err(self.upstream.too_large());
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
            return Err(self.upstream.bad_answer(TOO_DEEP));
        }
        Ok(match Message::parse(&data) {
            Ok(Message::Notification(notification)) => {
                self.client.refuses(&notification).map_or(EventVerdict::Pass, EventVerdict::Replace)
            }
            Ok(Message::Response(response)) => match &response.id {
                Some(found) if !is_same_id(found, &self.id) => EventVerdict::HoldBack(FOREIGN_ANSWER),
                _ => {
                    if let Some(why) =
                        response.outcome.as_ref().ok().and_then(|result| self.client.withholds(result))
                    {
                        return Err(self.upstream.bad_answer(&why));
                    }
                    EventVerdict::Answer
                }
            },
            Ok(Message::Request(_)) => EventVerdict::HoldBack(REQUEST),
            Err(error) if error.is_answer => return Err(self.upstream.bad_answer(&error.message)),
            Err(_) => EventVerdict::HoldBack(NO_MESSAGE),
        })
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
                Some(Err(error)) => return Poll::Ready(Some(Err(self.upstream.lost(&root_cause(&error))))),
                None => {
                    let error = self.upstream.lost("it ended the event stream without an answer");
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
