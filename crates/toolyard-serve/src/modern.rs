//! One modern request: it is self-contained, its answer is JSON or the upstream's own body, and only a
//! notification on the way turns it into an event stream. The call runs inside the HTTP exchange itself,
//! without a task or a channel, so that a client that disconnects drops it.

mod stream;

use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::Poll;

use http::StatusCode;
use tokio::time::{Instant, sleep, timeout_at};
use toolyard_model::peer::{Ask, AskError, Back};
use toolyard_model::{Answer, AnswerBody, BoxFuture, ClientKey, Origin, Request, View};
use toolyard_proto::modern::{Claim, Found, LogLevel, RequestMeta, SUBSCRIPTION_ID};
use toolyard_proto::{CallError, Era, Id, Method, Notification, Raw, RequestMessage, era};

use super::endpoint::{Counts, Endpoint, next_number};
use super::fields::Fields;
use super::outbox::Outbox;
use super::post::Routed;
use super::rendered::Rendered;
use super::reply::{self, Reply};
use super::{ServeBody, headers, park};
use crate::admit::Admitted;
use stream::CallStream;

/// A modern request with what has been parsed of it so far.
pub(crate) struct Arrived {
    pub(crate) message: RequestMessage,
    pub(crate) claim: Claim,
    pub(crate) found: Found,
}

/// A call of a modern client, under way.
pub(super) struct Running {
    id: Id,
    back: Arc<ModernBack>,
    future: BoxFuture<Answer>,
}

/// Begins one posted request.
pub(super) fn begin<'a>(
    endpoint: &Arc<Endpoint>,
    view: View,
    admitted: Admitted,
    fields: Fields<'_>,
    arrived: Arrived,
) -> Routed<'a> {
    if view == View::Hub {
        // The hub lives in a session: clients of both eras fall back to `initialize` on this.
        let text = "this view needs a session: send initialize";
        return Routed::Answered(reply::text(StatusCode::BAD_REQUEST, text));
    }
    let Arrived { message: RequestMessage { id, method, .. }, claim, mut found } = arrived;
    let params = mem::take(&mut found.params);
    let meta = match accept(fields, &method, &claim, found) {
        Ok(meta) => meta,
        Err(error) => return Routed::Answered(reply::error(Era::Modern, &id, &error)),
    };
    let client = client_key(&admitted);
    let until = admitted.until;
    let origin = origin(view, admitted, client, meta);
    let subscription = (method == Method::LISTEN).then(|| id.clone());
    let relay = subscription.is_none();
    let back = Arc::new(ModernBack::new(origin.clone(), subscription, endpoint.counts.clone()));
    let request = Request::new(origin, id.clone(), method, params)
        .with_headers(headers::params(fields))
        .with_relay(relay);
    let mut future = park::handle(endpoint, request, back.clone());
    if let Some(until) = until.filter(|_| !relay) {
        future = Box::pin(listen_until(until, future));
    }
    Routed::Running(Running { id, back, future })
}

/// Listening ends with the credential that it was begun with. The client may listen again with another.
async fn listen_until(until: Instant, listening: BoxFuture<Answer>) -> Answer {
    let complete = || Ok(AnswerBody::ours(serde_json::json!({ "resultType": "complete" }).into()));
    timeout_at(until, listening).await.unwrap_or_else(|_| complete())
}

fn accept(
    fields: Fields<'_>,
    method: &Method,
    claim: &Claim,
    found: Found,
) -> Result<RequestMeta, CallError> {
    let meta = headers::check(fields, method, claim, found)?;
    if era::is_removed(method) { Err(CallError::unknown_method(method.as_str())) } else { Ok(meta) }
}

/// Without credentials every request is a client of its own.
pub(crate) fn client_key(admitted: &Admitted) -> ClientKey {
    if admitted.proven {
        ClientKey::Principal(admitted.principal.clone())
    } else {
        ClientKey::Request(next_number())
    }
}

