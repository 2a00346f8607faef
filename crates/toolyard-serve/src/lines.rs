//! The listeners for newline JSON-RPC: TCP and local sockets. Each connection may open with a line that states
//! the view and the credentials; then it is a stream connection like any other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpListener;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use toolyard_model::local::{self, LocalListener, LocalStream};
use toolyard_model::{Scope, View};
use toolyard_proto::RpcError;
use toolyard_proto::codec::line::LineDecoder;
use toolyard_proto::error::code;

use super::accept::{Admission, Entrance, Room, accept_all};
use super::endpoint::{Endpoint, OpenConnection};
use super::http::serve_local_http;
use super::opening::{self, OpenedStream, Refused, Trust, needs_token};
use super::reply::Rendered;
use super::stream::{Start, serve_opened};

/// The maximum length of the first line: a client that is not authenticated yet may not use more memory.
const LONGEST_OPENING: usize = 64 * 1024;
/// How long a refused client has to read the reason.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);

/// Accepts newline JSON-RPC over TCP until `scope` or the endpoint ends.
pub async fn serve_tcp(listener: TcpListener, endpoint: Arc<Endpoint>, scope: Scope) {
    serve(listener, endpoint, |_| Trust::Gate, scope).await;
}

/// Accepts connections on a local socket until `scope` or the endpoint ends. A connection whose first line is the
/// request line of an HTTP request is served as HTTP, every other as newline JSON-RPC.
pub async fn serve_local(listener: LocalListener, endpoint: Arc<Endpoint>, scope: Scope) {
    let trust = |stream: &LocalStream| {
        // Only root can get this far as another user.
        if local::refuse_strangers(stream).is_ok() { Trust::Owner } else { Trust::Gate }
    };
    serve(listener, endpoint, trust, scope).await;
}

async fn serve<E: Entrance>(
    entrance: E,
    endpoint: Arc<Endpoint>,
    trust: impl Fn(&E::Stream) -> Trust,
    scope: Scope,
) where
    E::Stream: AsyncRead + AsyncWrite + Unpin,
{
    let room = Room::new(&endpoint);
    accept_all(entrance, &endpoint, &scope, |stream| match room.enter(&endpoint.counts) {
        Admission::Accepted(permit) => {
            let trust = trust(&stream);
            let connection =
                LineConnection { stream, endpoint: endpoint.clone(), trust, scope: scope.clone() };
            scope.spawn(connection.serve(permit));
        }
        Admission::Refused(permit) => scope.spawn(no_room(stream, permit)),
        Admission::Dropped => {}
    })
    .await;
}

struct LineConnection<S> {
    stream: S,
    endpoint: Arc<Endpoint>,
    trust: Trust,
    scope: Scope,
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> LineConnection<S> {
    async fn serve(self, _permit: OwnedSemaphorePermit) {
        let Self { stream, endpoint, trust, scope } = self;
        let open = OpenConnection::new(&endpoint);
        let (mut read, write) = tokio::io::split(stream);
        let (decoder, opened) = match first_line(&mut read, &endpoint, trust).await {
            FirstLine::Left => return,
            FirstLine::Line(mut decoder, line) if trust == Trust::Owner && is_request_line(&line) => {
                let unread = Bytes::from([&line[..], b"\r\n", decoder.buffer()].concat());
                return serve_local_http(read.unsplit(write), unread, endpoint).await;
            }
            FirstLine::Line(decoder, line) => {
                let options = &endpoint.options;
                let offers = |view: &View| endpoint.handler.offers(view);
                (decoder, opening::open(line, &options.gate, trust, offers).await)
            }
            FirstLine::Refused(error) => return refuse(read, write, &Refused { id: None, error }).await,
        };
        match opened {
            Ok(OpenedStream { view, admitted, first }) => {
                drop(open);
                let principal = admitted.principal.clone();
                let gate = endpoint.options.gate.clone();
                let start = Start { view, admitted, decoder, first, drain: Duration::ZERO };
                tokio::select! {
                    () = serve_opened(read, write, endpoint, start, scope) => {}
                    () = gate.run_ended(&principal) => {}
                }
            }
            Err(refused) => refuse(read, write, &refused).await,
        }
    }
}

enum FirstLine {
    Line(LineDecoder, Bytes),
    Refused(RpcError),
    /// It disconnected without a message, or the endpoint ended.
    Left,
}

/// A client that must present a token has a time limit for its first line; others have none.
async fn first_line(read: &mut (impl AsyncRead + Unpin), endpoint: &Endpoint, trust: Trust) -> FirstLine {
    let options = &endpoint.options;
    let strict = needs_token(&options.gate, trust);
    let limit = if strict { options.line_limit.min(LONGEST_OPENING) } else { options.line_limit };
    let reading = read_line(read, limit);
    let late = async {
        if strict {
            tokio::time::sleep(options.patience).await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        first = reading => first,
        () = late => FirstLine::Refused(RpcError::new(code::INVALID_REQUEST, "the first line did not arrive in time")),
        () = endpoint.ending.ended() => FirstLine::Left,
    }
}

async fn read_line(read: &mut (impl AsyncRead + Unpin), limit: usize) -> FirstLine {
    let mut decoder = LineDecoder::new(limit);
    loop {
        match decoder.next_line() {
            Ok(Some(line)) => return FirstLine::Line(decoder, line),
            Ok(None) => {
                decoder.buffer().reserve(1024);
                match read.read_buf(decoder.buffer()).await {
                    Ok(0) | Err(_) => return FirstLine::Left,
                    Ok(_) => {}
                }
            }
            Err(error) => return FirstLine::Refused(RpcError::new(code::INVALID_REQUEST, error.to_string())),
        }
    }
}

/// Whether a line begins an HTTP request: `METHOD TARGET HTTP/1.1`. No line of JSON has this form.
fn is_request_line(line: &[u8]) -> bool {
    line.first().is_some_and(u8::is_ascii_uppercase) && line.ends_with(b" HTTP/1.1")
}

async fn no_room<S: AsyncRead + AsyncWrite>(stream: S, _permit: OwnedSemaphorePermit) {
    let (read, write) = tokio::io::split(stream);
    let error = RpcError::new(code::INTERNAL, "too many connections are open: try again later");
    refuse(read, write, &Refused { id: None, error }).await;
}

/// Sends the reason, and waits a moment so that the client can read it before the connection is gone.
async fn refuse<S: AsyncRead + AsyncWrite>(
    mut read: ReadHalf<S>,
    mut write: WriteHalf<S>,
    refused: &Refused,
) {
    let say = async {
        let line = Rendered::error(refused.id.as_ref(), &refused.error.to_raw()).into_line().concat();
        write.write_all(&line).await?;
        write.shutdown().await?;
        let mut rest = [0; 1024];
        while read.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    if let Ok(Err(error)) = timeout(REASON_TIMEOUT, say).await {
        tracing::debug!(%error, "a refused connection ended early");
    }
}
