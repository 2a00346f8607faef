//! Writes an answer of the fast path: its head, and its body with a length or in chunks.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{Error, ErrorKind, IoSlice, Result, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{Buf, Bytes};
use http::response::Parts;
use http_body::Body as _;
use tokio::io::{AsyncRead, AsyncWrite};

use super::PlainConnection;
use crate::ServeBody;
use crate::reply::{HttpResponse, Rendered, Reply};

/// Pieces smaller than this are copied into one buffer, which is cheaper than another write. The buffer is written when
/// it has reached this size.
const GATHERED: usize = 16 * 1024;

/// How the client finds the end of the body.
enum Framing {
    /// The bytes that are still to come.
    Length(u64),
    Chunks,
}

impl<S: AsyncRead + AsyncWrite + Unpin> PlainConnection<S> {
    /// Sends a whole reply. After an error the connection can no longer be used.
    pub(super) async fn send(&mut self, reply: Reply, is_last: bool) -> Result<()> {
        match reply {
            Reply::Message(message) => {
                self.put_message(message, is_last);
                poll_fn(|cx| self.out.poll_flush(&mut self.stream, cx)).await
            }
            Reply::Http(response) => self.send_response(response, is_last).await,
        }
    }

    fn put_message(&mut self, message: Rendered, is_last: bool) {
        let out = self.out.small();
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n");
        put_rest_of_head(out, &Framing::Length(message.len() as u64), is_last);
        let [head, shared, _] = message.into_parts();
        self.out.put(head, b"");
        if !shared.is_empty() {
            self.out.put(shared, b"}");
        }
    }

    async fn send_response(&mut self, response: HttpResponse, is_last: bool) -> Result<()> {
        let (head, mut body) = response.into_parts();
        let mut framing = body.size_hint().exact().map_or(Framing::Chunks, Framing::Length);
        put_head(self.out.small(), &head, &framing, is_last);
        let sent = poll_fn(|cx| self.poll_body(cx, &mut body, &mut framing)).await?;
        drop(body);
        // If the body broke off, the client still gets the part before.
        poll_fn(|cx| self.out.poll_flush(&mut self.stream, cx)).await?;
        sent
    }

    /// Sends the body piece by piece. The inner result is an error if the body broke off. While no piece is ready, or
    /// the client takes no more data, it writes the gathered bytes and watches for a disconnect.
    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut ServeBody,
        framing: &mut Framing,
    ) -> Poll<Result<Result<()>>> {
        loop {
            if self.out.is_full() && self.out.poll_flush(&mut self.stream, cx)?.is_pending() {
                return self.poll_gone(cx).map(|()| Err(Error::from(ErrorKind::ConnectionAborted)));
            }
            match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        framing.put(data, &mut self.out)?;
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Ok(Err(Error::other(error)))),
                Poll::Ready(None) => return Poll::Ready(Ok(framing.end(&mut self.out))),
                Poll::Pending => {
                    let _ = self.out.poll_flush(&mut self.stream, cx)?;
                    return self.poll_gone(cx).map(|()| Err(Error::from(ErrorKind::ConnectionAborted)));
                }
            }
        }
    }
}

impl Framing {
    fn put(&mut self, data: Bytes, out: &mut Out) -> Result<()> {
        match self {
            Self::Length(left) => {
                let rest = left.checked_sub(data.len() as u64);
                *left = rest.ok_or_else(|| Error::other("the answer is longer than its declared length"))?;
                out.put(data, b"");
            }
            // An empty chunk would mean the end.
            Self::Chunks if data.is_empty() => {}
            Self::Chunks => {
                write!(out.small(), "{:x}\r\n", data.len())?;
                out.put(data, b"\r\n");
            }
        }
        Ok(())
    }

    fn end(&self, out: &mut Out) -> Result<()> {
        match self {
            Self::Length(0) => {}
            Self::Length(_) => return Err(Error::other("the answer is shorter than its declared length")),
            Self::Chunks => out.small().extend_from_slice(b"0\r\n\r\n"),
        }
        Ok(())
    }
}

