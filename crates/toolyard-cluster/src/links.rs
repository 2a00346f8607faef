//! Upstreams that another node of the cluster owns: connections to that node, for as long as it owns them.

use std::fmt;
use std::io;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use toolyard_core::plan::Condition;
use toolyard_core::{Connect, Connected, NoCounterpart};
use toolyard_link::http::{Authorize, Dial, Duplex, HttpSpec, Unauthorized};
use toolyard_link::{EraPin, Offer, Target, Timeouts, UpstreamTarget, connect, connect_counterpart};
use toolyard_model::{
    Answer, BoxFuture, ClientKey, Greeting, Link, LinkEvent, LinkRequest, Origin, PassedOn, Peer, Principal,
    Scope, Transport,
};
use toolyard_proto::{CallError, Notification, Reason, Revision};

use crate::record::NodeRecord;
use crate::shared::Shared;

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
        let url = format!("http://{name}/mcp/{id}").parse::<Uri>();
        let url = url.map_err(|_| Reason::new(format!("`{name}` is not a name of a node")))?;
        let mut spec = HttpSpec::new(url, HeaderMap::new());
        spec.authorize = Some(Arc::new(AsNode::new(self.shared.gateway.clone())));
        spec.dial = Some(Arc::new(NodeDial { shared: self.shared.clone(), node: node.clone() }));
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
pub(crate) fn watched(
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
struct AsNode {
    /// The id of this gateway.
    gateway: Arc<str>,
    /// The last caller that was named, since most calls of a link are those of one.
    last: Mutex<Option<(Principal, HeaderValue)>>,
}

impl AsNode {
    fn new(gateway: Arc<str>) -> Self {
        Self { gateway, last: Mutex::default() }
    }

    fn header(&self, principal: Principal) -> Option<HeaderValue> {
        let mut last = self.last.lock();
        if let Some((_, header)) = last.as_ref().filter(|(before, _)| is_same(before, &principal)) {
            return Some(header.clone());
        }
        let is_proven = principal != Principal::local();
        let called = Some(self.gateway.clone());
        let named = PassedOn { principal: principal.clone(), is_proven, is_relayed: true, called };
        let header = HeaderValue::try_from(named.to_header()).ok()?;
        *last = Some((principal, header.clone()));
        Some(header)
    }
}

/// Whether both have the same rights, too.
fn is_same(one: &Principal, other: &Principal) -> bool {
    one == other && one.roles() == other.roles() && one.class() == other.class()
}

impl Authorize for AsNode {
    fn authorization(
        &self,
        principal: Option<&Principal>,
    ) -> BoxFuture<Result<Option<HeaderValue>, Unauthorized>> {
        let header = self.header(principal.cloned().unwrap_or_else(Principal::gateway));
        Box::pin(async move { Ok(header) })
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
    node: NodeRecord,
}

impl Dial for NodeDial {
    fn dial(&self) -> BoxFuture<io::Result<Box<dyn Duplex>>> {
        let (shared, node) = (self.shared.clone(), self.node.clone());
        Box::pin(async move { shared.ways.reach(&node, &shared.identity).await })
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

    fn transport(&self) -> Option<Transport> {
        Some(Transport::Tcp)
    }

    fn condition_elsewhere(&self) -> Option<Condition> {
        self.shared.condition_elsewhere(&self.id)
    }

    fn about(&self) -> Option<serde_json::Value> {
        self.shared.about_elsewhere(&self.id)
    }
}

impl NodeConnect {
    fn again(&self) -> Arc<Self> {
        let id = self.id.clone();
        let shared = self.shared.clone();
        let context = self.context.clone();
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

    fn announces_changes(&self) -> bool {
        self.0.announces_changes()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_named_again_when_only_its_rights_have_changed() {
        let named = AsNode::new("g".into());
        let read = |principal: &Principal| {
            let header = named.header(principal.clone()).unwrap();
            PassedOn::from_header(header.as_bytes()).unwrap().principal
        };
        let ann = Principal::token("ann");
        assert_eq!((read(&ann).roles().len(), read(&ann) == ann), (0, true));
        let admin = ann.with_roles(["admin".into()]);
        assert_eq!(read(&admin).roles(), admin.roles());
        assert_eq!(&**read(&ann.with_class("guests")).class(), "guests");
        assert_eq!(read(&Principal::token("bob")), Principal::token("bob"));
        assert!(read(&ann).roles().is_empty());
    }
}
