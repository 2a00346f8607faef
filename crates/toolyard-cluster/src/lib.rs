//! Several gateways as one. Other gateways (nodes) are found through NATS `JetStream`, which also decides which of them
//! owns what; calls go directly from node to node.
//!
//! Nothing here is on the path of a call to an upstream of this gateway, except that the owner of an upstream looks at
//! its lease before each call. See `docs/design/cluster.md`.

pub mod ownership;
mod approval_store;
mod approvals;
mod audit_copy;
mod catalog;
mod clock;
mod credentials;
mod driver;
mod forward;
mod links;
mod owned;
mod pins;
mod process;
mod reach;
mod record;
mod rival;
mod shared;
mod shares;
mod ship;
mod status;
mod store;
mod tls;
mod tunnel;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolyard_core::{Connect, Gateway};
use toolyard_link::http::Duplex;
use toolyard_model::{BoxFuture, Keys, Nodes, Scope, SharedSecrets, accept_all};

use approval_store::ApprovalStore;
use approvals::{Known, OtherApprovals};
use catalog::{Exports, Keeper};
use credentials::CredentialStore;
use driver::Driver;
use forward::ClusterNodes;
use links::NodeConnect;
use owned::OwnedConnect;
use ownership::{Member, Ownership, Terms};
use pins::{PinKeeper, Unwritten};
use record::NodeRecord;
use shared::Shared;
use shares::ShareKeeper;
use ship::Shipper;
use tls::{Identity, NodeAcceptor};
use tunnel::Tunnels;

pub use audit_copy::{AuditCopyError, CopiedRecord, read_audit};
pub use links::LinkContext;
pub use ship::AuditRecords;
pub use store::{Credentials, LEASES_KEPT, NatsSettings, StoreError};

/// What a node is set up with.
pub struct ClusterSettings {
    /// The name of this node, unique in the cluster.
    pub node: String,
    /// The secret of the cluster, which all nodes know.
    pub secret: Vec<u8>,
    /// The id of this gateway, by which its parked calls are recognised.
    pub gateway: String,
    pub nats: NatsSettings,
    /// Where other nodes connect to this one.
    pub listen: Option<SocketAddr>,
    /// How they reach that address, if it is not the address itself.
    pub advertise: Option<String>,
    pub lease: Duration,
    /// Patterns of the ids of upstreams that other nodes may see.
    pub export: Vec<String>,
    /// A digest of the config, to be compared with that of other nodes.
    pub config: String,
}

impl std::fmt::Debug for ClusterSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterSettings").field("node", &self.node).finish_non_exhaustive()
    }
}

/// Why a node cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("cannot listen on {address} for other nodes")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot make a key for connections between nodes")]
    Key(#[from] rustls::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How many connections may be under way to prove that they are from a node.
const MOST_UNPROVEN: usize = 64;

/// Serves the requests of another node on one connection.
type Serve = Arc<dyn Fn(Box<dyn Duplex>) -> BoxFuture<()> + Send + Sync>;

/// This node. Cheap to clone.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cluster").field(&self.0.shared).finish()
    }
}

struct Inner {
    shared: Arc<Shared>,
    credentials: CredentialStore,
    nats: NatsSettings,
    export: Vec<String>,
    listener: Option<StdListener>,
    serve: OnceLock<Serve>,
    /// What keeps this node in the cluster.
    tasks: Mutex<Option<Scope>>,
}

impl Cluster {
    /// Opens the listener for other nodes. Nothing else happens before [`start`](Self::start).
    pub fn new(settings: ClusterSettings) -> Result<Self, ClusterError> {
        let listener = settings.listen.map(listen).transpose()?;
        let bound = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let address = bound.map(|bound| settings.advertise.unwrap_or_else(|| bound.to_string()));
        let keys = Arc::new(Keys::shared(&settings.secret, &settings.gateway));
        let identity = Identity::new()?;
        let member = Member { node: settings.node, epoch: new_epoch() };
        let own = NodeRecord {
            member: member.clone(),
            address,
            key: identity.public().to_vec(),
            gateway: settings.gateway,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: settings.config,
            process: process::own(),
            started: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            conditions: BTreeMap::new(),
            instances: BTreeMap::new(),
        };
        let ownership = Ownership::new(member, Terms::of(settings.lease));
        let shared = Arc::new(Shared::new(keys, identity, ownership, own));
        Ok(Self(Arc::new(Inner {
            credentials: CredentialStore::new(shared.clone()),
            shared,
            nats: settings.nats,
            export: settings.export,
            listener,
            serve: OnceLock::new(),
            tasks: Mutex::default(),
        })))
    }

