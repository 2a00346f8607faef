//! The audit wraps the dispatch of every request, so that each call has one record, closed when its answer has
//! really ended, and each refusal leaves one too, whatever the method.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::{Either, select};
use http_body::{Body, Frame, SizeHint};
use toolyard_model::answer::{RelayBody, RelayError, RelayKind};
use toolyard_model::{Answer, AnswerBody, BoxFuture, Peer, Request};
use toolyard_proto::{CallError, Kind, Method, Revision, modern};

use super::Next;
use crate::dispatch::{Dispatched, Routed, dispatch, hidden_by};
use crate::gateway::Shared;
use crate::greet::server_info;
use crate::ledger::{
    Cancelled, Capture, OpenCall, OpenRecord, Record, Status, Verdict, may_be_error, may_have_failed,
};

/// Answers a request of a client.
pub(crate) fn answer(shared: &Arc<Shared>, request: Request, peer: Peer) -> BoxFuture<Answer> {
    settle(shared, dispatch(shared, request, peer))
}

fn settle(shared: &Arc<Shared>, dispatched: Dispatched) -> BoxFuture<Answer> {
    match dispatched {
        Dispatched::Call(routed) if routed.call.origin.is_relayed => relayed(shared, *routed),
        Dispatched::Call(routed) => recorded(shared, *routed),
        Dispatched::Refused(request, error) => {
            let rule = hidden_by(shared, &request);
            shared.common.ledger.refused(&request, &error, rule);
            let answer = as_tool_result(&request.method, request.origin.revision, error);
            Box::pin(async move { answer })
        }
        Dispatched::Own(request, answering) => {
            let shared = shared.clone();
            Box::pin(async move {
                let answer = answering.await;
                if let Err(error) = &answer {
                    shared.common.ledger.refused(&request, error, None);
                }
                answer
            })
        }
        Dispatched::Later(later) => {
            let shared = shared.clone();
            Box::pin(async move { settle(&shared, later.await).await })
        }
    }
}

/// Sends on a call that another node has recorded and put through its chain.
fn relayed(shared: &Arc<Shared>, routed: Routed) -> BoxFuture<Answer> {
    let chain = shared.catalog.rules().steps.relayed();
    let (method, revision) = (routed.call.method.clone(), routed.call.origin.revision);
    let answering = Next::start(chain, routed.call);
    Box::pin(async move { answering.await.or_else(|error| as_tool_result(&method, revision, error)) })
}

/// Sends a call through its chain, with its record open until the answer has ended.
fn recorded(shared: &Arc<Shared>, routed: Routed) -> BoxFuture<Answer> {
    let Routed { mut call, chain } = routed;
    let open = shared.common.ledger.open(&mut call);
    let (method, revision) = (call.method.clone(), call.origin.revision);
    let first = call.open.as_ref().and_then(|open| shared.common.events.call_opened(open));
    let cancelled = call.open.as_ref().map(OpenCall::cancelled);
    let answering = match first {
        None => Next::start(chain, call),
        Some(first) => Box::pin(async move {
            first.await?;
            Next::start(chain, call).await
        }),
    };
    Box::pin(async move {
        match unless_cancelled(answering, cancelled).await {
            Ok(AnswerBody::Whole(result, revision)) => {
                let answer = open.capture().map(|_| Capture::whole(&result.bytes()));
                open.close(Status::of_result(&method, &result), answer);
                Ok(AnswerBody::Whole(result, revision))
            }
            Ok(AnswerBody::Stream(relay)) => {
                let kind = relay.kind;
                Ok(AnswerBody::Stream(relay.map_body(|body| WatchedBody::new(body, kind, open))))
            }
            Err(error) => {
                let answer = open.capture().map(|_| Capture::whole(&error.to_raw().bytes()));
                open.close(Status::of_error(&error), answer);
                as_tool_result(&method, revision, error)
            }
        }
    })
}

/// The answer, or an error as soon as an operator cancels the call.
async fn unless_cancelled(answering: BoxFuture<Answer>, cancelled: Option<Cancelled>) -> Answer {
    let Some(cancelled) = cancelled else { return answering.await };
    match select(answering, cancelled).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => Err(CallError::cancelled_by_operator()),
    }
}

