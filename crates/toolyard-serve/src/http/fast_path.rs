//! Serves plain requests without hyper, one after the other on their connection.
//!
//! hyper supports everything that HTTP allows, which costs more for each request than a whole call of a
//! built-in tool. Nearly every request has one form ([`PlainRequest`]), so that form is served by hand. The
//! first request of another form, and all that follow on its connection, are left to hyper with every byte.

#[cfg(test)]
mod tests;
mod write;

use std::future::poll_fn;
use std::io::Result;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HeaderName, ORIGIN, TRANSFER_ENCODING, UPGRADE,
};
use httparse::{Header, Status};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use toolyard_model::Scope;

use super::hyper::Handoff;
use super::{Destination, HEAD_TIMEOUT, HttpListener, LAST_ANSWERS};
use crate::admit::ConnectionCredential;
use crate::head::Fields;
use crate::request::{self, PostedMessage};
use crate::write_timeout::WriteTimeout;
use write::Out;

/// A request with more fields than this is not plain.
const MOST_FIELDS: usize = 64;
/// A length with more digits cannot be that of a body in a buffer.
const MOST_DIGITS: usize = 9;
/// The length of the read buffer; a longer request is not plain.
const BUFFER: usize = 8 * 1024;

/// Serves a connection. Returns it when a request arrives that is not plain.
pub(super) async fn serve<S>(
    listener: &HttpListener,
    stream: WriteTimeout<S>,
    credential: &ConnectionCredential,
) -> Result<Option<Handoff<S>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let ending = &listener.endpoint.ending;
    let mut serving = pin!(serve_requests(listener, PlainConnection::new(stream), credential));
    tokio::select! {
        biased;
        done = &mut serving => done,
        () = ending.ended() => tokio::time::timeout(LAST_ANSWERS, serving).await.unwrap_or(Ok(None)),
    }
}

/// Serves one request after the other, until the client disconnects or sends a request that is not plain.
async fn serve_requests<S>(
    listener: &HttpListener,
    mut connection: PlainConnection<S>,
    credential: &ConnectionCredential,
) -> Result<Option<Handoff<S>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let endpoint = &listener.endpoint;
    while connection.arrived(&endpoint.ending).await? {
        let (started, end) = match read_request(listener, connection.unread(), credential) {
            FastRequest::Started(started, end) => (started, end),
            FastRequest::Handoff => return Ok(Some(connection.into_handoff())),
            FastRequest::Unverified { token, authorization } => {
                let gate = &endpoint.options.gate;
                let checked = connection.unless_gone(gate.verify_on(credential, &authorization, &token));
                let Some(()) = checked.await else { break };
                match read_request(listener, connection.unread(), credential) {
                    FastRequest::Started(started, end) => (started, end),
                    FastRequest::Handoff | FastRequest::Unverified { .. } => {
                        return Ok(Some(connection.into_handoff()));
                    }
                }
            }
        };
        connection.take(end);
        let Some(response) = connection.unless_gone(started.respond(endpoint)).await else { break };
        connection.send(response, endpoint.ending.is_ended()).await?;
    }
    Ok(None)
}

/// How the first request in the buffer is answered.
enum FastRequest<'a> {
    /// The answer is being produced; the request ends at this position of the buffer.
    Started(PostedMessage<'a>, usize),
    /// The request is not plain, and is left to hyper.
    Handoff,
    /// The issuer of its token has to be asked first. Boxed, since it is rare.
    Unverified { token: Box<str>, authorization: Box<[u8]> },
}

fn read_request<'a>(
    listener: &'a HttpListener,
    unread: &[u8],
    credential: &ConnectionCredential,
) -> FastRequest<'a> {
    let mut space = space();
    let Some(request) = PlainRequest::read(unread, &mut space) else { return FastRequest::Handoff };
    let started = match listener.route(request.path, None, request.fields, credential) {
        Destination::Answered(response) | Destination::Refused(response) => {
            PostedMessage::Answered(*response)
        }
        Destination::Mcp(view, admitted) => {
            let body = Bytes::copy_from_slice(request.body);
            request::check_and_start(&listener.endpoint, view, admitted, request.fields, &body)
        }
        Destination::Unverified(token) => {
            let authorization = request.fields.first(&AUTHORIZATION).unwrap_or_default().into();
            return FastRequest::Unverified { token, authorization };
        }
        Destination::Elsewhere
        | Destination::Page(_)
        | Destination::Public
        | Destination::Control(..)
        | Destination::Events(..) => return FastRequest::Handoff,
    };
    FastRequest::Started(started, request.end)
}