fn put_head(out: &mut Vec<u8>, head: &Parts, framing: &Framing, is_last: bool) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(head.status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(head.status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
    for (name, value) in &head.headers {
        put_field(out, name.as_str(), value.as_bytes());
    }
    put_rest_of_head(out, framing, is_last);
}

fn put_rest_of_head(out: &mut Vec<u8>, framing: &Framing, is_last: bool) {
    match framing {
        Framing::Length(length) => put_field(out, "content-length", digits(*length, &mut [0; 20])),
        Framing::Chunks => put_field(out, "transfer-encoding", b"chunked"),
    }
    if is_last {
        put_field(out, "connection", b"close");
    }
    with_date(|date| put_field(out, "date", date.as_bytes()));
    out.extend_from_slice(b"\r\n");
}

/// Returns the decimal digits of a number, written at the end of `space`.
fn digits(mut number: u64, space: &mut [u8; 20]) -> &[u8] {
    let mut at = space.len();
    loop {
        at -= 1;
        space[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &space[at..];
        }
    }
}

fn put_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The date in the form of HTTP, made once per second.
fn with_date(put: impl FnOnce(&str)) {
    thread_local! {
        static DATE: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
    }
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    DATE.with_borrow_mut(|(of, text)| {
        if *of != second || text.is_empty() {
            (*of, *text) = (second, httpdate::fmt_http_date(now));
        }
        put(text);
    });
}

/// Bytes on their way to a client: small pieces are gathered, a big one is written as it is.
#[derive(Default)]
pub(super) struct Out {
    small: Vec<u8>,
    /// The number of bytes of `small` that have been written.
    written: usize,
    big: Bytes,
    /// The bytes that follow `big`.
    tail: &'static [u8],
}

impl Out {
    /// The buffer for small pieces. Do not use it while a big piece waits: see [`Out::is_full`].
    fn small(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.big.is_empty(), "small pieces would be sent before the large one");
        &mut self.small
    }

    fn put(&mut self, data: Bytes, tail: &'static [u8]) {
        debug_assert!(self.big.is_empty(), "one big piece at a time");
        if data.len() < GATHERED {
            self.small.extend_from_slice(&data);
            self.small.extend_from_slice(tail);
        } else {
            (self.big, self.tail) = (data, tail);
        }
    }

    /// Whether this must be written before anything else is put.
    fn is_full(&self) -> bool {
        !self.big.is_empty() || self.small.len() >= GATHERED
    }

    /// Whether something is still to be written.
    fn is_waiting(&self) -> bool {
        self.written < self.small.len() || !self.big.is_empty()
    }

    fn poll_flush(&mut self, mut stream: impl AsyncWrite + Unpin, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while self.is_waiting() {
            let small = &self.small[self.written..];
            let count = if self.big.is_empty() {
                ready!(Pin::new(&mut stream).poll_write(cx, small))?
            } else {
                let both = [IoSlice::new(small), IoSlice::new(&self.big)];
                ready!(Pin::new(&mut stream).poll_write_vectored(cx, &both))?
            };
            if count == 0 {
                return Poll::Ready(Err(Error::from(ErrorKind::WriteZero)));
            }
            let of_small = count.min(small.len());
            self.written += of_small;
            self.big.advance(count - of_small);
            if self.big.is_empty() && !self.tail.is_empty() {
                self.small.extend_from_slice(std::mem::take(&mut self.tail));
            }
        }
        self.small.clear();
        self.written = 0;
        // A stream with TLS may still hold some of it.
        Pin::new(&mut stream).poll_flush(cx)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    fn numbers_are_written_as_they_are() {
        for number in [0, 1, 9, 10, 99, 100, 1_234_567_890, u64::MAX - 1, u64::MAX] {
            assert_eq!(digits(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }

    proptest! {
        /// However little the stream takes at once, what comes out is what was put.
        #[test]
        fn nothing_is_lost_and_nothing_is_duplicated(
            pieces in prop::collection::vec((0..40_000_usize, any::<u8>(), any::<bool>()), 0..8),
            width in 1..50_000_usize,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let (mut near, mut far) = tokio::io::duplex(width);
            let expected: Vec<u8> = pieces
                .iter()
                .flat_map(|&(length, byte, tail)| {
                    std::iter::once(b'<').chain(std::iter::repeat_n(byte, length)).chain(tail.then_some(b'>'))
                })
                .collect();
            let writing = async move {
                let mut out = Out::default();
                for (length, byte, tail) in pieces {
                    if out.is_full() {
                        std::future::poll_fn(|cx| out.poll_flush(&mut near, cx)).await.unwrap();
                    }
                    out.small().push(b'<');
                    out.put(vec![byte; length].into(), if tail { b">" } else { b"" });
                }
                std::future::poll_fn(|cx| out.poll_flush(&mut near, cx)).await.unwrap();
            };
            let mut got = Vec::new();
            runtime.block_on(async { tokio::join!(writing, far.read_to_end(&mut got)) }).1.unwrap();
            prop_assert_eq!(got, expected);
        }
    }
}
