//! HTTP+SSE (2024-11-05): everything that the server sends comes on one event stream, and everything for the server
//! is posted to an address that is in the stream's first event. The link sees a stream of lines like any other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::unfold;
use http::{HeaderMap, Method as HttpMethod, Response, StatusCode, Uri};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use toolyard_model::Scope;
use toolyard_proto::codec::MAX_MESSAGE;
use toolyard_proto::codec::line::{LineDecoder, one_line};
use toolyard_proto::{
    CallError, Id, Message, Method, Notification, Reason, RequestMessage, Response as Answer,
};

use super::body::{Content, content};
use super::connections::Arriving;
use super::refusal::HttpRefusal;
use super::sse::EventStream;
use super::upstream::HttpUpstream;

/// How much may wait between the link and the wire, each way.
const BUFFER: usize = 64 * 1024;
/// How many requests are posted at the same time, and how many may wait for that.
const POSTS: usize = 32;
const WAITING: usize = 1_000;
/// How long they may wait. A request that is being posted has the time of its call: some servers answer a post only
/// when the call is over.
const TURN: Duration = Duration::from_secs(30);
/// How long the post of a message without an answer may take.
const ERRAND: Duration = Duration::from_secs(5);

/// Why there is no stream.
pub(crate) enum SseError {
    Call(CallError),
    Refused(Box<HttpRefusal>),
    /// The server answers, but does not speak this transport.
    Other(Reason),
}

/// Opens the stream and waits for the address to post to. The lines live in `scope`.
pub(crate) async fn open(upstream: Arc<HttpUpstream>, scope: &Scope) -> Result<Lines, SseError> {
    let sent = upstream.send(None, HttpMethod::GET, upstream.get_headers(), Bytes::new()).await;
    let response = sent.map_err(SseError::Call)?;
    if response.status() != StatusCode::OK {
        return Err(SseError::Refused(Box::new(HttpRefusal::read(response).await)));
    }
    if content(response.headers()) != Content::Events {
        return Err(SseError::Other(not_http_sse(&upstream, response.headers())));
    }
    let mut events = EventStream::new(response.into_body());
    let url = address(&upstream, &mut events).await?;
    let (reader, from_server) = duplex(BUFFER);
    let (writer, to_server) = duplex(BUFFER);
    scope.spawn(run(SseConversation::new(upstream, url), events, from_server, to_server));
    Ok((reader, writer))
}

fn not_http_sse(upstream: &HttpUpstream, headers: &HeaderMap) -> Reason {
    upstream.not_mcp(headers).reason
}

/// The stream of the server's messages, and the stream of messages to it.
type Lines = (DuplexStream, DuplexStream);

/// The address to post to, from the first event. Messages with our credentials go to the same server only.
async fn address(upstream: &HttpUpstream, events: &mut EventStream) -> Result<Uri, SseError> {
    loop {
        let event = events.next().await.map_err(|cause| SseError::Call(upstream.lost(&cause)))?;
        let Some(event) = event else {
            return Err(SseError::Other(
                upstream.reason("ended its event stream before it named an address"),
            ));
        };
        if event.name == "endpoint" {
            let text = String::from_utf8_lossy(&event.data);
            return resolve(upstream.url(), text.trim()).map_err(|why| SseError::Other(upstream.reason(why)));
        }
        if !event.data.is_empty() {
            return Err(SseError::Other(
                upstream.reason("sent an event stream that does not begin with an address"),
            ));
        }
    }
}

/// An address relative to `base`, or a whole one of the same origin.
fn resolve(base: &Uri, text: &str) -> Result<Uri, String> {
    let wrong = || "named an invalid address for messages".to_owned();
    let authority = base.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let origin = format!("{}://{authority}", base.scheme_str().unwrap_or("http"));
    if text.contains("://") || text.starts_with("//") {
        let text = if text.starts_with("//") {
            format!("{}:{text}", base.scheme_str().unwrap_or("http"))
        } else {
            text.into()
        };
        let url: Uri = text.parse().map_err(|_| wrong())?;
        return if origin_of(&url) == origin_of(base) {
            Ok(url)
        } else {
            Err("names another server as the address for messages, which is not allowed".into())
        };
    }
    let path = base.path();
    let whole = match text.chars().next() {
        None => return Err(wrong()),
        Some('/') => format!("{origin}{text}"),
        Some('?') => format!("{origin}{path}{text}"),
        Some(_) => format!("{origin}{}/{text}", path.rsplit_once('/').map_or("", |(folder, _)| folder)),
    };
    whole.parse().map_err(|_| wrong())
}

fn origin_of(url: &Uri) -> (Option<&str>, Option<String>, u16) {
    let port = if url.scheme_str() == Some("https") { 443 } else { 80 };
    let host = url.host().map(str::to_ascii_lowercase);
    (url.scheme_str(), host, url.port_u16().unwrap_or(port))
}

struct SseConversation {
    upstream: Arc<HttpUpstream>,
    url: Uri,
    places: Semaphore,
    /// The requests that are being posted or are waiting to be. A cancelled request ends its post.
    under_way: Mutex<HashMap<Id, CancellationToken>>,
}

/// A request to be posted.
struct PendingPost {
    id: Id,
    line: Bytes,
    withdrawn: CancellationToken,
}

/// Both directions end together, and with them the connection.
async fn run(
    conversation: SseConversation,
    events: EventStream,
    from_server: DuplexStream,
    to_server: DuplexStream,
) {
    let ((failed, failures), (requests, asked)) = (mpsc::channel(POSTS), mpsc::channel(WAITING));
    tokio::select! {
        () = write_lines(events, failures, from_server) => {}
        () = conversation.post_lines(to_server, requests, failed.clone()) => {}
        () = conversation.post_requests(asked, failed) => {}
    }
}

