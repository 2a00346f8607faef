//! Upstreams in a cluster: one that only its owner may start, and one that another node offers.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use toolyard_core::plan::{AfterLoss, StderrLine};
use toolyard_core::{Connect, Connected, NoCounterpart};
use toolyard_link::http::{Authorize, Dial, Duplex, HttpSpec, Unauthorized};
use toolyard_link::{EraPin, Offer, Target, Timeouts, UpstreamTarget, connect, connect_counterpart};
use toolyard_model::{
    Answer, BoxFuture, ClientKey, Greeting, Link, LinkEvent, LinkRequest, Origin, PassedOn, Peer, Principal,
    Scope,
};
use toolyard_proto::{CallError, Notification, Reason, Revision};

use crate::record::NodeRecord;
use crate::shared::{Cell, Shared};

/// How long a connection waits for an id to have an owner.
const CLAIM: Duration = Duration::from_secs(8);
/// How often a link looks whether its lease is still valid.
const LOOK: Duration = Duration::from_millis(500);
const EVENTS: usize = 64;

/// What links to other nodes are made with.
#[derive(Clone, Debug)]
pub struct LinkContext {
    pub offer: Arc<Offer>,
    pub scope: Scope,
}

/// Reaches an upstream that another node owns.
pub(crate) struct NodeConnect {
    pub(crate) id: Arc<str>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) context: LinkContext,
}

impl fmt::Debug for NodeConnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeConnect").field(&self.id).finish()
    }
}

impl NodeConnect {
    fn target(&self) -> Result<(UpstreamTarget, NodeRecord), Reason> {
        let id = &self.id;
        let Some(node) = self.shared.owner_elsewhere(id) else {
            let reason = Reason::of_upstream(id, "is offered by no other node of the cluster now");
            return Err(reason.with_hint("`toolyard cluster status` shows the nodes and what they own"));
        };
        let name = &node.member.node;
        let Some(address) = node.address.clone() else {
            let reason =
                Reason::of_upstream(id, format!("is on the node `{name}`, which other nodes cannot reach"));
            return Err(reason.with_hint("set `listen` in [cluster] on that node"));
        };
        let url = format!("http://{address}/mcp/{id}").parse::<Uri>();
        let url = url.map_err(|_| Reason::new(format!("`{address}` is not an address")))?;
        let mut spec = HttpSpec::new(url, HeaderMap::new());
        spec.authorize = Some(Arc::new(AsNode));
        spec.dial = Some(Arc::new(NodeDial { shared: self.shared.clone(), address, key: node.key.clone() }));
        let (target, timeouts) = (Target::Http(spec), Timeouts::default());
        Ok((UpstreamTarget { name: id.clone(), target, era: EraPin::Auto, timeouts }, node))
    }

    async fn reach(self: Arc<Self>, known: Option<Revision>, offer: Arc<Offer>) -> Result<Connected, Reason> {
        let (target, node) = self.target()?;
        let connected = connect(&target, known.map(Revision::era), &offer, &self.context.scope).await;
        let connected = connected.map_err(Reason::from)?;
        Ok(self.guard(connected, node))
    }

    async fn reach_counterpart(self: Arc<Self>, offer: Arc<Offer>) -> Result<Connected, NoCounterpart> {
        let (target, node) = self.target().map_err(NoCounterpart::Failed)?;
        let connected = connect_counterpart(&target, &offer, &self.context.scope).await;
        let connected = connected.map_err(|error| {
            if error.means_one_era() {
                NoCounterpart::OneEra(error.into())
            } else {
                NoCounterpart::Failed(error.into())
            }
        })?;
        Ok(self.guard(connected, node))
    }

