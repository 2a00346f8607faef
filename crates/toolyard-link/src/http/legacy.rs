//! A link to a legacy upstream over HTTP: sessions pooled by client, each with its handshake, its
//! stream of unasked messages, and its end.

mod call;
mod inbox;
mod leaving;
mod memory;
mod owner;
mod pool;
mod session;
mod watching;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use toolyard_proto::{CallError, Method, Notification};

pub(crate) use pool::{Pool, PoolParts};
pub(crate) use session::OpenError;

use toolyard_model::{Answer, AnswerBody, BoxFuture, ClientKey, Greeting, Link, LinkRequest, Origin, Peer};

use crate::own::own_hop;
use call::Failed;

/// A link to an HTTP upstream that keeps sessions.
pub struct LegacyLink {
    greeting: Greeting,
    pool: Arc<Pool>,
    /// The pool ends by itself, after the calls under way.
    let_go: AtomicBool,
}

impl LegacyLink {
    /// `pool` holds the gateway's own session already, and `greeting` is the server's answer at its opening.
    pub(crate) fn new(greeting: Greeting, pool: Arc<Pool>) -> Self {
        Self { greeting, pool, let_go: AtomicBool::new(false) }
    }
}

impl std::fmt::Debug for LegacyLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LegacyLink").field("upstream", self.pool.name()).finish_non_exhaustive()
    }
}

impl Link for LegacyLink {
    fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    fn call(&self, request: LinkRequest, peer: Peer) -> BoxFuture<Answer> {
        let pool = self.pool.clone();
        Box::pin(async move { call(&pool, &request, &peer).await.map_err(own_hop) })
    }

    fn notify(&self, origin: &Arc<Origin>, notification: Notification) {
        self.pool.notify(origin, notification);
    }

    fn per_client(&self) -> bool {
        true
    }

    fn announces_changes(&self) -> bool {
        self.pool.announces_changes()
    }

    fn forget(&self, client: &ClientKey) {
        self.pool.forget(client);
    }

    fn leave(&self, client: &ClientKey) {
        self.pool.leave(client);
    }

    fn unsubscribe(&self, origin: &Arc<Origin>, uri: &str) -> BoxFuture<()> {
        let pool = self.pool.clone();
        let origin = origin.clone();
        let uri = uri.to_owned();
        Box::pin(async move { pool.unsubscribe(&origin, &uri).await })
    }

    fn let_go(&self) -> BoxFuture<()> {
        self.let_go.store(true, Ordering::Relaxed);
        self.pool.close_when_unused();
        Box::pin(async {})
    }

    fn close(&self) -> BoxFuture<()> {
        let pool = self.pool.clone();
        Box::pin(async move { pool.close().await })
    }
}

impl Drop for LegacyLink {
    fn drop(&mut self) {
        if !*self.let_go.get_mut() {
            self.pool.abandon();
        }
    }
}

/// A session that the upstream no longer knows is opened again, once: it did not carry the call out.
async fn call(pool: &Arc<Pool>, request: &LinkRequest, peer: &Peer) -> Answer {
    let mut session = pool.session(&request.origin).await?;
    let mut outcome = session.call(request, peer).await;
    if matches!(outcome, Err(Failed::SessionLost)) {
        pool.discard(&session);
        session = pool.session(&request.origin).await?;
        pool.session_was_lost(&session);
        outcome = session.call(request, peer).await;
    }
    if outcome.is_ok() && request.method == Method::RESOURCES_SUBSCRIBE {
        pool.keep_watched(&session, &request.origin);
    }
    match outcome {
        Ok(result) => Ok(AnswerBody::Whole(result, session.revision())),
        Err(Failed::Call(error)) => Err(error),
        Err(Failed::SessionLost) => {
            let message =
                format!("upstream `{}` forgets its sessions as soon as they are opened", pool.name());
            Err(CallError::unavailable(message).at(pool.name()))
        }
    }
}