pub(crate) fn origin(view: View, admitted: Admitted, client: ClientKey, meta: RequestMeta) -> Arc<Origin> {
    let is_proven = admitted.proves_user();
    Arc::new(
        Origin::new(view, admitted.principal, client, meta.revision)
            .with_capabilities(meta.capabilities)
            .with_client_info(meta.client_info)
            .with_log_level(meta.log_level)
            .with_place(is_proven, admitted.folder)
            .with_relayed(admitted.is_relayed),
    )
}

impl Running {
    /// Waits for whatever comes first: an answer alone is sent as it is, anything else starts a stream. So does
    /// a long silence, so that no proxy closes the connection as idle.
    pub(super) async fn respond(self, endpoint: &Arc<Endpoint>) -> Reply {
        let Self { id, back, mut future } = self;
        let mut silence = None;
        let first = poll_fn(|cx| {
            if let Poll::Ready(answer) = future.as_mut().poll(cx) {
                return Poll::Ready(First::Answer(answer));
            }
            if back.outbox.poll_filled(cx).is_ready() {
                return Poll::Ready(First::Word);
            }
            let silence = silence.get_or_insert_with(|| Box::pin(sleep(endpoint.options.keep_alive)));
            silence.as_mut().poll(cx).map(|()| First::Silence)
        })
        .await;
        let stream = match first {
            First::Answer(Err(error)) if back.outbox.is_empty() => {
                return reply::error(Era::Modern, &id, &error).into();
            }
            First::Answer(Ok(answer)) if back.subscription.is_none() && back.outbox.is_empty() => {
                return match answer {
                    AnswerBody::Whole(result, _) => Reply::Message(Rendered::result(&id, result)),
                    AnswerBody::Stream(relay) => reply::relay(relay, id).into(),
                };
            }
            First::Answer(answer) => CallStream::answered(endpoint, id, back, answer),
            First::Word => CallStream::running(endpoint, id, back, future),
            First::Silence => CallStream::running(endpoint, id, back, future).after_silence(),
        };
        reply::events(ServeBody::live(stream)).into()
    }
}

/// What comes first of a call.
enum First {
    Answer(Answer),
    Word,
    Silence,
}

/// The way back to a modern HTTP client.
pub(crate) struct ModernBack {
    origin: Arc<Origin>,
    /// The id of the `subscriptions/listen` this is, if it is one.
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
        let Some(notification) = fit(&self.origin, self.subscription.as_ref(), notification) else { return };
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

/// A notification as a modern client may receive it: on a subscription stamped with its id, on a call only what
/// belongs to the call.
pub(crate) fn fit(
    origin: &Origin,
    subscription: Option<&Id>,
    notification: Notification,
) -> Option<Notification> {
    let Notification { method, params } = notification;
    if let Some(id) = subscription {
        let belongs_to_a_call = method == Method::PROGRESS || method == Method::LOG;
        return (!belongs_to_a_call).then(|| Notification::new(method, stamped(params, id)));
    }
    let allowed = match method.as_str() {
        "notifications/message" => loud_enough(origin.log_level.get(), params.as_ref()),
        "notifications/tools/list_changed"
        | "notifications/prompts/list_changed"
        | "notifications/resources/list_changed"
        | "notifications/resources/updated" => false,
        _ => true,
    };
    allowed.then_some(Notification { method, params })
}

/// `params` of something on a subscription, or of its result.
pub(crate) fn stamped(params: Option<Raw>, subscription: &Id) -> Raw {
    let params = params.filter(Raw::is_object).unwrap_or_else(Raw::empty_object);
    params.with_path(&["_meta", SUBSCRIPTION_ID], subscription.as_raw())
}

/// The result of a subscription that the server ends.
pub(crate) fn complete() -> Raw {
    serde_json::json!({ "resultType": "complete" }).into()
}

/// Whether a log message reaches the level that the client asked for; without one it wants none.
fn loud_enough(wanted: Option<LogLevel>, params: Option<&Raw>) -> bool {
    let Some(wanted) = wanted else { return false };
    log_level(params).is_none_or(|level| level >= wanted)
}

pub(crate) fn log_level(params: Option<&Raw>) -> Option<LogLevel> {
    LogLevel::parse(&params?.member("level")?.as_string()?)
}