    /// The link ends when another node becomes the owner.
    fn guard(&self, Connected { link, events }: Connected, node: NodeRecord) -> Connected {
        let link: Arc<dyn Link> = Arc::new(NodeLink(link));
        let (shared, id) = (self.shared.clone(), self.id.clone());
        let mut changes = self.shared.changes.subscribe();
        let over = async move {
            loop {
                let owner = shared.owner_elsewhere(&id);
                // Without a word from the store nothing is known to have changed.
                let is_known = shared.state().in_sync;
                if is_known && owner.is_none_or(|owner| owner.member != node.member) {
                    return Reason::of_upstream(
                        &id,
                        format!("is not on the node `{}` any more", node.member.node),
                    );
                }
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        watched(link, events, over, &self.context.scope)
    }

    fn offer_of(&self, client: &Origin) -> Arc<Offer> {
        let client_info =
            client.client_info.clone().unwrap_or_else(|| self.context.offer.client_info.clone());
        Arc::new(Offer { capabilities: client.capabilities.clone(), client_info })
    }
}

/// Ends a link as soon as `over` gives a reason, and passes its events on until then.
fn watched(
    link: Arc<dyn Link>,
    mut events: mpsc::Receiver<LinkEvent>,
    over: impl Future<Output = Reason> + Send + 'static,
    scope: &Scope,
) -> Connected {
    let (sender, receiver) = mpsc::channel(EVENTS);
    let ending = link.clone();
    scope.spawn(async move {
        let mut over = Box::pin(over);
        loop {
            let event = tokio::select! {
                biased;
                reason = &mut over => {
                    // Calls in flight end too: a suspended owner would never answer them, and a program must not
                    // run longer than its lease.
                    ending.close().await;
                    let _ = sender.send(LinkEvent::Closed(reason)).await;
                    return;
                }
                event = events.recv() => event,
                () = sender.closed() => return,
            };
            let Some(event) = event else { return };
            if sender.send(event).await.is_err() {
                return;
            }
        }
    });
    Connected { link, events: receiver }
}

/// Names the caller to another node. The connection itself proves which node this is.
#[derive(Debug)]
struct AsNode;

impl Authorize for AsNode {
    fn authorization(
        &self,
        principal: Option<&Principal>,
    ) -> BoxFuture<Result<Option<HeaderValue>, Unauthorized>> {
        let principal = principal.cloned().unwrap_or_else(Principal::gateway);
        let is_proven = principal != Principal::local();
        let caller = PassedOn { principal, is_proven, is_relayed: true };
        Box::pin(async move { Ok(HeaderValue::try_from(caller.to_header()).ok()) })
    }

    fn renewed(
        &self,
        _: Option<&Principal>,
        _: Option<HeaderValue>,
        _: StatusCode,
        _: &HeaderMap,
    ) -> BoxFuture<Result<Option<HeaderValue>, Unauthorized>> {
        Box::pin(async { Ok(None) })
    }
}

#[derive(Debug)]
struct NodeDial {
    shared: Arc<Shared>,
    address: String,
    key: Vec<u8>,
}

impl Dial for NodeDial {
    fn dial(&self) -> BoxFuture<io::Result<Box<dyn Duplex>>> {
        let (shared, address, key) = (self.shared.clone(), self.address.clone(), self.key.clone());
        Box::pin(async move {
            let stream = shared.identity.connect(&address, &key).await?;
            Ok(Box::new(stream) as Box<dyn Duplex>)
        })
    }
}

impl Connect for NodeConnect {
    fn connect(&self, known: Option<Revision>) -> BoxFuture<Result<Connected, Reason>> {
        Box::pin(self.again().reach(known, self.context.offer.clone()))
    }

    fn connect_for(&self, known: Option<Revision>, client: &Origin) -> BoxFuture<Result<Connected, Reason>> {
        Box::pin(self.again().reach(known, self.offer_of(client)))
    }

    fn connect_counterpart(&self, client: Option<&Origin>) -> BoxFuture<Result<Connected, NoCounterpart>> {
        let offer = client.map_or_else(|| self.context.offer.clone(), |client| self.offer_of(client));
        Box::pin(self.again().reach_counterpart(offer))
    }

    fn about(&self) -> Option<serde_json::Value> {
        let state = self.shared.state();
        let owner = state.owners.get(&*self.id)?;
        Some(serde_json::json!({ "node": owner.member.node, "kind": owner.kind }))
    }
}

impl NodeConnect {
    fn again(&self) -> Arc<Self> {
        let (id, shared, context) = (self.id.clone(), self.shared.clone(), self.context.clone());
        Arc::new(Self { id, shared, context })
    }
}

/// A link to another node. A call that came from a node is not passed on to a third one: the sender's view of who
/// owns what is out of date, and it will look again.
struct NodeLink(Arc<dyn Link>);

impl Link for NodeLink {
    fn greeting(&self) -> &Greeting {
        self.0.greeting()
    }

    fn call(&self, request: LinkRequest, peer: Peer) -> BoxFuture<Answer> {
        if request.origin.is_relayed {
            return Box::pin(async {
                Err(CallError::unavailable("this node does not own the upstream any more"))
            });
        }
        self.0.call(request, peer)
    }

    fn notify(&self, origin: &Arc<Origin>, notification: Notification) {
        if !origin.is_relayed {
            self.0.notify(origin, notification);
        }
    }

    fn per_client(&self) -> bool {
        self.0.per_client()
    }

    fn hears_changes(&self) -> bool {
        self.0.hears_changes()
    }

    fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    fn is_interactive(&self) -> bool {
        self.0.is_interactive()
    }

    fn answers_pings(&self) -> bool {
        self.0.answers_pings()
    }

    fn forget(&self, client: &ClientKey) {
        self.0.forget(client);
    }

    fn leave(&self, client: &ClientKey) {
        self.0.leave(client);
    }

    fn unsubscribe(&self, origin: &Arc<Origin>, uri: &str) -> BoxFuture<()> {
        self.0.unsubscribe(origin, uri)
    }

    fn let_go(&self) -> BoxFuture<()> {
        self.0.let_go()
    }

    fn close(&self) -> BoxFuture<()> {
        self.0.close()
    }
}

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

    fn hears_changes(&self) -> bool {
        self.link.hears_changes()
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

    fn about(&self) -> Option<serde_json::Value> {
        self.remote.about()
    }

    fn stderr(&self) -> Vec<StderrLine> {
        self.local.stderr()
    }

    fn sign_in(&self, origin: &Arc<Origin>, peer: &Peer) -> Option<BoxFuture<Result<(), CallError>>> {
        self.local.sign_in(origin, peer)
    }

    fn may_need_sign_in(&self) -> bool {
        self.local.may_need_sign_in()
    }

    fn after_loss(&self) -> AfterLoss {
        self.local.after_loss()
    }
}
