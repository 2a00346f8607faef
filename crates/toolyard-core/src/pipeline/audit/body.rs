//! A relayed answer under the audit: the record of the call is closed when the last byte has passed.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use toolyard_model::answer::{RelayBody, RelayError, RelayKind};
use toolyard_proto::{CallError, Kind};

use crate::ledger::{Capture, OpenRecord, Record, Status, Verdict, may_be_error, may_have_failed};

/// An answer on its way to the client. It is parsed only where calls are logged; otherwise an answer in one piece is
/// searched for errors, which costs next to nothing, and a longer one is only timed.
pub(super) struct WatchedBody {
    body: RelayBody,
    kind: RelayKind,
    open: Option<OpenRecord>,
    reading: Option<Verdict>,
    pieces: usize,
    first: Option<Status>,
    capture: Option<Capture>,
    /// Of an answer that may ask once more.
    state: Option<Capture>,
}

impl WatchedBody {
    pub(super) fn new(body: RelayBody, kind: RelayKind, open: OpenRecord) -> Self {
        let (capture, state) = (open.capture(), open.capture_state());
        let reading = (Record::is_logged() || capture.is_some()).then(|| Verdict::new(kind));
        Self { body, kind, open: Some(open), reading, pieces: 0, first: None, capture, state }
    }

    fn see(&mut self, piece: &Bytes) {
        self.pieces += 1;
        for capture in [&mut self.capture, &mut self.state].into_iter().flatten() {
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
            if let Some(state) = self.state.take() {
                open.relayed(&state.finish());
            }
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
