//! A response becomes bytes: its head, and its body with a length or in chunks.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{Error, ErrorKind, Result, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::response::Parts;
use http_body::Body as _;

use super::out::Out;
use super::plain_connection::PlainConnection;
use crate::ServeBody;
use crate::rendered::Rendered;
use crate::reply::{HttpResponse, Reply};

/// How the client finds the end of the body.
enum Framing {
    /// So much is still to come.
    Length(u64),
    Chunks,
}

impl PlainConnection {
    /// Sends a reply to its end. After an error the connection cannot be used any more.
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
        // The client also gets what came before the body broke off.
        poll_fn(|cx| self.out.poll_flush(&mut self.stream, cx)).await?;
        sent
    }

    /// Takes the body piece by piece, and returns whether it came to its end. While there is nothing to take, or no
    /// room for it, the gathered bytes are written, and a disconnect of the client is noticed.
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

/// The digits of a number, in the last places of `space`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are() {
        for number in [0, 1, 9, 10, 99, 100, 1_234_567_890, u64::MAX - 1, u64::MAX] {
            assert_eq!(digits(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }
}
