//! Which link a call takes: the definition link, the counterpart in the client's era, or one of the client's own.

use std::fmt;
use std::sync::Arc;

use toolyard_model::{ClientKey, Link, Origin, Peer};
use toolyard_proto::{CallError, Notification};

use super::counterpart::CounterpartUse;
use super::pool::{self, Held};
use super::state::Phase;
use super::{Lane, Upstream};
use crate::bridge;

/// A link for as long as a call needs it, with everything that the call does on it.
pub(crate) struct Lease {
    link: Arc<dyn Link>,
    place: Place,
}

/// Where the link belongs.
enum Place {
    Definition,
    Counterpart(CounterpartUse),
    /// A link of the client's own.
    Own(Held),
}

impl Lease {
    pub(super) fn own(link: Arc<dyn Link>, held: Held) -> Self {
        Self { link, place: Place::Own(held) }
    }

    pub(crate) fn link(&self) -> &Arc<dyn Link> {
        &self.link
    }

    /// Whether what is set up on it belongs to one client: a link of its own, or a session.
    pub(crate) fn is_apart(&self) -> bool {
        matches!(self.place, Place::Own(_)) || self.link.per_client()
    }

    /// Waits until the link has ended.
    pub(super) async fn ended(&self, upstream: &Upstream) {
        match &self.place {
            Place::Own(held) => held.gone().await,
            Place::Counterpart(counterpart) => counterpart.of().replaced(&self.link).await,
            Place::Definition => {
                let is_lost =
                    |phase| matches!(phase, Phase::Retrying | Phase::SignIn | Phase::Dead | Phase::Ended);
                upstream.life.reaches(is_lost).await;
            }
        }
    }

    /// The way back of a call that uses this link. On a link of the client's own its questions are counted.
    pub(crate) fn watch(&self, peer: Peer) -> Peer {
        match &self.place {
            Place::Own(held) => held.counted(peer),
            _ => peer,
        }
    }

    /// The call has ended, so that the next one may have the link. A link whose call was dropped is not given to
    /// another client.
    pub(crate) fn done(&self) {
        if let Place::Own(held) = &self.place {
            held.done();
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.place {
            Place::Definition => "definition",
            Place::Counterpart(_) => "counterpart",
            Place::Own(_) => "own",
        };
        f.debug_struct("Lease").field("place", &place).finish_non_exhaustive()
    }
}

impl Upstream {
    /// A link for a call of `origin`; `peer` is the way back of that call.
    pub(crate) async fn lease(self: &Arc<Self>, origin: &Origin, peer: &Peer) -> Result<Lease, CallError> {
        let (lane, shared) = self.shared_lease(origin, Some(peer)).await?;
        if origin.client == ClientKey::Gateway || !self.links.pool.is_used(shared.link.as_ref(), origin) {
            return Ok(shared);
        }
        drop(shared);
        Box::pin(pool::lease(self, origin, lane, Some(peer))).await
    }

    /// A link for what `origin` sets up to outlive a call.
    pub(super) async fn lease_to_stay(self: &Arc<Self>, origin: &Origin) -> Result<Lease, CallError> {
        let (lane, shared) = self.shared_lease(origin, None).await?;
        if self.keeps_apart(shared.link.as_ref(), &origin.client) {
            drop(shared);
            return Box::pin(pool::lease(self, origin, lane, None)).await;
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
            return Ok((Lane::Counterpart, Lease { link, place: Place::Counterpart(in_use) }));
        }
        let link = match self.links.live() {
            Some(link) => link,
            None => Box::pin(self.awaited_link()).await?,
        };
        Ok((Lane::Definition, Lease { link, place: Place::Definition }))
    }

    /// Whether what this client sets up is separate from what others set up.
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
