//! The session of a legacy client after its handshake, over HTTP or on a stream: its origin, its calls, its open
//! questions and its subscriptions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use toolyard_model::peer::{Ask, AskError, Back};
use toolyard_model::{AnswerBody, BoxFuture, Handler, Origin, Peer, Request, Scope};
use toolyard_proto::error::code;
use toolyard_proto::modern::LogLevel;
use toolyard_proto::{
    CallError, Id, Message, Method, Notification, Raw, RequestMessage, Response, RpcError, legacy,
};

use super::asks::Asks;
use crate::calls::{Calls, EndOnDrop, Ending, Outlet};
use crate::endpoint::{Counts, Endpoint, next_number};
use crate::notify_limit::NotifyLimit;
use crate::outbox::Weight;
use crate::reply::Rendered;

pub(crate) struct ClientSession {
    pub(crate) origin: Arc<Origin>,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) calls: Arc<Calls>,
    pub(crate) scope: Scope,
    /// The receiver of messages outside of calls.
    pub(crate) outside: Arc<dyn Outlet>,
    pub(super) handshake_timeout: Duration,
    asks: Arc<Asks>,
    counts: Arc<Counts>,
    notify_limit: Arc<NotifyLimit>,
    subscriptions: Mutex<HashMap<String, EndOnDrop>>,
    /// The resources that the client watched before a restart and does not watch again yet.
    unwatched: Mutex<HashSet<String>>,
    /// Notified when the level, the subscriptions or the state that the handler keeps has changed.
    pub(super) changed: Notify,
    ended: AtomicBool,
}

impl ClientSession {
    pub(crate) fn new(
        endpoint: &Endpoint,
        origin: Arc<Origin>,
        calls: Arc<Calls>,
        outside: Arc<dyn Outlet>,
        scope: Scope,
    ) -> Arc<Self> {
        let session = Arc::new(Self {
            origin,
            handler: endpoint.handler.clone(),
            calls,
            scope,
            outside,
            handshake_timeout: endpoint.options.handshake_timeout,
            asks: Asks::new(endpoint.options.ask_timeout),
            counts: endpoint.counts.clone(),
            notify_limit: NotifyLimit::new(),
            subscriptions: Mutex::default(),
            unwatched: Mutex::default(),
            changed: Notify::new(),
            ended: AtomicBool::new(false),
        });
        session.handler.began(&session.origin);
        session.listen();
        session
    }

    /// Runs a request as a task of the session, so that a lost connection does not end it. Waits only until a
    /// refusal has been written.
    pub(crate) async fn start(self: &Arc<Self>, message: RequestMessage, outlet: Arc<dyn Outlet>) {
        let slot = match self.calls.take_slot(&message.id, &self.scope) {
            Ok(slot) => slot,
            Err(error) => {
                let refused = Rendered::error(Some(&message.id), &error.to_raw());
                return outlet.answer(refused).await;
            }
        };
        let session = self.clone();
        let scope = slot.scope.clone();
        let ending = Ending::new(slot, outlet.clone());
        scope.spawn(async move {
            let id = message.id.clone();
            let method = message.method.clone();
            let answer = match session.clone().perform(message, outlet).await {
                Ok(result) => Rendered::result(&id, result),
                Err(error) => {
                    Rendered::error(Some(&id), &legacy::error_for(error.form, &method, &error.to_raw()))
                }
            };
            ending.answer(answer).await;
        });
    }

    /// The resources that its client watches, or did before a restart.
    pub(crate) fn watched(&self) -> Vec<String> {
        let mut watched = self.unwatched().clone();
        watched.extend(self.subscriptions().keys().cloned());
        watched.into_iter().collect()
    }

    /// A notification or an answer of the client.
    pub(crate) fn take(&self, message: Message) {
        match message {
            Message::Notification(notification) => match notification.method.as_str() {
                "notifications/initialized" => {}
                "notifications/cancelled" => self.calls.cancel(&notification),
                _ => self.notify_limit.pass(
                    &self.handler,
                    &self.origin,
                    notification,
                    &self.counts,
                    &self.scope,
                ),
            },
            Message::Response(response) => self.answered(response),
            Message::Request(_) => {}
        }
    }

    /// The client has closed its end, so nothing it is asked can be answered.
    pub(crate) fn close_questions(&self) {
        self.asks.close();
    }

    fn answered(&self, response: Response) {
        if !self.asks.answered(response) {
            Counts::add(&self.counts.unmatched);
        }
    }

