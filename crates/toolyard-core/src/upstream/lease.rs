//! Which link a call uses: the link that provides the definitions, its counterpart in the client's era, or a link that
//! belongs to the client alone.

use std::fmt;
use std::sync::Arc;

use toolyard_model::{ClientKey, Link, Origin, Peer};
use toolyard_proto::{CallError, Notification};

use super::counterpart::CounterpartUse;
use super::pool::{self, Held};
use super::state::Phase;
use super::{Lane, Upstream};
use crate::bridge;

/// Holds a link for one call and tracks the call's questions on it.
pub(crate) struct Lease {
    link: Arc<dyn Link>,
    kind: LeaseKind,
}

/// The owner of the link.
enum LeaseKind {
    Definition,
    Counterpart(CounterpartUse),
    /// A link of the client's own.
    Own(Held),
}

impl Lease {
    pub(super) fn own(link: Arc<dyn Link>, held: Held) -> Self {
        Self { link, kind: LeaseKind::Own(held) }
    }

    pub(crate) fn link(&self) -> &Arc<dyn Link> {
        &self.link
    }

    /// Whether subscriptions and settings on the link belong to one client: the client has its own link or session.
    pub(crate) fn is_apart(&self) -> bool {
        matches!(self.kind, LeaseKind::Own(_)) || self.link.per_client()
    }

    /// Waits until the link has ended.
    pub(super) async fn ended(&self, upstream: &Upstream) {
        match &self.kind {
            LeaseKind::Own(held) => held.gone().await,
            LeaseKind::Counterpart(counterpart) => counterpart.of().replaced(&self.link).await,
            LeaseKind::Definition => {
                let is_lost =
                    |phase| matches!(phase, Phase::Retrying | Phase::SignIn | Phase::Dead | Phase::Ended);
                upstream.life.reaches(is_lost).await;
            }
        }
    }

    /// Returns the peer for a call that uses this link. On a client's own link, the questions of the call are counted.
    pub(crate) fn watch(&self, peer: Peer) -> Peer {
        match &self.kind {
            LeaseKind::Own(held) => held.counted(peer),
            _ => peer,
        }
    }

    /// The error of a call whose question was refused because too many are open.
    pub(crate) fn not_asked(&self) -> Option<CallError> {
        match &self.kind {
            LeaseKind::Own(held) => held.not_asked(),
            _ => None,
        }
    }

    /// Marks the call as ended, so that the next call can use the link. If a call is dropped instead, its link is not
    /// given to another client.
    pub(crate) fn done(&self) {
        if let LeaseKind::Own(held) = &self.kind {
            held.done();
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            LeaseKind::Definition => "definition",
            LeaseKind::Counterpart(_) => "counterpart",
            LeaseKind::Own(_) => "own",
        };
        f.debug_struct("Lease").field("kind", &kind).finish_non_exhaustive()
    }
}

impl Upstream {
    /// Leases a link for a call of `origin`; `peer` is the channel back to the caller of that call.
    pub(crate) async fn lease(self: &Arc<Self>, origin: &Origin, peer: &Peer) -> Result<Lease, CallError> {
        let (lane, shared) = self.shared_lease(origin, Some(peer)).await?;
        if origin.client == ClientKey::Gateway || !self.links.pool.is_used(shared.link.as_ref(), origin) {
            return Ok(shared);
        }
        drop(shared);
        Box::pin(pool::lease_from_pool(self, origin, lane, Some(peer))).await
    }

    /// Leases a link for subscriptions and settings of `origin`, which outlive a call.
    pub(super) async fn lease_to_stay(self: &Arc<Self>, origin: &Origin) -> Result<Lease, CallError> {
        let (lane, shared) = self.shared_lease(origin, None).await?;
        if self.keeps_apart(shared.link.as_ref(), &origin.client) {
            drop(shared);
            return Box::pin(pool::lease_from_pool(self, origin, lane, None)).await;
        }
        Ok(shared)
    }

    /// The link that clients of this era share.
    pub(super) async fn shared_lease(
        self: &Arc<Self>,
        origin: &Origin,
        peer: Option<&Peer>,
    ) -> Result<(Lane, Lease), CallError> {
        if self.lane_of(origin) == Lane::Counterpart
            && let Some((link, in_use)) = Box::pin(self.counterpart_for(origin, peer)).await?
        {
            return Ok((Lane::Counterpart, Lease { link, kind: LeaseKind::Counterpart(in_use) }));
        }
        let link = match self.links.live() {
            Some(link) => link,
            None => Box::pin(self.awaited_link()).await?,
        };
        Ok((Lane::Definition, Lease { link, kind: LeaseKind::Definition }))
    }

    /// Whether the subscriptions and settings of this client are separate from those of other clients.
    pub(super) fn keeps_apart(&self, shared: &dyn Link, client: &ClientKey) -> bool {
        let has_no_session = matches!(client, ClientKey::Request(_) | ClientKey::Gateway);
        self.links.pool.is_promised(shared) && !has_no_session
    }

    /// Passes a client's notification on to every link that it uses.
    pub(crate) fn notify(&self, origin: &Arc<Origin>, notification: &Notification) {
        let own = self.links.pool.link_of(&origin.client);
        let links = own.into_iter().chain(self.links.open_in(self.lane_of(origin)));
        for link in links.filter(|link| bridge::takes_notifications(link.greeting().revision)) {
            link.notify(origin, notification.clone());
        }
    }
}