/// Space for the fields of one request.
type Space<'b> = [MaybeUninit<Header<'b>>; MOST_FIELDS];

fn space<'b>() -> Space<'b> {
    [const { MaybeUninit::uninit() }; MOST_FIELDS]
}

/// A POST that is completely in the buffer, has a content length, and has no field that changes how the connection is
/// used. No request is refused here: hyper reads every other request, rare or invalid, from its first byte.
struct PlainRequest<'b> {
    path: &'b str,
    fields: Fields<'b>,
    body: &'b [u8],
    /// The position at which the next request begins.
    end: usize,
}

impl<'b> PlainRequest<'b> {
    fn read(bytes: &'b [u8], space: &'b mut Space<'b>) -> Option<Self> {
        let mut request = httparse::Request::new(&mut []);
        let Ok(Status::Complete(start)) = request.parse_with_uninit_headers(bytes, space) else {
            return None;
        };
        let is_http11_post = request.method == Some("POST") && request.version == Some(1);
        let path = request.path.filter(|path| is_http11_post && is_plain(path))?;
        let fields: &'b [Header<'b>] = request.headers;
        let end = start.checked_add(body_length(fields)?)?;
        let body = bytes.get(start..end)?;
        Some(Self { path, fields: Fields::Lines(fields), body, end })
    }
}

/// Whether a request target is a path that needs no decoding and has no query.
fn is_plain(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-_.".contains(&b))
}

fn body_length(fields: &[Header<'_>]) -> Option<usize> {
    let mut length = None;
    for field in fields {
        let is = |name: &HeaderName| field.name.eq_ignore_ascii_case(name.as_str());
        if is(&CONTENT_LENGTH) {
            if length.is_some() {
                return None;
            }
            length = Some(number(field.value)?);
        } else if is(&CONNECTION) {
            if !field.value.eq_ignore_ascii_case(b"keep-alive") {
                return None;
            }
        } else if is(&TRANSFER_ENCODING) || is(&EXPECT) || is(&UPGRADE) || is(&ORIGIN) {
            return None;
        }
    }
    length
}

fn number(value: &[u8]) -> Option<usize> {
    let is_number = value.len() <= MOST_DIGITS && value.iter().all(u8::is_ascii_digit);
    if is_number { std::str::from_utf8(value).ok()?.parse().ok() } else { None }
}

/// One connection on which each request is answered before the next one is read. Between two requests it waits as long
/// as an idle connection may. While an answer is produced it watches for a disconnect, which ends the work on the
/// answer. Closing only the client's sending side counts as a disconnect, because the two cannot be distinguished.
struct PlainConnection<S> {
    stream: WriteTimeout<S>,
    out: Out,
    buffer: Box<[u8]>,
    /// The part of the buffer that has been read and not yet taken.
    unread: Range<usize>,
    /// When the current wait began. The timer is reset only when it fires, not for every request.
    since: Instant,
    idle: Pin<Box<Sleep>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> PlainConnection<S> {
    fn new(stream: WriteTimeout<S>) -> Self {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        let idle = Box::pin(sleep(HEAD_TIMEOUT));
        Self { stream, out: Out::default(), buffer, unread: 0..0, since: Instant::now(), idle }
    }

    /// Waits until data has been read. Returns false if the client has disconnected or sent nothing for too long, or if
    /// the endpoint ends.
    async fn arrived(&mut self, ending: &Scope) -> Result<bool> {
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

    fn unread(&self) -> &[u8] {
        &self.buffer[self.unread.clone()]
    }

    /// Removes the first `count` bytes that were read.
    fn take(&mut self, count: usize) {
        self.unread.start += count;
    }

    /// Returns the connection with its unread bytes, for hyper. The head timeout continues to run.
    fn into_handoff(self) -> Handoff<S> {
        let unread = Bytes::copy_from_slice(self.unread());
        Handoff { stream: self.stream.with_unread(unread), head_by: self.since + HEAD_TIMEOUT }
    }

    /// Returns the result of `work`, or `None` if the client disconnects first.
    async fn unless_gone<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll_gone(cx).map(|()| None),
        })
        .await
    }

    /// Ready when the client has disconnected. Data that arrives in the meantime is kept in the buffer. Once the buffer
    /// is full, a disconnect is noticed only when a keep-alive cannot be written.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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