    async fn perform(
        self: Arc<Self>,
        message: RequestMessage,
        outlet: Arc<dyn Outlet>,
    ) -> Result<Raw, CallError> {
        let RequestMessage { id, method, params } = message;
        let params = params.unwrap_or_default();
        match method.as_str() {
            "ping" => return Ok(Raw::empty_object()),
            "initialize" => {
                let error = RpcError::new(code::INVALID_REQUEST, "this session is initialized already");
                return Err(CallError::reported(error.to_raw()));
            }
            "server/discover" | "subscriptions/listen" => {
                return Err(CallError::unknown_method(method.as_str()));
            }
            "resources/unsubscribe" | "logging/setLevel"
                if !self.handler.knows(&self.origin.view, &method) =>
            {
                return Err(CallError::unknown_method(method.as_str()));
            }
            "resources/subscribe" => {
                let answer = self.subscribe(&params).await;
                self.changed.notify_one();
                return answer;
            }
            "resources/unsubscribe" => {
                let answer = self.unsubscribe(&params);
                self.changed.notify_one();
                return answer;
            }
            "logging/setLevel" => {
                self.set_level(&params)?;
                self.changed.notify_one();
            }
            _ => {}
        }
        let back = SessionBack { session: self.clone(), outlet };
        let request = Request::new(self.origin.clone(), id, method.clone(), params);
        let before = self.handler.save_session(&self.origin);
        let answer = self.handler.handle(request, Peer::new(Arc::new(back))).await;
        if self.handler.save_session(&self.origin) != before {
            self.turned_away();
        }
        match answer? {
            AnswerBody::Whole(result, form) if form > self.origin.revision => {
                Ok(legacy::result_for(self.origin.revision, &method, &result))
            }
            AnswerBody::Whole(result, _) => Ok(result),
            AnswerBody::Stream(_) => Err(CallError::internal("a stream cannot be relayed to this client")),
        }
    }

    fn set_level(&self, params: &Raw) -> Result<(), CallError> {
        let level = params.member("level").and_then(|level| level.as_string());
        let level = level.as_deref().and_then(LogLevel::parse);
        let level = level.ok_or_else(|| CallError::invalid_params("`level` must be a log level"))?;
        self.origin.log_level.set(level);
        Ok(())
    }

    /// Passes the level that was chosen before a restart to the handler, which is a new one.
    pub(super) fn restore_level(&self) {
        let Some(level) = self.origin.log_level.get() else { return };
        let request = Request::new(
            self.origin.clone(),
            Id::string("level"),
            Method::SET_LEVEL,
            serde_json::json!({ "level": level.as_str() }),
        );
        let telling = self.handler.handle(request, Peer::none());
        self.scope.spawn(async move { drop(telling.await) });
    }

    pub(super) fn subscriptions(&self) -> MutexGuard<'_, HashMap<String, EndOnDrop>> {
        self.subscriptions.lock()
    }

    pub(super) fn unwatched(&self) -> MutexGuard<'_, HashSet<String>> {
        self.unwatched.lock()
    }

    /// A notification as a legacy client may see it.
    pub(super) fn for_client(&self, notification: Notification) -> Option<Notification> {
        let Notification { method, params } = notification;
        let wanted = match method.as_str() {
            "notifications/subscriptions/acknowledged" | "notifications/tasks" => false,
            "notifications/message" => {
                // Before the client has set a level, the server may send any.
                let level = LogLevel::of(params.as_ref());
                self.origin.log_level.get().zip(level).is_none_or(|(wanted, level)| level >= wanted)
            }
            _ => true,
        };
        let params = params.map(|params| legacy::notification_params(&params));
        wanted.then_some(Notification { method, params })
    }

    /// Ends everything the session owns and informs the handler, once.
    pub(crate) fn end(&self) {
        if !self.ended.swap(true, Ordering::Relaxed) {
            self.scope.cancel();
            self.handler.ended(&self.origin.client);
        }
    }
}

/// The way back to a legacy client, on the stream of one call.
struct SessionBack {
    session: Arc<ClientSession>,
    outlet: Arc<dyn Outlet>,
}

impl Back for SessionBack {
    fn notify(&self, notification: Notification) {
        if let Some(notification) = self.session.for_client(notification) {
            let weight = Weight::of(&notification.method);
            self.outlet.tell(Rendered::notification(notification), weight);
        }
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        if let Some(refusal) = ask.refusal(&self.session.origin.capabilities) {
            return Box::pin(async { Err(refusal) });
        }
        let Ask { method, params } = ask;
        let revision = self.session.origin.revision;
        let params = params.map(|params| legacy::ask_for(revision, &method, &params, next_number()));
        Box::pin(self.session.asks.clone().ask(Ask { method, params }, self.outlet.clone()))
    }

    fn hang_up(&self, come_back_after: Duration) {
        self.outlet.hang_up(come_back_after);
    }
}