/// Writes the server's messages as lines, and errors for the messages that it did not accept.
async fn write_lines(
    mut events: EventStream,
    mut failures: mpsc::Receiver<Bytes>,
    mut from_server: DuplexStream,
) {
    loop {
        let message = tokio::select! {
            event = events.next() => match event {
                Ok(Some(event)) if matches!(event.name.as_str(), "" | "message") => event.data,
                Ok(Some(_)) => continue,
                Ok(None) | Err(_) => return,
            },
            Some(failure) = failures.recv() => failure,
        };
        let mut line = BytesMut::from(one_line(message));
        line.extend_from_slice(b"\n");
        if from_server.write_all(&line).await.is_err() {
            return;
        }
    }
}

impl SseConversation {
    fn new(upstream: Arc<HttpUpstream>, url: Uri) -> Self {
        Self { upstream, url, places: Semaphore::new(POSTS), under_way: Mutex::default() }
    }

    /// Posts line by line. Requests may overtake each other; messages without an answer stay in order.
    async fn post_lines(
        &self,
        mut to_server: DuplexStream,
        requests: mpsc::Sender<PendingPost>,
        failed: mpsc::Sender<Bytes>,
    ) {
        let mut lines = LineDecoder::new(MAX_MESSAGE);
        loop {
            match lines.next_line() {
                Err(_) => return,
                Ok(Some(line)) => self.take(line, &requests, &failed).await,
                Ok(None) => {
                    lines.buffer().reserve(BUFFER);
                    if !matches!(to_server.read_buf(lines.buffer()).await, Ok(1..)) {
                        return;
                    }
                }
            }
        }
    }

    async fn take(&self, line: Bytes, requests: &mpsc::Sender<PendingPost>, failed: &mpsc::Sender<Bytes>) {
        let message = Message::parse(&line);
        if let Ok(Message::Request(RequestMessage { id, .. })) = message {
            let withdrawn = CancellationToken::new();
            self.under_way().insert(id.clone(), withdrawn.clone());
            if requests.try_send(PendingPost { id: id.clone(), line, withdrawn }).is_err() {
                self.fail(id, &self.no_room(), failed).await;
            }
            return;
        }
        if let Ok(Message::Notification(notification)) = &message {
            self.withdraw(notification);
        }
        let _ = timeout(ERRAND, self.post(line)).await;
    }

    /// Ends the post of a request that the client has cancelled.
    fn withdraw(&self, notification: &Notification) {
        let cancelled = notification.params.as_ref().filter(|_| notification.method == Method::CANCELLED);
        let id = cancelled.and_then(|params| params.member("requestId")).and_then(Id::from_raw);
        let withdrawn = id.and_then(|id| self.under_way().remove(&id));
        withdrawn.inspect(CancellationToken::cancel);
    }

    async fn post_requests(&self, asked: mpsc::Receiver<PendingPost>, failed: mpsc::Sender<Bytes>) {
        let asked = unfold(asked, async |mut asked| asked.recv().await.map(|next| (next, asked)));
        asked.for_each_concurrent(WAITING, async |asked| self.request(asked, &failed).await).await;
    }

    /// A request that is not accepted fails at once, instead of waiting for its timeout.
    async fn request(&self, PendingPost { id, line, withdrawn }: PendingPost, failed: &mpsc::Sender<Bytes>) {
        match withdrawn.run_until_cancelled(self.post_in_turn(line)).await {
            None => {}
            Some(Ok(())) => drop(self.under_way().remove(&id)),
            Some(Err(error)) => self.fail(id, &error, failed).await,
        }
    }

    async fn post_in_turn(&self, line: Bytes) -> Result<(), CallError> {
        let turn = timeout(TURN, self.places.acquire()).await;
        let Ok(Ok(_place)) = turn else { return Err(self.no_room()) };
        let response = self.post(line).await?;
        if response.status().is_success() {
            return Ok(());
        }
        Err(HttpRefusal::read(response).await.to_call_error(&self.upstream))
    }

    async fn fail(&self, id: Id, error: &CallError, failed: &mpsc::Sender<Bytes>) {
        self.under_way().remove(&id);
        let answer = Message::Response(Answer { id: Some(id), outcome: Err(error.to_raw()) });
        let _ = failed.send(answer.render()).await;
    }

    fn no_room(&self) -> CallError {
        let name = &self.upstream.name;
        let reason = self.upstream.reason("takes no more messages");
        CallError::limit(reason.because(format!("{POSTS} requests to it are unanswered"))).at(name)
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Id, CancellationToken>> {
        self.under_way.lock()
    }

    async fn post(&self, line: Bytes) -> Result<Response<Arriving>, CallError> {
        let headers = self.upstream.post_headers();
        self.upstream.send_to(&self.url, HttpMethod::POST, headers, line).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let base = Uri::from_static("https://a.example/old/sse");
        let got = resolve(&base, text).map_or_else(|why| why, |url| url.to_string());
        assert!(got.starts_with(expected), "{text}: {got}");
    }

    #[test]
    fn messages_are_posted_to_the_same_server_only() {
        check("/messages?s=1", "https://a.example/messages?s=1");
        check("?s=1", "https://a.example/old/sse?s=1");
        check("messages?s=1", "https://a.example/old/messages?s=1");
        check("https://A.example:443/m", "https://A.example:443/m");
        check("//a.example/m", "https://a.example/m");
        check("https://b.example/m", "names another server as the address for messages");
        check("http://a.example/m", "names another server as the address for messages");
        check("https://a.example:8443/m", "names another server as the address for messages");
        check("//b.example/m", "names another server as the address for messages");
        check("", "named an invalid address");
    }
}