    /// An upstream of the config that exactly one node runs. One that is not exported is a matter of this node alone,
    /// and the others do not even learn its name.
    pub fn owned(&self, id: &str, local: Arc<dyn Connect>, context: &LinkContext) -> Arc<dyn Connect> {
        if !Exports::new(&self.0.export).names(id) {
            return local;
        }
        let shared = self.0.shared.clone();
        let cell = shared.cell(id);
        let remote = Arc::new(NodeConnect { id: id.into(), shared, context: context.clone() });
        Arc::new(OwnedConnect { local, remote, cell })
    }

    /// The nodes that share the sign-ins at an upstream: all of them if it is exported.
    pub fn credentials(&self, id: &str) -> Option<Arc<dyn SharedSecrets>> {
        let is_exported = Exports::new(&self.0.export).names(id);
        is_exported.then(|| Arc::new(self.0.credentials.clone()) as Arc<dyn SharedSecrets>)
    }

    /// The other nodes, for the endpoint that serves clients.
    pub fn nodes(&self, scope: &Scope) -> Arc<dyn Nodes> {
        Arc::new(ClusterNodes { shared: self.0.shared.clone(), scope: scope.clone() })
    }

    /// Joins the cluster. Returns at once, whether NATS can be reached or not. The audit is copied into NATS if it is
    /// given.
    pub async fn start(
        &self,
        gateway: &Gateway,
        context: &LinkContext,
        audit: Option<AuditRecords>,
        scope: &Scope,
    ) -> Result<(), ClusterError> {
        let (shared, nats) = (self.0.shared.clone(), self.0.nats.clone());
        let (name, problem) = (shared.node_name(), shared.problem.clone());
        let store = store::Store::connect(nats, &name, shared.keys.clone(), problem).await?;
        let tasks = scope.child();
        *self.tasks() = Some(tasks.clone());
        self.tunnel(&store, &tasks);
        let limits = ShareKeeper {
            shared: shared.clone(),
            gateway: gateway.clone(),
            client: store.client(),
            prefix: self.0.nats.prefix.clone(),
        };
        tasks.spawn(limits.run());
        let kept = ApprovalStore::new(shared.clone(), store.opener());
        gateway.share_approvals(Arc::new(kept.clone()));
        tasks.spawn(kept.clone().run(gateway.clone()));
        let approvals = OtherApprovals {
            shared: shared.clone(),
            client: store.client(),
            prefix: self.0.nats.prefix.as_str().into(),
            known: Known::default(),
            store: kept,
            gateway: gateway.clone(),
        };
        gateway.set_approvals_elsewhere(Arc::new(approvals.clone()));
        tasks.spawn(approvals.run(gateway.clone()));
        let pins = PinKeeper {
            shared: shared.clone(),
            gateway: gateway.clone(),
            opener: store.opener(),
            exports: Exports::new(&self.0.export),
            unwritten: Unwritten::default(),
        };
        gateway.share_pins(pins.unwritten.clone());
        tasks.spawn(pins.run());
        tasks.spawn(self.0.credentials.clone().run(store.opener(), scope.clone(), gateway.clone()));
        if let Some(records) = audit {
            tasks.spawn(self.shipper(&store, records).run());
        }
        tasks.spawn(Driver { shared: shared.clone(), store }.run());
        let keeper = Keeper {
            shared,
            gateway: gateway.clone(),
            context: context.clone(),
            exports: Exports::new(&self.0.export),
            packs: self.0.export.clone(),
            wanted: BTreeSet::new(),
            joined: BTreeMap::new(),
        };
        tasks.spawn(keeper.run());
        Ok(())
    }

    fn shipper(&self, store: &store::Store, records: AuditRecords) -> Shipper {
        let (shared, nats) = (&self.0.shared, &self.0.nats);
        Shipper {
            context: store.context(),
            prefix: nats.prefix.clone(),
            replicas: nats.replicas,
            node: shared.node_name(),
            gateway: shared.state().own.gateway.clone(),
            keys: shared.keys.clone(),
            records,
            shipped: shared.shipped.clone(),
        }
    }

