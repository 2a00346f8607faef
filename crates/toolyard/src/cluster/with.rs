//! The wiring of a node: the config becomes settings, and the parts of the gateway meet the cluster.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use serde_json::Value;
use toolyard_cluster::ownership::REMEMBERED;
use toolyard_cluster::{
    AuditRecords, Cluster, ClusterSettings, CopiedRecord, Credentials, LEASES_KEPT, LinkContext, NatsSettings,
};
use toolyard_config::{ClusterConfig, ClusterCredentials, Config, LONGEST_LEASE};
use toolyard_core::{Connect, Gateway};
use toolyard_model::{Keys, Nodes, Scope, SharedSecrets};
use toolyard_proto::name::UpstreamId;
use toolyard_serve::{Endpoint, serve_node};

use crate::connect::ConnectContext;

// A node that is silent is fenced before NATS deletes its lease, also with the longest lease.
const _: () = assert!(LEASES_KEPT.as_secs() > LONGEST_LEASE.saturating_mul(REMEMBERED).as_secs());

#[derive(Clone, Debug)]
pub(crate) struct Node {
    cluster: Cluster,
    copies_audit: bool,
}

impl Node {
    /// Opens the listener for other nodes, if the config has a cluster.
    pub(crate) fn open(config: &Config, keys: &Keys) -> Result<Option<Self>> {
        let Some(cluster) = &config.cluster else { return Ok(None) };
        let node = cluster.node.clone().map_or_else(host_name, Ok)?;
        let settings = ClusterSettings {
            node,
            secret: cluster.key.clone().into_bytes(),
            gateway: keys.gateway().to_owned(),
            nats: nats(cluster),
            listen: cluster.listen,
            advertise: cluster.advertise.clone(),
            lease: cluster.lease,
            export: cluster.export.clone(),
            config: super::digest(config),
        };
        Ok(Some(Self { cluster: Cluster::new(settings)?, copies_audit: cluster.audit }))
    }

    /// An upstream that one node runs.
    pub(crate) fn owned(
        &self,
        id: &UpstreamId,
        local: Arc<dyn Connect>,
        context: &ConnectContext,
    ) -> Arc<dyn Connect> {
        self.cluster.owned(id.as_str(), local, &links(context))
    }

    /// The gateways that share the sign-ins at an upstream.
    pub(crate) fn credentials(&self, id: &UpstreamId) -> Option<Arc<dyn SharedSecrets>> {
        self.cluster.credentials(id.as_str())
    }

    pub(crate) fn nodes(&self, scope: &Scope) -> Arc<dyn Nodes> {
        self.cluster.nodes(scope)
    }

    /// Joins the cluster, and reports on it.
    pub(crate) async fn start(
        &self,
        gateway: &Gateway,
        context: &ConnectContext,
        audit: Option<&Path>,
        scope: &Scope,
    ) -> Result<()> {
        let report = self.cluster.clone();
        gateway.report_on("cluster", move || report.status());
        let audit = audit.filter(|_| self.copies_audit).map(records);
        Ok(self.cluster.start(gateway, &links(context), audit, scope).await?)
    }

    /// The cluster as this node sees it.
    pub(crate) fn status(&self) -> Value {
        self.cluster.status()
    }

    /// Serves other nodes.
    pub(crate) fn serve(&self, endpoint: &Arc<Endpoint>, scope: &Scope) {
        let endpoint = endpoint.clone();
        self.cluster.accept(scope, move |stream| Box::pin(serve_node(stream, endpoint.clone())));
    }

    /// Leaves the cluster.
    pub(crate) async fn end(&self) {
        self.cluster.end().await;
    }
}

/// Passes on every record that nodes have copied into NATS, with the name of its node; nothing as the record if the key
/// of the config does not open it.
pub(crate) async fn read_audit(
    cluster: &ClusterConfig,
    follow: bool,
    mut show: impl FnMut(String, Option<Value>) -> bool,
) -> Result<()> {
    let show = |CopiedRecord { node, record }| show(node, record);
    Ok(toolyard_cluster::read_audit(nats(cluster), cluster.key.as_bytes(), follow, show).await?)
}

/// The records of the audit in this file, read as they are asked for.
fn records(path: &Path) -> AuditRecords {
    let (path, reader) = (path.to_owned(), Mutex::new(None));
    Arc::new(move |after, most| {
        let mut reader = reader.lock();
        if reader.is_none() {
            *reader = Some(toolyard_audit::Reader::open(&path).map_err(|error| error.to_string())?);
        }
        let Some(reader) = &*reader else { return Ok(Vec::new()) };
        reader.after(after, most).map_err(|error| error.to_string())
    })
}

fn links(context: &ConnectContext) -> LinkContext {
    let (offer, scope) = context.links();
    LinkContext { offer, scope }
}

fn nats(cluster: &ClusterConfig) -> NatsSettings {
    NatsSettings {
        servers: cluster.nats.clone(),
        credentials: match &cluster.credentials {
            ClusterCredentials::Url => Credentials::None,
            ClusterCredentials::NKey(seed) => Credentials::NKey(seed.clone()),
            ClusterCredentials::File(path) => Credentials::File(path.clone()),
        },
        require_tls: cluster.require_tls,
        ca: cluster.ca.clone(),
        certificate: cluster.certificate.clone(),
        prefix: cluster.prefix.clone(),
        domain: cluster.domain.clone(),
        replicas: cluster.replicas,
    }
}

/// The host name, with the characters that a name in the cluster may have.
fn host_name() -> Result<String> {
    let host = crate::system::host_name().context("this machine has no name; set `node` in [cluster]")?;
    let short = host.split('.').next().unwrap_or_default();
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    Ok(short.chars().map(allowed).collect())
}
