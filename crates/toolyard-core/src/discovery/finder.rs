//! The tools of every way of finding apps and instances: the gateway, its apps, and how to connect to an endpoint.

use std::sync::Arc;

use toolyard_proto::name::UpstreamId;

use super::DiscoveredEndpoint;
use crate::apps::{Dial, Source};
use crate::plan::Connect;
use crate::{Apps, Gateway};

/// Makes the connection to an MCP server at an endpoint.
pub type ConnectTo = Arc<dyn Fn(&UpstreamId, &DiscoveredEndpoint) -> Arc<dyn Connect> + Send + Sync>;

/// Cheap to clone.
#[derive(Clone)]
pub struct Finder {
    pub(super) gateway: Gateway,
    pub(super) apps: Apps,
    connect_to: ConnectTo,
}

impl Finder {
    pub fn new(gateway: &Gateway, apps: &Apps, connect_to: ConnectTo) -> Self {
        Self { gateway: gateway.clone(), apps: apps.clone(), connect_to }
    }

    pub(super) fn dial(&self, id: &UpstreamId, endpoint: DiscoveredEndpoint, source: Source) -> Dial {
        let mcp = (self.connect_to)(id, &endpoint);
        Dial { endpoint, mcp, description: None, about: None, source }
    }
}

impl std::fmt::Debug for Finder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Finder")
    }
}
