//! The stream listener: one message per line over stdio, TCP or a Unix socket. Each connection is
//! one client: when the connection ends, its calls end. Only messages are written to it.

mod batch;
mod line;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, timeout};
use toolyard_model::{AnswerBody, ClientKey, Origin, Principal, Request, Scope, Transport, View};
use toolyard_proto::codec::line::LineDecoder;
use toolyard_proto::error::code;
use toolyard_proto::message::nests_too_deep;
use toolyard_proto::modern::{Found, RequestMeta, find_parts};
use toolyard_proto::{
    CallError, Era, Id, Incoming, Message, Method, Notification, ParseError, Raw, RequestMessage, Revision,
    RpcError, era,
};

use super::calls::{Calls, Ending, Outlet};
use super::endpoint::{Counts, Endpoint, OpenConnection, Options, next_number};
use super::legacy::handshake::{HandshakeCaller, greet};
use super::legacy::session::ClientSession;
use super::modern::stamped;
use super::notify_limit::NotifyLimit;
use super::park;
use super::reply::Rendered;
use super::request::origin;
use crate::admit::Admitted;
use batch::BatchOutlet;
use line::{CallLine, Line, LineBack, write_lines};

/// How long messages that are queued already may take to be written when the connection ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves one client until the client disconnects or `scope` or the endpoint ends.
pub async fn serve_stream(
    read: impl AsyncRead + Send + Unpin,
    write: impl AsyncWrite + Send + Unpin,
    endpoint: Arc<Endpoint>,
    view: View,
    principal: Principal,
    scope: Scope,
) {
    let decoder = LineDecoder::new(endpoint.options.line_limit);
    let admitted = Admitted::unproven(principal).over(Transport::Pipe);
    let start = Start { view, admitted, decoder, first: None, drain: Duration::ZERO };
    serve_opened(read, write, endpoint, start, scope).await;
}

/// Serves the one client of this process, over its stdin and stdout, which prove its user. A script that pipes requests
/// in closes its end at once and still expects the answers, so calls in flight continue for up to `drain`.
pub async fn serve_pipe(
    read: impl AsyncRead + Send + Unpin,
    write: impl AsyncWrite + Send + Unpin,
    endpoint: Arc<Endpoint>,
    drain: Duration,
    scope: Scope,
) {
    let decoder = LineDecoder::new(endpoint.options.line_limit);
    let admitted = Admitted::proven(Principal::local()).over(Transport::Pipe);
    let start = Start { view: View::Everything, admitted, decoder, first: None, drain };
    serve_opened(read, write, endpoint, start, scope).await;
}

/// A connection whose client is known.
pub(super) struct Start {
    pub(super) view: View,
    pub(super) admitted: Admitted,
    /// May contain bytes that were read already.
    pub(super) decoder: LineDecoder,
    /// A line that was taken from the decoder already.
    pub(super) first: Option<Bytes>,
    /// How long calls may continue after the client has closed its end.
    pub(super) drain: Duration,
}

pub(super) async fn serve_opened(
    read: impl AsyncRead + Send + Unpin,
    write: impl AsyncWrite + Send + Unpin,
    endpoint: Arc<Endpoint>,
    start: Start,
    scope: Scope,
) {
    let Start { view, admitted, decoder, first, drain } = start;
    let _open = OpenConnection::new(&endpoint);
    let (line, queue) = Line::new(endpoint.counts.clone());
    let own = scope.child();
    let writing = write_lines(queue, write, endpoint.options.patience, own.clone());
    let mut connection = StreamConnection {
        calls: Calls::new(endpoint.options.calls),
        client: ClientKey::Connection(next_number()),
        leaving: own.child(),
        has_begun: false,
        scope: own,
        session: None,
        notify_limit: NotifyLimit::new(),
        endpoint,
        view,
        admitted,
        line: Some(Arc::new(line)),
    };
    let ending = connection.endpoint.ending.clone();
    let until = connection.admitted.until;
    tracing::debug!(target: "clients", client = %connection.number(), view = %connection.view, principal = %connection.admitted.principal.name(), "connected");
    {
        let mut writing = std::pin::pin!(writing);
        let is_over = tokio::select! {
            () = &mut writing => true,
            () = connection.read(read, decoder, first) => false,
            () = ending.ended() => false,
            () = expiry(until) => false,
        } || tokio::select! {
            () = &mut writing => true,
            () = connection.finish(drain) => false,
        };
        connection.end();
        if !is_over {
            // Last messages that the client does not read in time are dropped.
            let _ = timeout(FLUSH_TIMEOUT, writing).await;
        }
    }
    tracing::debug!(target: "clients", client = %connection.number(), "left");
}

