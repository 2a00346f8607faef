//! The config as written becomes the plan that the gateway is built from.

use std::path::PathBuf;
use std::sync::Arc;

use toolyard_core::plan::Pace;
use toolyard_core::{Plan, Timeouts, UpstreamPlan};

use crate::config::{Config, UpstreamConfig};
use crate::connect::{Approach, Upstream};
use crate::fingerprint::fingerprint;

pub(crate) fn plan(config: &Config, state_dir: Option<PathBuf>, approach: &Approach) -> Plan {
    Plan {
        upstreams: config.upstreams.on.iter().map(|upstream| upstream_plan(upstream, approach)).collect(),
        profiles: config.profiles.clone(),
        transparent: config.transparent,
        names: config.names,
        state_dir,
        pace: Pace::default(),
    }
}

fn upstream_plan(upstream: &UpstreamConfig, approach: &Approach) -> UpstreamPlan {
    let default = Timeouts::MCP_SERVER;
    UpstreamPlan {
        id: upstream.id.clone(),
        connect: Arc::new(Upstream::new(upstream, approach)),
        timeouts: Timeouts { idle: upstream.timeout.unwrap_or(default.idle), ..default },
        roots: upstream.roots.clone(),
        sharing: upstream.sharing,
        fingerprint: fingerprint(&upstream.reach, upstream.era),
    }
}
