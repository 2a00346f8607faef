//! The messages of an upstream on a shared stream, and which client each of them is for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use toolyard_model::{Ask, AskError, Peer};
use toolyard_proto::modern::SUBSCRIPTION_ID;
use toolyard_proto::{
    CallError, Id, Incoming, Message, Method, Notification, ParseError, Raw, Reason, RequestMessage, Response,
};

use super::mux::MuxShared;
use crate::asks::{Verdict, ambiguity, to_ask};
use crate::events::is_change;
use crate::held_back::{UNASKED_PROGRESS, unwanted};
use crate::inflight::{Addressee, InFlight};

/// How much of an invalid line goes into the log.
const EXCERPT: usize = 200;
/// How long a question waits for the calls of other clients to end, until it is clear which client must be asked.
const UNCLEAR: Duration = Duration::from_secs(10);
/// How often a waiting question checks whether it is clear. Polling is enough because such questions are rare, and it
/// adds nothing to the path of answers.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(crate) fn take(shared: &Arc<MuxShared>, line: &Bytes) {
    match Incoming::parse(line) {
        Ok(Incoming::One(message)) => take_message(shared, message),
        Ok(Incoming::Batch(parts)) => {
            for part in parts {
                part.map_or_else(
                    |error| refuse(shared, line, &error),
                    |message| take_message(shared, message),
                );
            }
        }
        Err(error) => refuse(shared, line, &error),
    }
}

fn refuse(shared: &MuxShared, line: &Bytes, error: &ParseError) {
    shared.count_garbage();
    // An invalid message shows what went wrong; the content of an answer is private.
    let shown = if error.is_answer { 0 } else { line.len().min(EXCERPT) };
    let excerpt = String::from_utf8_lossy(&line[..shown]);
    tracing::debug!(upstream = %shared.name, %error, %excerpt, "received an invalid line");
    // No other answer will come for this call, so it fails.
    if let Some(id) = error.id.as_ref().filter(|_| error.is_answer).and_then(Id::as_u64) {
        let name = &shared.name;
        let reason = Reason::of_upstream(name, "violated the protocol").because(error.to_string());
        shared.answer(id, Err(CallError::bad_answer(reason).at(name)));
    }
}

fn take_message(shared: &Arc<MuxShared>, message: Message) {
    match message {
        Message::Response(response) => take_response(shared, response),
        Message::Notification(notification) => take_notification(shared, notification),
        Message::Request(request) => take_request(shared, request),
    }
}

fn take_response(shared: &MuxShared, response: Response) {
    let Some(id) = response.id.as_ref().and_then(Id::as_u64) else { return shared.count_stray() };
    // The result of a `subscriptions/listen` names our id, which the client does not know.
    let outcome = response
        .outcome
        .map(|result| result.without_in("_meta", &[SUBSCRIPTION_ID]))
        .map_err(|error| CallError::reported(error).at(&shared.name));
    shared.answer(id, outcome);
}

fn take_notification(shared: &MuxShared, notification: Notification) {
    if notification.method == Method::PROGRESS {
        return take_progress(shared, notification);
    }
    if notification.method == Method::CANCELLED {
        return take_cancelled(shared, &notification);
    }
    if let Some(subscription) = params(&notification).and_then(|p| p.at(&["_meta", SUBSCRIPTION_ID])) {
        return take_subscribed(shared, &subscription, notification);
    }
    if is_change(&notification.method) || notification.method == Method::RESOURCE_UPDATED {
        return shared.events.notify(None, notification);
    }
    note_unwanted(shared, &notification);
    match shared.with_calls(InFlight::addressee) {
        Addressee::One(peer, _) => peer.notify(notification),
        Addressee::Several if !shared.with_calls(|calls| calls.are_of_one_principal()) => {
            shared.count_stray();
        }
        Addressee::None | Addressee::Several => shared.events.notify(None, notification),
    }
}

/// Notes in the log that a notification, which the client did not ask for, will be dropped on the way to it.
fn note_unwanted(shared: &MuxShared, notification: &Notification) {
    if !shared.takes_levels() {
        return;
    }
    let origin = shared.with_calls(|calls| calls.of_one_client().map(|flight| flight.more.origin.clone()));
    if let Some(what) = origin.and_then(|origin| unwanted(notification, &origin)) {
        shared.held_back.note(what);
    }
}

