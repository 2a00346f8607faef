//! One connection on which a request and its answer take turns.
//!
//! Between two requests it waits, as long as an idle connection may. While an answer is produced it watches for a
//! disconnect, which ends the work on the answer. Closing only the client's sending side counts as a disconnect,
//! because the two cannot be distinguished.

use std::future::poll_fn;
use std::io::Result;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use toolyard_model::Scope;

use super::HEAD_TIMEOUT;
use super::hyper::Handoff;
use super::out::Out;
use crate::write_timeout::WriteTimeout;

/// As much as can be taken at once; a longer request is not plain.
const BUFFER: usize = 8 * 1024;

pub(super) struct PlainConnection {
    pub(super) stream: WriteTimeout,
    pub(super) out: Out,
    buffer: Box<[u8]>,
    /// The part of the buffer that has been read and not yet taken.
    unread: Range<usize>,
    /// Since when it waits. The timer is reset only when it fires, not for every request.
    since: Instant,
    idle: Pin<Box<Sleep>>,
}

impl PlainConnection {
    pub(super) fn new(stream: WriteTimeout) -> Self {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        let idle = Box::pin(sleep(HEAD_TIMEOUT));
        Self { stream, out: Out::default(), buffer, unread: 0..0, since: Instant::now(), idle }
    }

    /// Waits until something has been read. False if nothing will be: the client disconnected or sent nothing for too
    /// long, or the endpoint ends.
    pub(super) async fn arrived(&mut self, ending: &Scope) -> Result<bool> {
        self.since = Instant::now();
        poll_fn(|cx| {
            if ending.is_ended() {
                return Poll::Ready(Ok(false));
            }
            if !self.unread.is_empty() {
                return Poll::Ready(Ok(true));
            }
            match self.poll_read(cx) {
                Poll::Ready(read) => Poll::Ready(read.map(|count| count > 0)),
                Poll::Pending => self.poll_idle(cx).map(|()| Ok(false)),
            }
        })
        .await
    }

    pub(super) fn unread(&self) -> &[u8] {
        &self.buffer[self.unread.clone()]
    }

    /// Removes the first `count` bytes that were read.
    pub(super) fn take(&mut self, count: usize) {
        self.unread.start += count;
    }

    /// The connection with the unread bytes given back; only the time has passed.
    pub(super) fn into_handoff(self) -> Handoff {
        let unread = Bytes::copy_from_slice(self.unread());
        Handoff { stream: self.stream.with_unread(unread), head_by: self.since + HEAD_TIMEOUT }
    }

    /// The result of `work`, or `None` if the client disconnects before.
    pub(super) async fn unless_gone<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll_gone(cx).map(|()| None),
        })
        .await
    }

    /// Ready when the client has disconnected. What it sends meanwhile is kept, as far as there is room; beyond that,
    /// its end is noticed only when a sign of life cannot be written to it.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.unread.is_empty() || self.unread.end < self.buffer.len() {
            if !matches!(ready!(self.poll_read(cx)), Ok(1..)) {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        if self.unread.is_empty() {
            self.unread = 0..0;
        }
        let mut room = ReadBuf::new(&mut self.buffer[self.unread.end..]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut room))?;
        let count = room.filled().len();
        self.unread.end += count;
        Poll::Ready(Ok(count))
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.idle.as_mut().poll(cx));
            let until = self.since + HEAD_TIMEOUT;
            if until <= Instant::now() {
                return Poll::Ready(());
            }
            self.idle.as_mut().reset(until);
        }
    }
}
