//! Messages that an upstream sends in a session outside of any call: the stream that a GET opens, kept open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::oneshot;
use toolyard_model::Peer;
use toolyard_proto::{Incoming, Message, Method, Notification, Raw, RequestMessage};

use super::call::{StreamPosition, is_session_lost};
use super::owner::Owner;
use super::session::UpstreamSession;
use crate::asks::{Verdict, to_ask};
use crate::events::is_change;
use crate::http::body::{Content, content};
use crate::http::refusal::HttpRefusal;
use crate::http::sse::EventStream;
use crate::http::upstream::LAST_EVENT_ID;
use crate::inflight::Addressee;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How an attempt to listen ended.
enum Ended {
    /// The server offers no such stream.
    NotOffered,
    SessionLost,
    Quiet,
    /// After a message had arrived.
    Talked,
}

/// Listens for as long as the session lives. Reports on `opened` when the stream is open or cannot be opened.
pub(super) async fn run(session: Arc<UpstreamSession>, opened: oneshot::Sender<()>) {
    let mut opened = Some(opened);
    let mut place = StreamPosition::default();
    let mut pause = FIRST_PAUSE;
    loop {
        match listen(&session, &mut place, &mut opened).await {
            Ended::NotOffered => {
                session.lock().has_no_inbox = true;
                return;
            }
            // The next call opens another session, or the task that renews its subscriptions does.
            Ended::SessionLost => return session.retire(),
            Ended::Talked => pause = FIRST_PAUSE,
            Ended::Quiet => {}
        }
        opened.take();
        tokio::time::sleep(pause.max(place.wait())).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn listen(
    session: &Arc<UpstreamSession>,
    place: &mut StreamPosition,
    opened: &mut Option<oneshot::Sender<()>>,
) -> Ended {
    let mut headers = session.get_headers();
    if let Some(id) = place.last_id.as_deref().and_then(|id| http::HeaderValue::from_str(id).ok()) {
        headers.insert(LAST_EVENT_ID, id);
    }
    let Ok(response) = session.get(headers).await else {
        return Ended::Quiet;
    };
    if response.status() != StatusCode::OK {
        let refusal = HttpRefusal::read(response).await;
        let lost = session.has_id && is_session_lost(&refusal);
        let busy = refusal.status.is_server_error() && refusal.status != StatusCode::NOT_IMPLEMENTED;
        return if lost {
            Ended::SessionLost
        } else if busy {
            Ended::Quiet
        } else {
            Ended::NotOffered
        };
    }
    if content(response.headers()) != Content::Events {
        return Ended::NotOffered;
    }
    opened.take().map(|opened| opened.send(()));
    let mut events = EventStream::new(response.into_body());
    let mut ended = Ended::Quiet;
    while let Ok(Some(event)) = events.next().await {
        ended = Ended::Talked;
        place.note(&event);
        session.take_unasked(&event.data);
    }
    ended
}

impl UpstreamSession {
    fn take_unasked(self: &Arc<Self>, data: &Bytes) {
        match Incoming::parse(data) {
            Ok(Incoming::One(message)) => self.take_unasked_message(message),
            Ok(Incoming::Batch(parts)) => {
                parts.into_iter().filter_map(Result::ok).for_each(|part| self.take_unasked_message(part));
            }
            Err(_) => {}
        }
    }

    fn take_unasked_message(self: &Arc<Self>, message: Message) {
        match message {
            Message::Notification(notification) => self.take_unasked_notification(notification),
            Message::Request(request) => self.take_unasked_request(request),
            Message::Response(_) => {}
        }
    }

    fn take_unasked_notification(&self, notification: Notification) {
        if notification.method == Method::CANCELLED {
            self.asks.take_back(&notification);
            return;
        }
        if notification.method == Method::PROGRESS {
            return self.progress(notification);
        }
        let for_all = is_change(&notification.method) || notification.method == Method::RESOURCE_UPDATED;
        if for_all || matches!(self.owner, Owner::Client(_)) {
            return self.events.notify(self.owner.client(), notification);
        }
        // In a shared session, other messages are attributed only if exactly one client can be meant.
        let addressee = self.lock().calls.addressee();
        if let Addressee::One(peer, _) = addressee {
            peer.notify(notification);
        }
    }

    /// Servers also use this stream for questions during a call, so the client of a call under way is asked.
    fn take_unasked_request(self: &Arc<Self>, request: RequestMessage) {
        let addressee = self.lock().calls.asked(Instant::now());
        let verdict = match addressee {
            _ if request.method == Method::PING => Verdict::pong(),
            Addressee::One(peer, _) => Verdict::Ask(peer.ask(to_ask(&request))),
            Addressee::None => Verdict::Ask(self.events.ask(self.owner.client(), to_ask(&request))),
            Addressee::Several => Verdict::ambiguous(),
        };
        self.answer(request, verdict);
    }

    /// Answers a request of the upstream in a task of its own.
    pub(super) fn answer(self: &Arc<Self>, request: RequestMessage, verdict: Verdict) {
        let session = self.clone();
        let reply = move |message: Message| -> toolyard_model::BoxFuture<()> {
            Box::pin(async move {
                let _ = session.deliver(&message).await;
            })
        };
        self.asks.answer(request, verdict, Box::new(reply));
    }

    /// Progress belongs to the call that its token names, with the token as the client sent it.
    pub(super) fn progress(&self, mut notification: Notification) {
        let token = notification.params.as_ref().and_then(|params| params.member("progressToken"));
        let Some((peer, own)) = token.and_then(|token| self.meant_by(&token)) else { return };
        notification.params = notification.params.map(|params| params.with("progressToken", &own));
        peer.notify(notification);
    }

    fn meant_by(&self, token: &Raw) -> Option<(Peer, Raw)> {
        let minted = token.as_string().and_then(|text| text.strip_prefix("yard-")?.parse().ok());
        let state = self.lock();
        let flight = match minted {
            Some(number) => state.calls.get(number),
            None => state.calls.find(|flight| flight.token.as_ref() == Some(token)),
        }?;
        Some((flight.peer.clone(), flight.token.clone()?))
    }
}
