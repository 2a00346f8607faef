//! Subscriptions of a legacy session, each an internal `subscriptions/listen` whose events become plain
//! notifications: one for everything outside of calls, and one for each URI.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::Instant;
use toolyard_model::peer::{Ask, AskError, Back};
use toolyard_model::{Answer, BoxFuture, Peer, Request, Scope};
use toolyard_proto::{CallError, Id, Method, Notification, Raw};

use super::session::ClientSession;
use crate::calls::EndOnDrop;
use crate::outbox::Weight;
use crate::reply::Rendered;

/// URIs that one session may subscribe to.
const MOST: usize = 1_000;

/// How long, and how often, a resource that was watched before a restart is tried again.
const PERSEVERANCE: Duration = Duration::from_mins(2);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl ClientSession {
    /// Opens the subscription that every session has.
    pub(super) fn listen(self: &Arc<Self>) {
        let everything =
            json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true });
        let back = ListenBack { session: self.clone(), scope: self.scope.clone(), what: What::Everything };
        let listening = self.open_listen("session", &everything, back);
        self.scope.spawn(async move {
            if let Err(error) = listening.await {
                tracing::debug!(%error, "a session receives no change notifications");
            }
        });
    }

    fn open_listen(
        &self,
        name: &str,
        notifications: &serde_json::Value,
        back: ListenBack,
    ) -> BoxFuture<Answer> {
        let request = Request::new(
            self.origin.clone(),
            Id::string(&format!("listen:{name}")),
            Method::LISTEN,
            json!({ "notifications": notifications }),
        );
        self.handler.handle(request, Peer::new(Arc::new(back)))
    }

    /// `resources/subscribe`: answered once the handler has acknowledged the URI.
    pub(super) async fn subscribe(self: &Arc<Self>, params: &Raw) -> Result<Raw, CallError> {
        let uri = uri_in(params)?;
        if self.subscriptions().len() >= MOST {
            return Err(CallError::limit("this session has too many subscriptions"));
        }
        let scope = EndOnDrop(self.scope.child());
        let (acknowledge, acknowledged) = oneshot::channel();
        let (refuse, refused) = oneshot::channel();
        let what = What::Resource(Mutex::new(Some(acknowledge)));
        let back = ListenBack { session: self.clone(), scope: scope.0.clone(), what };
        let listening = self.open_listen(&uri, &json!({ "resourceSubscriptions": [uri] }), back);
        let session = self.clone();
        let own = scope.0.clone();
        scope.0.spawn(async move {
            // If it failed, the subscription is over for its client, too, even if it was open.
            let Err(error) = listening.await else { return };
            own.cancel();
            // The wait ends once the subscription is open.
            let _ = refuse.send(Some(error));
            session.drop_ended();
        });
        let deadline = tokio::time::sleep(self.handshake_timeout);
        tokio::select! {
            biased;
            Ok(acknowledgement) = acknowledged => check_acknowledged(&acknowledgement, &uri)?,
            ended = refused => {
                let ended = ended.ok().flatten();
                return Err(ended.unwrap_or_else(|| CallError::internal("the subscription ended at once")));
            }
            () = deadline => return Err(CallError::timeout(format!("no answer to a subscription to {uri}"))),
        }
        let is_ended = scope.0.is_ended();
        self.subscriptions().insert(uri, scope);
        if is_ended {
            self.drop_ended();
        }
        Ok(Raw::empty_object())
    }

    fn drop_ended(&self) {
        let ended: Vec<_> = self.subscriptions().extract_if(|_, scope| scope.0.is_ended()).collect();
        if !ended.is_empty() {
            self.changed.notify_one();
        }
    }

    /// A hub session has disconnected from its instance, so nothing there is to be watched again.
    pub(super) fn turned_away(&self) {
        self.unwatched().clear();
        self.changed.notify_one();
    }

    pub(super) fn unsubscribe(&self, params: &Raw) -> Result<Raw, CallError> {
        let uri = uri_in(params)?;
        self.unwatched().remove(&uri);
        let ended = self.subscriptions().remove(&uri);
        drop(ended);
        Ok(Raw::empty_object())
    }

    /// Watches them again, after a restart that the client did not notice.
    pub(crate) fn watch_again(self: &Arc<Self>, uris: Vec<String>) {
        self.unwatched().extend(uris.iter().cloned());
        for uri in uris {
            let session = self.clone();
            self.scope.spawn(async move { session.keep_watching(&uri).await });
        }
    }

    /// Tries for a while: the upstream that has the resource may not be there yet.
    async fn keep_watching(self: Arc<Self>, uri: &str) {
        let params = Raw::from(json!({ "uri": uri }));
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        while self.unwatched().contains(uri) {
            match self.subscribe(&params).await {
                // Unless the client has unsubscribed meanwhile.
                Ok(_) if self.unwatched().remove(uri) => return,
                Ok(_) => return drop(self.subscriptions().remove(uri)),
                Err(error) if begun.elapsed() >= PERSEVERANCE => {
                    tracing::debug!(%error, "the subscription to a resource has ended");
                    self.unwatched().remove(uri);
                    return self.changed.notify_one();
                }
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }
}

fn uri_in(params: &Raw) -> Result<String, CallError> {
    let uri = params.member("uri").and_then(|uri| uri.as_string());
    uri.ok_or_else(|| CallError::invalid_params("`uri` must be a string"))
}

fn check_acknowledged(acknowledgement: &Raw, uri: &str) -> Result<(), CallError> {
    let honoured = acknowledgement.at(&["notifications", "resourceSubscriptions"]);
    let honoured: Vec<String> = honoured.and_then(|uris| uris.read().ok()).unwrap_or_default();
    if honoured.iter().any(|honoured| honoured == uri) {
        return Ok(());
    }
    Err(CallError::invalid_params(format!("there are no subscriptions to {uri}")))
}

enum What {
    Everything,
    Resource(Mutex<Option<oneshot::Sender<Raw>>>),
}

/// Turns the notifications of a subscription into those of a legacy client.
struct ListenBack {
    session: Arc<ClientSession>,
    /// Once it has ended, nothing more is passed on, even if the handler continues to send.
    scope: Scope,
    what: What,
}

impl Back for ListenBack {
    fn notify(&self, notification: Notification) {
        let is_update = notification.method == Method::RESOURCE_UPDATED;
        match &self.what {
            _ if self.scope.is_ended() => return,
            What::Everything if is_update => return,
            What::Resource(waiting) if notification.method == Method::ACKNOWLEDGED => {
                let waiting = waiting.lock().take();
                if let Some(waiting) = waiting {
                    // The subscriber may have given up.
                    let _ = waiting.send(notification.params.unwrap_or_else(Raw::empty_object));
                }
                return;
            }
            What::Resource(_) if !is_update => return,
            _ => {}
        }
        if let Some(notification) = self.session.for_client(notification) {
            let weight = Weight::of(&notification.method);
            self.session.outside.tell(Rendered::notification(notification), weight);
        }
    }

    fn ask(&self, _: Ask) -> BoxFuture<Result<Raw, AskError>> {
        Box::pin(async { Err(AskError::Unsupported("a subscription cannot ask the client".into())) })
    }
}
