//! Closes a connection whose client does not read. A call runs inside its response, so an
//! unread response would otherwise hold the call and its resources indefinitely.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// The timer exists only while a write waits, so it costs nothing where clients read.
pub(super) struct WriteTimeout<S = TcpStream> {
    stream: S,
    patience: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    /// Bytes that were read already and are to be read again.
    unread: Bytes,
}

impl<S: AsyncWrite + Unpin> WriteTimeout<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waiting: None, unread: Bytes::new() }
    }

    /// The same stream, with `bytes` to be read first.
    pub(super) fn with_unread(self, bytes: Bytes) -> Self {
        Self { unread: bytes, ..self }
    }

    fn bounded<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<Result<T>>,
    ) -> Poll<Result<T>> {
        if let Poll::Ready(done) = write(Pin::new(&mut self.stream), cx) {
            self.waiting = None;
            return Poll::Ready(done);
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        waiting.as_mut().poll(cx).map(|()| Err(Error::from(ErrorKind::TimedOut)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        if self.unread.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let count = self.unread.len().min(buf.remaining());
        let part = self.unread.split_to(count);
        buf.put_slice(&part);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        self.bounded(cx, |stream, cx| stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.bounded(cx, |stream, cx| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
