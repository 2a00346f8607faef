//! Upstreams that exactly one node of the cluster runs: this node if it owns them, and otherwise their owner.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use toolyard_core::plan::{AfterLoss, Condition, StderrLine};
use toolyard_core::{BegunSignIn, Connect, Connected, NoCounterpart};
use toolyard_model::{Answer, BoxFuture, ClientKey, Greeting, Link, LinkRequest, Origin, Peer, Transport};
use toolyard_proto::{CallError, Notification, Reason, Revision};

use crate::links::{NodeConnect, watched};
use crate::shared::{Cell, Shared};

/// How long a connection waits for an id to have an owner.
const CLAIM: Duration = Duration::from_secs(8);
/// How often a link looks whether its lease is still valid.
const LOOK: Duration = Duration::from_millis(500);

/// An upstream that exactly one node of the cluster runs: here if this node owns it, and on its owner otherwise.
pub(crate) struct OwnedConnect {
    pub(crate) local: Arc<dyn Connect>,
    pub(crate) remote: Arc<NodeConnect>,
    pub(crate) cell: Arc<Cell>,
}

impl fmt::Debug for OwnedConnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnedConnect").field(&self.remote.id).finish()
    }
}

/// Where an upstream is.
enum Place {
    Here(u64),
    Elsewhere,
}

async fn place(shared: &Shared, cell: &Cell, id: &str) -> Result<Place, Reason> {
    let deadline = Instant::now() + CLAIM;
    let mut changes = shared.changes.subscribe();
    loop {
        let fence = *cell.fence.borrow();
        if fence > 0 && shared.is_valid() {
            return Ok(Place::Here(fence));
        }
        if shared.owner_elsewhere(id).is_some() {
            return Ok(Place::Elsewhere);
        }
        if timeout_at(deadline, changes.changed()).await.is_err() {
            if let Some(refusal) = shared.state().refusal.clone() {
                let reason = Reason::of_upstream(id, "waits until this gateway is in the cluster");
                return Err(reason.with_hint(refusal));
            }
            let reason = Reason::of_upstream(id, "has no owner in the cluster yet");
            return Err(reason.with_hint("check that NATS is running; `toolyard cluster status` shows it"));
        }
    }
}

impl OwnedConnect {
    fn parts(&self) -> (Arc<Shared>, Arc<Cell>, Arc<NodeConnect>) {
        (self.remote.shared.clone(), self.cell.clone(), self.remote.clone())
    }
}

/// A link of the owner: it serves only as long as the lease is valid and the claim is the same.
fn leased(
    connected: Connected,
    shared: Arc<Shared>,
    cell: Arc<Cell>,
    fence: u64,
    remote: &NodeConnect,
) -> Connected {
    let Connected { link, events } = connected;
    let (id, scope) = (remote.id.clone(), remote.context.scope.clone());
    let lease = Lease { shared, cell, fence };
    let over = {
        let (lease, id) = (lease.clone(), id.clone());
        async move {
            while lease.is_valid() {
                let mut fences = lease.cell.fence.subscribe();
                tokio::select! {
                    changed = fences.changed() => if changed.is_err() { break },
                    () = sleep(LOOK) => {}
                }
            }
            tracing::warn!(target: "cluster", id = %id, fence = lease.fence, "stopped serving an upstream: this node does not own it any more");
            Reason::of_upstream(&id, "was given up: this node could not renew its lease in the cluster")
        }
    };
    let link: Arc<dyn Link> = Arc::new(LeasedLink { link, lease, id });
    watched(link, events, over, &scope)
}

#[derive(Clone)]
struct Lease {
    shared: Arc<Shared>,
    cell: Arc<Cell>,
    fence: u64,
}

impl Lease {
    fn is_valid(&self) -> bool {
        *self.cell.fence.borrow() == self.fence && self.shared.is_valid()
    }
}

struct LeasedLink {
    link: Arc<dyn Link>,
    lease: Lease,
    id: Arc<str>,
}

impl Link for LeasedLink {
    fn greeting(&self) -> &Greeting {
        self.link.greeting()
    }