fn params(notification: &Notification) -> Option<&Raw> {
    notification.params.as_ref()
}

/// The number by which a message refers to its call.
fn number(raw: Option<Raw>) -> Option<u64> {
    raw.and_then(Id::from_raw).as_ref().and_then(Id::as_u64)
}

fn take_progress(shared: &MuxShared, mut notification: Notification) {
    let id = number(params(&notification).and_then(|params| params.member("progressToken")));
    let found = id.and_then(|id| {
        shared.with_calls(|calls| calls.get(id).map(|flight| (flight.peer.clone(), flight.token.clone())))
    });
    let Some((peer, token)) = found else { return shared.count_stray() };
    let Some(token) = token else {
        shared.held_back.note(UNASKED_PROGRESS);
        return shared.count_stray();
    };
    notification.params = notification.params.map(|params| params.with("progressToken", &token));
    peer.notify(notification);
}

/// A notification of a subscription goes to the `subscriptions/listen` that opened it, without our id.
fn take_subscribed(shared: &MuxShared, subscription: &Raw, mut notification: Notification) {
    let Some(peer) = peer_of(shared, number(Some(subscription.clone()))) else { return shared.count_stray() };
    notification.params = notification.params.map(|params| params.without_in("_meta", &[SUBSCRIPTION_ID]));
    peer.notify(notification);
}

fn peer_of(shared: &MuxShared, id: Option<u64>) -> Option<Peer> {
    id.and_then(|id| shared.with_calls(|calls| calls.get(id).map(|flight| flight.peer.clone())))
}

/// The upstream withdraws a question of its own, or ends a subscription.
fn take_cancelled(shared: &MuxShared, notification: &Notification) {
    if shared.asks.take_back(notification) {
        return;
    }
    // Both directions may use the same ids. Of our requests, an upstream can only end a `subscriptions/listen` like
    // this.
    let listens =
        |id: &u64| shared.with_calls(|calls| calls.get(*id).is_some_and(|flight| flight.more.listens));
    match number(params(notification).and_then(|params| params.member("requestId"))).filter(listens) {
        Some(id) => shared.answer(id, Ok(serde_json::json!({ "resultType": "complete" }).into())),
        None => shared.count_stray(),
    }
}

fn take_request(shared: &Arc<MuxShared>, request: RequestMessage) {
    let verdict = if request.method == Method::PING {
        Verdict::pong()
    } else {
        match shared.with_calls(|calls| calls.asked(Instant::now())) {
            Addressee::One(peer, client) => {
                // A client without a session may take long to answer, and its next request counts as another client.
                if client.may_span_programs() {
                    shared.mark_interactive();
                }
                Verdict::Ask(peer.ask(to_ask(&request)))
            }
            Addressee::None => Verdict::Ask(shared.events.ask(None, to_ask(&request))),
            Addressee::Several => {
                shared.mark_interactive();
                let candidates = shared.with_calls(|calls| calls.candidates());
                Verdict::Ask(Box::pin(ask_when_clear(shared.clone(), candidates, to_ask(&request))))
            }
        }
    };
    let to = shared.clone();
    shared.asks.answer(request, verdict, Box::new(move |message| to.reply(&message)));
}

/// Waits until the calls of only one client are left among `candidates`, and asks that client. Newer calls do not
/// count: from now on, calls of clients that can be asked use their own connections.
async fn ask_when_clear(shared: Arc<MuxShared>, candidates: Vec<u64>, ask: Ask) -> Result<Raw, AskError> {
    let until = tokio::time::Instant::now() + UNCLEAR;
    while tokio::time::Instant::now() < until {
        match shared.with_calls(|calls| calls.asked_among(&candidates, Instant::now())) {
            Addressee::One(peer, _) => return peer.ask(ask).await,
            Addressee::None => return Err(AskError::Gone),
            Addressee::Several => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
    Err(AskError::Reported(ambiguity()))
}