    fn tasks(&self) -> MutexGuard<'_, Option<Scope>> {
        self.0.tasks.lock()
    }

    /// Accepts other nodes until the scope ends, and hands each connection to `serve`. Call it before
    /// [`start`](Self::start).
    pub fn accept(
        &self,
        scope: &Scope,
        serve: impl Fn(Box<dyn Duplex>) -> BoxFuture<()> + Send + Sync + 'static,
    ) {
        let serve = self.0.serve.get_or_init(|| Arc::new(serve)).clone();
        let cloned = self.0.listener.as_ref().and_then(|listener| listener.try_clone().ok());
        let Some(listener) = cloned.and_then(|listener| TcpListener::from_std(listener).ok()) else { return };
        let Some(acceptor) = self.acceptor() else { return };
        let (inner, room) = (scope.clone(), Arc::new(Semaphore::new(MOST_UNPROVEN)));
        scope.spawn(async move {
            let take = |(stream, from): (TcpStream, SocketAddr)| {
                let Ok(permit) = room.clone().try_acquire_owned() else {
                    tracing::debug!(target: "cluster", %from, "refused a connection: {MOST_UNPROVEN} others have not proven yet that they are from a node");
                    return;
                };
                let _ = stream.set_nodelay(true);
                let from = from.to_string();
                inner.spawn(admit(acceptor.clone(), stream, from, serve.clone(), Some(permit)));
            };
            match accept_all("a node", || listener.accept(), take).await {}
        });
    }

    /// Reaches, and is reached by, nodes that cannot be connected to directly.
    fn tunnel(&self, store: &store::Store, scope: &Scope) {
        let shared = &self.0.shared;
        let tunnels = Tunnels::new(store.client(), &self.0.nats.prefix, shared.keys.clone(), scope.clone());
        let tunnels = shared.ways.tunnels.get_or_init(|| tunnels).clone();
        let (Some(serve), Some(acceptor)) = (self.0.serve.get().cloned(), self.acceptor()) else { return };
        let (key, inner) = (shared.identity.public().to_vec(), scope.clone());
        scope.spawn(async move {
            let admit = |stream| {
                inner.spawn(admit(acceptor.clone(), stream, "NATS".to_owned(), serve.clone(), None));
            };
            tunnels.accept(&key, admit).await;
        });
    }

    fn acceptor(&self) -> Option<NodeAcceptor> {
        let acceptor = self.0.shared.identity.acceptor(self.0.shared.trusted.clone());
        acceptor.inspect_err(|error| tracing::error!(%error, "cannot accept nodes")).ok()
    }

    /// The cluster as this node sees it.
    pub fn status(&self) -> Value {
        status::status(&self.0.shared)
    }

    /// Leaves: what this node owns is free at once. Call it when the upstreams have ended.
    pub async fn end(&self) {
        if let Some(tasks) = self.tasks().take() {
            tasks.cancel();
        }
        driver::goodbye(&self.0.shared, &self.0.nats).await;
    }
}

/// Serves a connection if it is from a node that is known. The permit is for the time until that is proven.
async fn admit<S>(
    acceptor: NodeAcceptor,
    stream: S,
    from: String,
    serve: Serve,
    permit: Option<OwnedSemaphorePermit>,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let accepted = acceptor.accept(stream).await;
    drop(permit);
    match accepted {
        Ok((stream, node)) => {
            tracing::debug!(target: "cluster", node, from, "a node has connected");
            serve(Box::new(stream)).await;
        }
        Err(error) => {
            tracing::warn!(target: "cluster", from, %error, "refused a connection that is not from a known node");
        }
    }
}

fn listen(address: SocketAddr) -> Result<StdListener, ClusterError> {
    let failed = |source| ClusterError::Listen { address, source };
    let listener = StdListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

fn new_epoch() -> String {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    HEXLOWER.encode(&bytes)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio::time::timeout;

    use super::*;

    fn settings() -> ClusterSettings {
        ClusterSettings {
            node: "a".into(),
            secret: vec![7; 32],
            gateway: "x".into(),
            nats: NatsSettings {
                servers: Vec::new(),
                credentials: Credentials::None,
                require_tls: false,
                ca: None,
                certificate: None,
                prefix: "toolyard".into(),
                domain: None,
                replicas: 1,
            },
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            advertise: None,
            lease: Duration::from_secs(90),
            export: Vec::new(),
            config: String::new(),
        }
    }

    #[tokio::test]
    async fn connections_that_prove_nothing_are_bounded_and_make_room_when_they_end() {
        let (cluster, scope) = (Cluster::new(settings()).unwrap(), Scope::new());
        let address = cluster.0.listener.as_ref().unwrap().local_addr().unwrap();
        cluster.accept(&scope, |_| Box::pin(async {}));
        let mut silent = Vec::new();
        for _ in 0..MOST_UNPROVEN {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let is_refused = async || {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // A connection that is accepted is closed only after the time for its proof.
            matches!(timeout(Duration::from_secs(5), stream.read(&mut [0])).await, Ok(Ok(0) | Err(_)))
        };
        assert!(is_refused().await);
        drop(silent);
        while is_refused().await {}
    }
}