    fn call(&self, request: LinkRequest, peer: Peer) -> BoxFuture<Answer> {
        if !self.lease.is_valid() {
            let reason = Reason::of_upstream(
                &self.id,
                "was given up: this node could not renew its lease in the cluster",
            );
            return Box::pin(async { Err(CallError::unavailable(reason)) });
        }
        self.link.call(request, peer)
    }

    fn notify(&self, origin: &Arc<Origin>, notification: Notification) {
        self.link.notify(origin, notification);
    }

    fn per_client(&self) -> bool {
        self.link.per_client()
    }

    fn announces_changes(&self) -> bool {
        self.link.announces_changes()
    }

    fn is_shared(&self) -> bool {
        self.link.is_shared()
    }

    fn is_interactive(&self) -> bool {
        self.link.is_interactive()
    }

    fn answers_pings(&self) -> bool {
        self.link.answers_pings()
    }

    fn forget(&self, client: &ClientKey) {
        self.link.forget(client);
    }

    fn leave(&self, client: &ClientKey) {
        self.link.leave(client);
    }

    fn unsubscribe(&self, origin: &Arc<Origin>, uri: &str) -> BoxFuture<()> {
        self.link.unsubscribe(origin, uri)
    }

    fn let_go(&self) -> BoxFuture<()> {
        self.link.let_go()
    }

    fn close(&self) -> BoxFuture<()> {
        self.link.close()
    }
}

impl Connect for OwnedConnect {
    fn connect(&self, known: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        let (shared, cell, remote) = self.parts();
        let local = self.local.clone();
        Box::pin(async move {
            match place(&shared, &cell, &remote.id).await? {
                Place::Here(fence) => {
                    let connected = local.connect(known).await?;
                    Ok(leased(connected, shared, cell, fence, &remote))
                }
                Place::Elsewhere => remote.connect(known).await,
            }
        })
    }

    fn connect_for(&self, known: Option<Revision>, client: &Origin) -> BoxFuture<Result<Connected, Reason>> {
        let (shared, cell, remote) = self.parts();
        let (here, there) = (self.local.connect_for(known, client), self.remote.connect_for(known, client));
        Box::pin(async move {
            match place(&shared, &cell, &remote.id).await? {
                Place::Here(fence) => Ok(leased(here.await?, shared, cell, fence, &remote)),
                Place::Elsewhere => there.await,
            }
        })
    }

    fn connect_counterpart(&self, client: Option<&Origin>) -> BoxFuture<Result<Connected, NoCounterpart>> {
        let (shared, cell, remote) = self.parts();
        let (here, there) = (self.local.connect_counterpart(client), self.remote.connect_counterpart(client));
        Box::pin(async move {
            match place(&shared, &cell, &remote.id).await.map_err(NoCounterpart::Failed)? {
                Place::Here(fence) => Ok(leased(here.await?, shared, cell, fence, &remote)),
                Place::Elsewhere => there.await,
            }
        })
    }

    fn look(&self) -> BoxFuture<Result<(), Reason>> {
        self.local.look()
    }

    fn starts_process(&self) -> bool {
        self.local.starts_process()
    }

    fn longest_attempt(&self) -> Duration {
        self.local.longest_attempt() + CLAIM
    }

    fn condition_elsewhere(&self) -> Option<Condition> {
        self.remote.condition_elsewhere()
    }

    fn about(&self) -> Option<serde_json::Value> {
        self.remote.about()
    }

    fn stderr(&self) -> Vec<StderrLine> {
        self.local.stderr()
    }

    fn sign_in(&self, origin: &Arc<Origin>, peer: &Peer) -> Option<BoxFuture<Result<(), CallError>>> {
        self.local.sign_in(origin, peer)
    }

    fn begin_sign_in(&self) -> Option<BoxFuture<Result<BegunSignIn, Reason>>> {
        self.local.begin_sign_in()
    }

    fn may_need_sign_in(&self) -> bool {
        self.local.may_need_sign_in()
    }

    fn transport(&self) -> Option<Transport> {
        self.local.transport()
    }

    fn after_loss(&self) -> AfterLoss {
        self.local.after_loss()
    }
}
