//! Every call that goes to an upstream has one record, closed when its answer has really ended: outermost, so
//! that it sees what every other step made of the call.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use toolyard_model::answer::{RelayBody, RelayError, RelayKind};
use toolyard_model::{Answer, AnswerBody, BoxFuture};

use super::{Call, Next, Step};
use crate::ledger::{Ledger, Open, Record, Status, Verdict, may_be_error, may_have_failed};

pub(super) struct Audit {
    ledger: Arc<Ledger>,
}

impl Audit {
    pub(super) fn new(ledger: Arc<Ledger>) -> Self {
        Self { ledger }
    }
}

impl Step for Audit {
    fn run(&self, call: Call, next: Next) -> BoxFuture<Answer> {
        let (open, method) = (self.ledger.open(&call), call.method.clone());
        let answering = next.run(call);
        Box::pin(async move {
            match answering.await {
                Ok(AnswerBody::Whole(result, revision)) => {
                    let status = Status::of_result(&method, &result);
                    open.close(status);
                    Ok(AnswerBody::Whole(result, revision))
                }
                Ok(AnswerBody::Stream(relay)) => {
                    let kind = relay.kind;
                    Ok(AnswerBody::Stream(relay.map_body(|body| Watched::new(body, kind, open))))
                }
                Err(error) => {
                    open.close(Status::of_error(&error));
                    Err(error)
                }
            }
        })
    }
}

/// An answer on its way. It is read along only where somebody wants to know what it says; otherwise an answer
/// in one piece is looked at, which is nearly for free, and a longer one is only measured.
struct Watched {
    body: RelayBody,
    kind: RelayKind,
    open: Option<Open>,
    reading: Option<Verdict>,
    pieces: usize,
    first: Option<Status>,
}

impl Watched {
    fn new(body: RelayBody, kind: RelayKind, open: Open) -> Self {
        let reading = Record::is_logged().then(|| Verdict::new(kind));
        Self { body, kind, open: Some(open), reading, pieces: 0, first: None }
    }

    fn see(&mut self, piece: &Bytes) {
        self.pieces += 1;
        match &mut self.reading {
            Some(verdict) => verdict.read(piece),
            None if self.pieces == 1 => self.first = glance(self.kind, piece),
            None => self.first = None,
        }
    }

    fn close(&mut self, status: Status) {
        if let Some(open) = self.open.take() {
            open.close(status);
        }
    }

    /// What the answer said, as far as is known.
    fn said(&self) -> Option<Status> {
        self.reading.as_ref().map_or(self.first, Verdict::answer)
    }
}

/// Of a whole answer in one piece. Most say nothing of errors, and are not looked at any closer.
fn glance(kind: RelayKind, piece: &[u8]) -> Option<Status> {
    if kind == RelayKind::Json && !may_have_failed(piece) && !may_be_error(piece) {
        return Some(Status::Ok);
    }
    let mut verdict = Verdict::new(kind);
    verdict.read(piece);
    verdict.answer()
}

impl Body for Watched {
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
            Poll::Ready(Some(Err(RelayError::Overdue(_)))) => self.close(Status::Timeout),
            Poll::Ready(Some(Err(RelayError::Broken(_)))) => self.close(Status::Failed("lost")),
            Poll::Ready(None) => {
                let status = self.said().unwrap_or(Status::Answered);
                self.close(status);
            }
            Poll::Pending => {}
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

impl Drop for Watched {
    /// Whoever knows the length does not ask for the end.
    fn drop(&mut self) {
        let has_ended = self.body.is_end_stream();
        let is_read = self.reading.is_some() || self.kind == RelayKind::Sse;
        let said = self.said().filter(|_| has_ended || is_read);
        let status = said.unwrap_or(if has_ended { Status::Answered } else { Status::Cancelled });
        self.close(status);
    }
}
