//! Which link a call takes: the one that all share, or one of the client's own.

use std::fmt;
use std::sync::Arc;

use toolyard_model::{ClientKey, Link, Origin};
use toolyard_proto::{CallError, Notification};

use super::Upstream;
use super::pool::{self, Held};
use crate::bridge;

/// A link for as long as a call needs it, with everything that the call does on it.
pub(crate) struct Lease {
    link: Arc<dyn Link>,
    held: Option<Held>,
}

impl Lease {
    fn shared(link: Arc<dyn Link>) -> Self {
        Self { link, held: None }
    }

    pub(super) fn own(link: Arc<dyn Link>, held: Held) -> Self {
        Self { link, held: Some(held) }
    }

    pub(crate) fn link(&self) -> &Arc<dyn Link> {
        &self.link
    }

    /// Whether what lives there is one client's: a link of its own, or a session.
    pub(crate) fn is_apart(&self) -> bool {
        self.held.is_some() || self.link.per_client()
    }

    /// Waits for the end of a link of one's own. That of the one that all share is told by the upstream's state.
    pub(super) async fn ended(&self) {
        match &self.held {
            Some(held) => held.gone().await,
            None => std::future::pending().await,
        }
    }

    /// The call came to its end, so that the next one may have the link. One that is merely dropped is not
    /// trusted with another client's call.
    pub(crate) fn done(&self) {
        if let Some(held) = &self.held {
            held.done();
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("own", &self.held.is_some()).finish_non_exhaustive()
    }
}

impl Upstream {
    /// A link for a call of `origin`.
    pub(crate) async fn lease(self: &Arc<Self>, origin: &Origin) -> Result<Lease, CallError> {
        let shared = self.link().await?;
        if origin.client == ClientKey::Gateway || !self.links.pool.is_used(shared.as_ref()) {
            return Ok(Lease::shared(shared));
        }
        Box::pin(pool::lease(self, origin)).await
    }

    /// A link for what `origin` sets up to outlive a call: a request that stands alone has nowhere else.
    pub(super) async fn lease_to_stay(self: &Arc<Self>, origin: &Origin) -> Result<Lease, CallError> {
        let shared = self.link().await?;
        if self.keeps_apart(shared.as_ref(), &origin.client) {
            return Box::pin(pool::lease(self, origin)).await;
        }
        Ok(Lease::shared(shared))
    }

    /// Whether what this client sets up is kept apart from what others do.
    pub(super) fn keeps_apart(&self, shared: &dyn Link, client: &ClientKey) -> bool {
        let stands_alone = matches!(client, ClientKey::Request(_) | ClientKey::Gateway);
        self.links.pool.is_promised(shared) && !stands_alone
    }

    /// Passes a client's notification on, wherever it has a link.
    pub(crate) fn notify(&self, origin: &Arc<Origin>, notification: &Notification) {
        let links = self.links.pool.link_of(&origin.client).into_iter().chain(self.links.live());
        for link in links.filter(|link| bridge::hears_clients(link.greeting().revision)) {
            link.notify(origin, notification.clone());
        }
    }
}
