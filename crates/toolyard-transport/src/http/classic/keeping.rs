//! Sessions in which somebody listens are opened again when they are lost, without a call that would do so.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use toolyard_proto::{Method, Notification};

use super::memory::Memory;
use super::pool::Pool;
use super::session::Session;
use crate::{BoxFuture, Origin};

/// How long such a session stays lost before another is opened.
const RELISTEN: Duration = Duration::from_secs(5);
/// The pause where that fails again and again for a client: many may be waiting.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

const CHANGES: [(&str, Method); 3] = [
    ("tools", Method::TOOLS_CHANGED),
    ("prompts", Method::PROMPTS_CHANGED),
    ("resources", Method::RESOURCES_CHANGED),
];

/// The gateway hears of changes in its own session. When that is lost it opens another, and since changes may
/// have been missed meanwhile, everything counts as changed.
pub(super) async fn keep_listening(pool: Arc<Pool>, mut session: Arc<Session>) {
    let origin = pool.parts.offer.origin();
    loop {
        session.scope.ended().await;
        sleep(RELISTEN).await;
        pool.discard(&session);
        if let Ok(Ok(next)) = timeout(pool.parts.connect, pool.session(&origin)).await {
            session = next;
            for (capability, change) in CHANGES {
                if session.greeting().capabilities.member(capability).is_some() {
                    pool.parts.events.notify(None, Notification::new(change, None));
                }
            }
        }
    }
}

/// Who watches something may never call again. When its session is lost another is opened in its place, which
/// has a keeper of its own; unless a call was faster, or nobody watches any more.
/// Boxed, since opening that one begins another of these.
pub(super) fn keep_watching(pool: Arc<Pool>, session: Arc<Session>, origin: Arc<Origin>) -> BoxFuture<()> {
    Box::pin(async move {
        session.scope.ended().await;
        let mut pause = RELISTEN;
        loop {
            sleep(pause).await;
            pool.discard(&session);
            if !pool.lost().get(&session.owner).is_some_and(Memory::has_subscribers) {
                return;
            }
            if let Ok(Ok(_)) = timeout(pool.parts.connect, pool.session(&origin)).await {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    })
}
