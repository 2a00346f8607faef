//! Passes large answers and event streams of modern upstreams on to modern clients, and checks them as they arrive.
//!
//! A large JSON answer passes piece by piece: size, nesting and completeness are checked as the bytes pass. An event
//! stream passes event by event: only notifications and the one answer to the call get through.

mod events;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use toolyard_model::answer::RelayError;
use toolyard_model::peer::{unanswerable, unknown_result_type};
use toolyard_model::{AnswerBody, LinkRequest, Origin, Relay, RelayKind};
use toolyard_proto::codec::MAX_MESSAGE;
use toolyard_proto::message::Nesting;
use toolyard_proto::{CallError, Method, Notification, Raw};

use super::connections::Arriving;
use super::upstream::{HttpUpstream, root_cause};
use crate::held_back::{UNASKED_PROGRESS, unwanted};

pub(super) use events::events;

pub(super) const TOO_DEEP: &str = "its answer is nested too deep";

/// The rest of a JSON answer that is too large to be read whole.
struct LargeJson {
    upstream: Arc<HttpUpstream>,
    /// The bytes that were read already.
    start: Bytes,
    body: Arriving,
    nesting: Nesting,
    passed: usize,
    is_over: bool,
}

/// A JSON answer whose first bytes, `start`, were read already.
pub(super) fn large_json(upstream: Arc<HttpUpstream>, start: Bytes, body: Arriving) -> AnswerBody {
    let passing = LargeJson { upstream, start, body, nesting: Nesting::default(), passed: 0, is_over: false };
    AnswerBody::Stream(Relay::new(RelayKind::Json, passing))
}

impl LargeJson {
    fn check(&mut self, piece: &[u8]) -> Result<(), CallError> {
        self.passed += piece.len();
        if self.passed > MAX_MESSAGE {
            return Err(self.upstream.too_large());
        }
        self.nesting.read(piece).map_err(|why| self.upstream.bad_answer(why))
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
                Some(Err(error)) => Some(Err(self.upstream.lost(&root_cause(&error)))),
                None if self.nesting.is_complete() => None,
                None => Some(Err(self.upstream.lost("its answer is incomplete"))),
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

/// The client's declarations, which decide what may be sent to it.
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

    /// The reason why the client must not get this result; `None` if it may.
    fn withholds(&self, result: &Raw) -> Option<String> {
        let capabilities = &self.origin.capabilities;
        if let Some(refusal) = unanswerable(result, capabilities) {
            return Some(format!("the upstream asked a question that cannot be answered: {refusal}"));
        }
        let kind = unknown_result_type(result, capabilities)?;
        Some(format!("its result has the unknown type `{kind}`"))
    }

    /// The reason why a notification is held back; `None` if it is passed on.
    fn refuses(&self, notification: &Notification) -> Option<&'static str> {
        if notification.method == Method::PROGRESS && !self.wants_progress {
            return Some(UNASKED_PROGRESS);
        }
        self.unwanted(notification)
    }

    /// Like [`refuses`](Self::refuses), but progress is not checked.
    pub(crate) fn unwanted(&self, notification: &Notification) -> Option<&'static str> {
        unwanted(notification, &self.origin)
    }
}
