//! This gateway as a node of a cluster, if the config has one and the program was built with it.

#[cfg(not(feature = "cluster"))]
mod without;
#[cfg(feature = "cluster")]
mod with;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use http::{Method, StatusCode};
use toolyard_audit::Audit;
use toolyard_core::{Gateway, Route, Who};
use toolyard_model::{ControlResponse, Nodes, Scope};
use toolyard_serve::Endpoint;

use crate::connect::ConnectContext;

#[cfg(feature = "cluster")]
pub(crate) use with::{Node, read_audit};
#[cfg(not(feature = "cluster"))]
pub(crate) use without::{Node, read_audit};

/// Reports on the cluster through the control API.
fn add_routes(gateway: &Gateway, node: Option<Node>) {
    let is_member = node.is_some();
    let summary = "Whether this gateway is a node of a cluster.";
    gateway.add_routes([Route::new(
        Method::GET,
        "/cluster/membership",
        Who::Operator,
        summary,
        move |_, _, _| {
            Box::pin(async move { Ok(ControlResponse::json(&serde_json::json!({ "isMember": is_member }))) })
        },
    )]);
    let summary = "The cluster as this node sees it.";
    gateway.add_routes([Route::new(Method::GET, "/cluster", Who::Operator, summary, move |_, _, _| {
        let status = node.as_ref().map(Node::status);
        Box::pin(async move {
            let no_cluster = || {
                let message = "this gateway is not a node of a cluster; its config has no [cluster]";
                ControlResponse::error(StatusCode::NOT_FOUND, "no_cluster", message)
            };
            status.map(|status| ControlResponse::json(&status)).ok_or_else(no_cluster)
        })
    })]);
}

/// Joins the cluster, and serves its other nodes.
pub(crate) async fn start(
    gateway: &Gateway,
    endpoint: &Arc<Endpoint>,
    context: &ConnectContext,
    audit: Option<&(Arc<Audit>, PathBuf)>,
    scope: &Scope,
) -> Result<()> {
    add_routes(gateway, context.cluster().cloned());
    let Some(node) = context.cluster() else { return Ok(()) };
    node.serve(endpoint, scope);
    node.start(gateway, context, audit.map(|(_, path)| path.as_path()), scope).await
}

/// The other nodes, for the endpoint that serves clients.
pub(crate) fn nodes(node: Option<&Node>, scope: &Scope) -> Option<Arc<dyn Nodes>> {
    node.map(|node| node.nodes(scope))
}

/// Leaves the cluster.
pub(crate) async fn end(node: Option<&Node>) {
    if let Some(node) = node {
        node.end().await;
    }
}

/// Identifies what all nodes of a cluster should have in common: upstreams, profiles and the rules of calls.
#[cfg(feature = "cluster")]
fn digest(config: &toolyard_config::Config) -> String {
    use sha2::{Digest as _, Sha256};
    let mut upstreams: Vec<String> = config
        .upstreams
        .on
        .iter()
        .map(|upstream| format!("{} {}", upstream.id, toolyard_config::fingerprint_on_any_machine(upstream)))
        .collect();
    upstreams.sort();
    let text = format!("{upstreams:?} {:?} {:?} {:?}", config.profiles, config.calls(), config.names);
    data_encoding::HEXLOWER.encode(&Sha256::digest(text)[..8])
}
