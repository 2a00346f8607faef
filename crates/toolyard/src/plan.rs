//! The config as written becomes the plan that the gateway is built from.

use std::path::PathBuf;
use std::sync::Arc;

use toolyard_core::plan::Pace;
use toolyard_core::{Plan, Timeouts, UpstreamKind, UpstreamPlan, WallClock};

use crate::config::{Config, UpstreamConfig};
use crate::connect::{Approach, Upstream};
use crate::fingerprint::{fingerprint, fingerprint_of_pack};
use crate::packs::{PackUpstream, Standing, standings};

pub(crate) fn plan(config: &Config, state_dir: Option<PathBuf>, approach: &Approach) -> Plan {
    let upstreams = config.upstreams.on.iter().map(|upstream| upstream_plan(upstream, approach));
    let packs = standings(config).into_iter().filter_map(|standing| pack_plan(standing, approach));
    Plan {
        upstreams: upstreams.chain(packs).collect(),
        profiles: config.profiles.clone(),
        tools: config.tools.clone(),
        transparent: config.transparent,
        names: config.names,
        state_dir,
        pace: pace(config),
        wall: WallClock::default(),
        ..Plan::default()
    }
}

fn pace(config: &Config) -> Pace {
    let usual = Pace::default();
    Pace { debounce: config.debounce.unwrap_or(usual.debounce), pings: config.pings, ..usual }
}

fn upstream_plan(upstream: &UpstreamConfig, approach: &Approach) -> UpstreamPlan {
    let default = Timeouts::MCP_SERVER;
    let connect = Arc::new(Upstream::new(upstream, approach));
    let mut plan = UpstreamPlan::new(upstream.id.clone(), UpstreamKind::Server, connect);
    plan.policy.timeouts = Timeouts { idle: upstream.timeout.unwrap_or(default.idle), ..default };
    plan.policy.roots.clone_from(&upstream.roots);
    plan.policy.pinged = upstream.ping;
    plan.sharing = upstream.sharing;
    plan.fingerprint = fingerprint(upstream);
    plan
}

/// Nothing for a pack that is off.
pub(crate) fn pack_plan(Standing { pack, config }: Standing, approach: &Approach) -> Option<UpstreamPlan> {
    let config = config.ok()?;
    let fingerprint = fingerprint_of_pack(pack.name(), &config);
    let upstream = PackUpstream::new(pack, config, approach.packs());
    let mut plan = UpstreamPlan::new(upstream.id()?, UpstreamKind::BuiltIn, Arc::new(upstream));
    plan.fingerprint = fingerprint;
    Some(plan)
}
