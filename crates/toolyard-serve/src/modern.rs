//! The answer to one modern request: JSON, or the upstream's own body. It becomes an event stream if a notification is
//! sent before the answer, or after a long silence. The call runs inside the HTTP exchange itself, without a task or a
//! channel, so that a disconnect of the client drops the call.

mod stream;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tokio::time::{Instant, sleep, timeout_at};
use toolyard_model::peer::{Ask, AskError, Back, unwanted_on_call};
use toolyard_model::{Answer, AnswerBody, BoxFuture, Origin, Request};
use toolyard_proto::modern::SUBSCRIPTION_ID;
use toolyard_proto::{Era, Id, Method, Notification, Raw};

use super::endpoint::{Counts, Endpoint};
use super::outbox::Outbox;
use super::reply::{self, Rendered, Reply};
use super::{ServeBody, park};
use stream::CallStream;

/// A call of a modern client, under way.
pub(super) struct RunningCall {
    id: Id,
    back: Arc<ModernBack>,
    future: BoxFuture<Answer>,
}

/// A subscription ends when its credential expires. The client may subscribe again with another credential.
async fn listen_until(until: Instant, listening: BoxFuture<Answer>) -> Answer {
    match timeout_at(until, listening).await {
        Ok(answer) => answer,
        Err(_) => Ok(AnswerBody::ours(complete())),
    }
}

impl RunningCall {
    /// Hands a request to the handler. Listening ends at `until`, when the client's credential expires.
    pub(super) fn start(endpoint: &Arc<Endpoint>, request: Request, until: Option<Instant>) -> Self {
        let id = request.id.clone();
        let subscription = (request.method == Method::LISTEN).then(|| id.clone());
        let is_call = subscription.is_none();
        let back = Arc::new(ModernBack::new(request.origin.clone(), subscription, endpoint.counts.clone()));
        let mut future = park::handle(endpoint, request.with_relay(is_call), back.clone());
        if let Some(until) = until.filter(|_| !is_call) {
            future = Box::pin(listen_until(until, future));
        }
        Self { id, back, future }
    }

    /// Waits for the first event. An answer is sent as it is; a notification starts a stream. A long silence also starts
    /// a stream, so that no proxy closes the connection as idle.
    pub(super) async fn respond(self, endpoint: &Arc<Endpoint>) -> Reply {
        let Self { id, back, mut future } = self;
        let mut silence = None;
        let first = poll_fn(|cx| {
            if let Poll::Ready(answer) = future.as_mut().poll(cx) {
                return Poll::Ready(FirstEvent::Answer(answer));
            }
            if back.outbox.poll_filled(cx).is_ready() {
                return Poll::Ready(FirstEvent::Notification);
            }
            let silence = silence.get_or_insert_with(|| Box::pin(sleep(endpoint.options.keep_alive)));
            silence.as_mut().poll(cx).map(|()| FirstEvent::Silence)
        })
        .await;
        let stream = match first {
            FirstEvent::Answer(Err(error)) if back.outbox.is_empty() => {
                return reply::error(Era::Modern, &id, &error).into();
            }
            FirstEvent::Answer(Ok(answer)) if back.subscription.is_none() && back.outbox.is_empty() => {
                return match answer {
                    AnswerBody::Whole(result, _) => Reply::Message(Rendered::result(&id, result)),
                    AnswerBody::Stream(relay) => reply::relay(relay, id).into(),
                };
            }
            FirstEvent::Answer(answer) => CallStream::answered(endpoint, id, back, answer),
            FirstEvent::Notification => CallStream::running(endpoint, id, back, future),
            FirstEvent::Silence => CallStream::running(endpoint, id, back, future).after_silence(),
        };
        reply::events(ServeBody::live(stream)).into()
    }
}

/// The first event of a call.
enum FirstEvent {
    Answer(Answer),
    Notification,
    Silence,
}

/// The channel back to a modern HTTP client.
pub(crate) struct ModernBack {
    origin: Arc<Origin>,
    /// The id of the request, if it is a `subscriptions/listen`.
    subscription: Option<Id>,
    outbox: Outbox,
    counts: Arc<Counts>,
}

impl ModernBack {
    fn new(origin: Arc<Origin>, subscription: Option<Id>, counts: Arc<Counts>) -> Self {
        Self { origin, subscription, outbox: Outbox::default(), counts }
    }
}

impl Back for ModernBack {
    fn notify(&self, notification: Notification) {
        let Some(notification) = filter_notification(&self.origin, self.subscription.as_ref(), notification)
        else {
            return;
        };
        if !self.outbox.push(notification) {
            Counts::add(&self.counts.dropped);
        }
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        cannot_ask(&ask)
    }
}

pub(crate) fn cannot_ask(ask: &Ask) -> BoxFuture<Result<Raw, AskError>> {
    let message = format!("{} cannot be asked in the middle of a modern client's request", ask.method);
    Box::pin(async { Err(AskError::Unsupported(message)) })
}

/// Returns the notification in the form for a modern client, or `None` if the client must not receive it. On a
/// subscription it is stamped with the subscription's id; on a call only notifications of that call pass.
pub(crate) fn filter_notification(
    origin: &Origin,
    subscription: Option<&Id>,
    notification: Notification,
) -> Option<Notification> {
    let Some(id) = subscription else {
        return unwanted_on_call(&notification, origin).is_none().then_some(notification);
    };
    let Notification { method, params } = notification;
    let belongs_to_a_call = method == Method::PROGRESS || method == Method::LOG;
    (!belongs_to_a_call).then(|| Notification::new(method, stamped(params, id)))
}

/// Adds the id of the subscription to the `params` of a notification, or to the result of the subscription.
pub(crate) fn stamped(params: Option<Raw>, subscription: &Id) -> Raw {
    let params = params.filter(Raw::is_object).unwrap_or_else(Raw::empty_object);
    params.with_path(&["_meta", SUBSCRIPTION_ID], subscription.as_raw())
}

/// The result of a subscription that the server ends.
pub(crate) fn complete() -> Raw {
    serde_json::json!({ "resultType": "complete" }).into()
}