/// A known tool that could not be called answers as a tool that failed; what was wrong with the request itself stays
/// a protocol error.
fn as_tool_result(method: &Method, revision: Revision, error: CallError) -> Answer {
    if *method != Method::TOOLS_CALL || !reached_a_tool(&error) {
        return Err(error);
    }
    let result = error.to_tool_result();
    let stamped = revision.has_result_stamps();
    let result = if stamped { modern::stamp_result(&result, Some(&server_info())) } else { result };
    Ok(AnswerBody::Whole(result, revision))
}

fn reached_a_tool(error: &CallError) -> bool {
    matches!(
        error.kind,
        Kind::Lost
            | Kind::Unavailable
            | Kind::Unreachable
            | Kind::TurnedAway
            | Kind::SignIn
            | Kind::Timeout
            | Kind::InvalidArguments
            | Kind::Blocked
            | Kind::Limit
            | Kind::BadAnswer
            | Kind::CannotAsk
            | Kind::Denied
            | Kind::Internal
    )
}

/// An answer on its way to the client. It is parsed only where calls are logged; otherwise an answer in one piece is
/// searched for errors, which costs next to nothing, and a longer one is only timed.
struct WatchedBody {
    body: RelayBody,
    kind: RelayKind,
    open: Option<OpenRecord>,
    reading: Option<Verdict>,
    pieces: usize,
    first: Option<Status>,
    capture: Option<Capture>,
}

impl WatchedBody {
    fn new(body: RelayBody, kind: RelayKind, open: OpenRecord) -> Self {
        let capture = open.capture();
        let reading = (Record::is_logged() || capture.is_some()).then(|| Verdict::new(kind));
        Self { body, kind, open: Some(open), reading, pieces: 0, first: None, capture }
    }

    fn see(&mut self, piece: &Bytes) {
        self.pieces += 1;
        if let Some(capture) = &mut self.capture {
            capture.add(piece);
        }
        match &mut self.reading {
            Some(verdict) => verdict.read(piece),
            None if self.pieces == 1 => self.first = glance(self.kind, piece),
            None => self.first = None,
        }
    }

    fn close(&mut self, status: Status) {
        if let Some(open) = self.open.take() {
            open.close(status, self.capture.take().map(Capture::finish));
        }
    }

    /// The status that the answer reports, as far as it is known.
    fn reported(&self) -> Option<Status> {
        self.reading.as_ref().map_or(self.first, Verdict::answer)
    }
}

/// The status of a whole answer in one piece. Most contain no error, and are not parsed.
fn glance(kind: RelayKind, piece: &[u8]) -> Option<Status> {
    if kind == RelayKind::Json && !may_have_failed(piece) && !may_be_error(piece) {
        return Some(Status::Ok);
    }
    let mut verdict = Verdict::new(kind);
    verdict.read(piece);
    verdict.answer()
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        let polled = self.body.as_mut().poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(piece) = frame.data_ref() {
                    self.see(piece);
                }
            }
            Poll::Ready(Some(Err(error))) if error.0.kind == Kind::Timeout => self.close(Status::Timeout),
            Poll::Ready(Some(Err(error))) => self.close(Status::Failed(error.0.label())),
            Poll::Ready(None) => {
                let status = self.reported().unwrap_or(Status::Answered);
                self.close(status);
            }
            Poll::Pending => {
                if let Some(call) = self.open.as_ref().and_then(OpenRecord::call)
                    && call.poll_cancelled(cx).is_ready()
                {
                    self.close(Status::Cancelled);
                    return Poll::Ready(Some(Err(RelayError::from(CallError::cancelled_by_operator()))));
                }
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for WatchedBody {
    /// A reader that knows the length stops after the last byte and never polls the end.
    fn drop(&mut self) {
        let has_ended = self.body.is_end_stream();
        let is_read = self.reading.is_some() || self.kind == RelayKind::Sse;
        let reported = self.reported().filter(|_| has_ended || is_read);
        let status = reported.unwrap_or(if has_ended { Status::Answered } else { Status::Cancelled });
        self.close(status);
    }
}