/// Waits for the end of the credential that the connection was opened with, if it has one.
async fn expiry(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

struct StreamConnection {
    endpoint: Arc<Endpoint>,
    view: View,
    admitted: Admitted,
    client: ClientKey,
    calls: Arc<Calls>,
    scope: Scope,
    /// Cancelled when the client has closed its end: calls may continue, subscriptions end.
    leaving: Scope,
    /// Whether the handler has been informed about this client.
    has_begun: bool,
    /// Set after the handshake of a legacy client.
    session: Option<Arc<ClientSession>>,
    notify_limit: Arc<NotifyLimit>,
    /// `None` once the connection has ended.
    line: Option<Arc<Line>>,
}

impl StreamConnection {
    /// Its name in the log and in the records of its calls.
    fn number(&self) -> String {
        if let ClientKey::Connection(number) = self.client {
            format!("connection-{number}")
        } else {
            String::new()
        }
    }

    async fn read(
        &mut self,
        mut read: impl AsyncRead + Unpin,
        mut decoder: LineDecoder,
        first: Option<Bytes>,
    ) {
        decoder.limit(self.endpoint.options.line_limit);
        let Options { handshake_timeout, patience, .. } = self.endpoint.options;
        let at_most = handshake_timeout + 2 * patience;
        let mut first = first;
        loop {
            match first.take().map_or_else(|| decoder.next_line(), |first| Ok(Some(first))) {
                Ok(Some(line)) => {
                    if timeout(at_most, self.take(line)).await.is_err() {
                        return tracing::debug!("closed a stream connection: its client does not read");
                    }
                }
                Ok(None) => {
                    decoder.buffer().reserve(8 * 1024);
                    match read.read_buf(decoder.buffer()).await {
                        Ok(0) => match decoder.last_line() {
                            Some(last) => first = Some(last),
                            None => return,
                        },
                        Err(_) => return,
                        Ok(_) => {}
                    }
                }
                Err(too_large) => {
                    return self
                        .refuse(None, &RpcError::new(code::INVALID_REQUEST, too_large.to_string()))
                        .await;
                }
            }
        }
    }

    /// Lets calls finish: for up to `drain` if the client has closed its end, for a moment if the endpoint ends. The
    /// client can no longer answer questions, so these are closed.
    async fn finish(&mut self, drain: Duration) {
        self.leaving.cancel();
        let ending = self.endpoint.ending.clone();
        if !ending.is_ended() {
            if let Some(session) = &self.session {
                session.close_questions();
            }
            tokio::select! {
                () = self.calls.done(drain) => return,
                () = ending.ended() => {}
            }
        }
        self.calls.done(FLUSH_TIMEOUT).await;
    }

    fn end(&mut self) {
        self.scope.cancel();
        match self.session.take() {
            Some(session) => session.end(),
            None if self.line.is_some() => self.endpoint.handler.ended(&self.client),
            None => {}
        }
        self.line = None;
    }

    /// Handles one line. A message that needs an answer first waits until earlier answers have room in the queue, so
    /// that a client that does not read cannot pile up answers. Other messages do not wait.
    async fn take(&mut self, line: Bytes) {
        if nests_too_deep(&line) {
            return self
                .refuse(None, &RpcError::new(code::INVALID_REQUEST, "the message nests too deeply"))
                .await;
        }
        match Incoming::parse(&line) {
            Err(error) => self.refuse(error.id.as_ref(), &error.to_rpc()).await,
            Ok(Incoming::Batch(parts)) => {
                self.catch_up().await;
                self.batch(parts).await;
            }
            Ok(Incoming::One(Message::Request(message))) => {
                self.catch_up().await;
                self.request(message).await;
            }
            Ok(Incoming::One(message)) => self.traffic(message),
        }
    }

    async fn request(&mut self, message: RequestMessage) {
        let found = find_parts(&message.method, message.params.as_ref());
        let claim = found.envelope.claim();
        match era::classify(&message.method, &claim, || None) {
            Era::Modern => self.modern(message, found).await,
            Era::Legacy => self.legacy(message).await,
        }
    }

    async fn legacy(&mut self, message: RequestMessage) {
        match (&self.session, &self.line) {
            (Some(session), Some(line)) => {
                session.start(message, CallLine::new(line.clone())).await;
            }
            _ if message.method == Method::INITIALIZE => self.initialize(message).await,
            _ if message.method == Method::PING => {
                self.say(Rendered::result(&message.id, Raw::empty_object())).await;
            }
            _ => {
                let error = RpcError::new(code::INVALID_REQUEST, "send initialize first");
                self.refuse(Some(&message.id), &error).await;
            }
        }
    }

    async fn initialize(&mut self, message: RequestMessage) {
        let RequestMessage { id, params, .. } = message;
        let view = self.view.clone();
        let admitted = self.admitted.clone();
        let caller = HandshakeCaller { view, admitted, client: self.client.clone() };
        let patience = self.endpoint.options.handshake_timeout;
        match greet(&self.endpoint.handler, patience, caller, id.clone(), params).await {
            Ok(met) => {
                self.say(Rendered::result(&id, met.result)).await;
                if let Some(line) = &self.line {
                    let calls = self.calls.clone();
                    let scope = self.scope.child();
                    self.session =
                        Some(ClientSession::new(&self.endpoint, met.origin, calls, line.clone(), scope));
                }
            }
            Err(error) => self.say(Rendered::error(Some(&id), &error.to_raw())).await,
        }
    }

    async fn modern(&mut self, message: RequestMessage, found: Found) {
        let RequestMessage { id, method, .. } = message;
        let Found { params, envelope, .. } = found;
        let meta = match RequestMeta::judge(envelope) {
            // The hub needs a session. This error makes clients of both eras fall back to `initialize`, so it is sent
            // whatever else is wrong with the request.
            _ if self.view == View::Hub => {
                let error = CallError::unknown_method(method.as_str());
                return self.say(Rendered::error(Some(&id), &error.to_raw())).await;
            }
            Ok(_) if era::is_removed(&method) => {
                let error = CallError::unknown_method(method.as_str());
                return self.say(Rendered::error(Some(&id), &error.to_raw())).await;
            }
            Ok(meta) => meta,
            Err(error) => return self.say(Rendered::error(Some(&id), &error.to_raw())).await,
        };
        let (slot, outlet) = match (self.calls.take_slot(&id, &self.scope), &self.line) {
            (Ok(slot), Some(line)) => (slot, CallLine::new(line.clone())),
            (Err(error), _) => return self.refuse(Some(&id), &error).await,
            (_, None) => return,
        };
        let origin = origin(self.view.clone(), self.admitted.clone(), self.client.clone(), meta);
        if !std::mem::replace(&mut self.has_begun, true) {
            self.endpoint.handler.began(&origin);
        }
        let request = Request::new(origin, id, method, params);
        let scope = slot.scope.clone();
        let endpoint = self.endpoint.clone();
        let leaving = self.leaving.clone();
        scope.spawn(run_modern(endpoint, request, Ending::new(slot, outlet.clone()), outlet, leaving));
    }

    /// A notification or an answer.
    fn traffic(&self, message: Message) {
        match (message, &self.session) {
            (Message::Notification(notification), _) if notification.method == Method::CANCELLED => {
                self.calls.cancel(&notification);
            }
            (message, Some(session)) => session.take(message),
            (Message::Notification(notification), None) => self.notice(notification),
            (_, None) => Counts::add(&self.endpoint.counts.unmatched),
        }
    }

    fn notice(&self, notification: Notification) {
        let (view, principal) = (self.view.clone(), self.admitted.principal.clone());
        let origin = Origin::new(view, principal, self.client.clone(), Revision::NEWEST);
        let origin = Arc::new(origin.with_transport(self.admitted.transport));
        let Endpoint { handler, counts, .. } = &*self.endpoint;
        self.notify_limit.pass(handler, &origin, notification, counts, &self.scope);
    }

    async fn batch(&mut self, parts: Vec<Result<Message, ParseError>>) {
        let (session, line) = match (&self.session, &self.line) {
            (Some(session), Some(line)) if session.origin.revision == Revision::V2025_03_26 => {
                (session.clone(), line.clone())
            }
            _ => {
                let error = RpcError::new(code::INVALID_REQUEST, "batches are not accepted here");
                return self.refuse(None, &error).await;
            }
        };
        let wants_answer =
            |part: &&Result<Message, ParseError>| matches!(part, Ok(Message::Request(_)) | Err(_));
        let outlet = BatchOutlet::new(line, self.scope.clone(), parts.iter().filter(wants_answer).count());
        for part in parts {
            match part {
                Ok(Message::Request(message)) => session.start(message, outlet.clone()).await,
                Ok(message) => session.take(message),
                Err(error) => {
                    outlet.answer(Rendered::error(error.id.as_ref(), &error.to_rpc().to_raw())).await;
                }
            }
        }
    }

    async fn catch_up(&self) {
        if let Some(line) = &self.line {
            line.has_caught_up().await;
        }
    }

    async fn refuse(&self, id: Option<&Id>, error: &RpcError) {
        self.say(Rendered::error(id, &error.to_raw())).await;
    }

    async fn say(&self, message: Rendered) {
        if let Some(line) = &self.line {
            line.answer(message).await;
        }
    }
}

async fn run_modern(
    endpoint: Arc<Endpoint>,
    request: Request,
    ending: Ending,
    outlet: Arc<dyn Outlet>,
    leaving: Scope,
) {
    let id = request.id.clone();
    let subscription = (request.method == Method::LISTEN).then(|| id.clone());
    let is_listen = subscription.is_some();
    let back = LineBack { origin: request.origin.clone(), subscription, outlet };
    let calling = park::handle(&endpoint, request, Arc::new(back));
    let answer = tokio::select! {
        biased;
        answer = calling => answer,
        () = leaving.ended(), if is_listen => Ok(AnswerBody::ours(super::modern::complete())),
    };
    let message = match answer {
        Ok(AnswerBody::Whole(result, _)) if is_listen => Rendered::result(&id, stamped(Some(result), &id)),
        Ok(AnswerBody::Whole(result, _)) => Rendered::result(&id, result),
        Ok(AnswerBody::Stream(_)) => {
            let error = CallError::internal("a stream cannot be relayed on a line");
            Rendered::error(Some(&id), &error.to_raw())
        }
        Err(error) => Rendered::error(Some(&id), &error.to_raw()),
    };
    ending.answer(message).await;
}
