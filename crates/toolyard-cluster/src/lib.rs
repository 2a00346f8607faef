//! Several gateways as one. Other gateways (nodes) are found through NATS `JetStream`, which also decides which of them
//! owns what; calls go directly from node to node.
//!
//! Nothing here is on the path of a call to an upstream of this gateway, except that the owner of an upstream looks at
//! its lease before each call. See `docs/design/cluster.md`.

pub mod ownership;
mod catalog;
mod clock;
mod driver;
mod forward;
mod links;
mod owned;
mod process;
mod record;
mod shared;
mod status;
mod store;
mod tls;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;
use toolyard_core::{Connect, Gateway};
use toolyard_model::{Keys, Nodes, Scope, accept_all};

use catalog::{Exports, Keeper};
use driver::Driver;
use forward::ClusterNodes;
use links::NodeConnect;
use owned::OwnedConnect;
use ownership::{Member, Ownership, Terms};
use record::NodeRecord;
use shared::Shared;
use tls::Identity;

pub use links::LinkContext;
pub use store::{Credentials, NatsSettings, StoreError};

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

/// This node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cluster(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    nats: NatsSettings,
    export: Vec<String>,
    listener: Option<StdListener>,
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
        };
        let ownership = Ownership::new(member, Terms::of(settings.lease));
        let shared = Arc::new(Shared::new(keys, identity, ownership, own));
        Ok(Self(Arc::new(Inner {
            shared,
            nats: settings.nats,
            export: settings.export,
            listener,
            tasks: Mutex::default(),
        })))
    }

    /// An upstream of the config that exactly one node runs.
    pub fn owned(&self, id: &str, local: Arc<dyn Connect>, context: &LinkContext) -> Arc<dyn Connect> {
        let shared = self.0.shared.clone();
        let cell = shared.cell(id);
        let remote = Arc::new(NodeConnect { id: id.into(), shared, context: context.clone() });
        Arc::new(OwnedConnect { local, remote, cell })
    }

    /// The other nodes, for the endpoint that serves clients.
    pub fn nodes(&self, scope: &Scope) -> Arc<dyn Nodes> {
        Arc::new(ClusterNodes { shared: self.0.shared.clone(), scope: scope.clone() })
    }

    /// Joins the cluster. Returns at once, whether NATS can be reached or not.
    pub async fn start(
        &self,
        gateway: &Gateway,
        context: &LinkContext,
        scope: &Scope,
    ) -> Result<(), ClusterError> {
        let (shared, nats) = (self.0.shared.clone(), self.0.nats.clone());
        let store = store::Store::connect(nats, &shared.node_name(), shared.keys.clone()).await?;
        let tasks = scope.child();
        *self.tasks() = Some(tasks.clone());
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

    fn tasks(&self) -> MutexGuard<'_, Option<Scope>> {
        self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts other nodes until the scope ends, and hands each connection to `serve`.
    pub fn accept<F>(&self, scope: &Scope, serve: impl Fn(TlsStream<TcpStream>) -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let cloned = self.0.listener.as_ref().and_then(|listener| listener.try_clone().ok());
        let Some(listener) = cloned.and_then(|listener| TcpListener::from_std(listener).ok()) else { return };
        let acceptor = self.0.shared.identity.acceptor(self.0.shared.trusted.clone());
        let Ok(acceptor) = acceptor.inspect_err(|error| tracing::error!(%error, "cannot accept nodes"))
        else {
            return;
        };
        let (inner, serve) = (scope.clone(), Arc::new(serve));
        scope.spawn(async move {
            let take = |(stream, from)| {
                let (acceptor, serve) = (acceptor.clone(), serve.clone());
                inner.spawn(async move {
                    match acceptor.accept(stream).await {
                        Ok((stream, node)) => {
                            tracing::debug!(target: "cluster", node, %from, "a node has connected");
                            serve(stream).await;
                        }
                        Err(error) => {
                            tracing::warn!(target: "cluster", %from, %error, "refused a connection that is not from a known node");
                        }
                    }
                });
            };
            match accept_all("a node", || listener.accept(), take).await {}
        });
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
