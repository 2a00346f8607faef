//! Turns the config into the plan that the gateway is built from.

use std::path::PathBuf;
use std::sync::Arc;

use toolyard_config::{Config, Missing, StartConfig, UpstreamConfig};
use toolyard_config::{fingerprint, fingerprint_of_pack};
use toolyard_core::pins::PinTerms;
use toolyard_core::plan::Pace;
use toolyard_core::upstream::policy::StartPolicy;
use toolyard_core::{Connect, DisabledUpstream, Plan, Timeouts, UpstreamKind, UpstreamPlan, WallClock};
use toolyard_policy::pin::PinPolicy;
use toolyard_proto::Reason;
use toolyard_proto::name::UpstreamId;

use crate::connect::{ConnectContext, Upstream};
use crate::packs::{PackState, PackUpstream, states};

pub(crate) fn plan(config: &Config, state_dir: Option<PathBuf>, context: &ConnectContext) -> Plan {
    let upstreams = config.upstreams.on.iter().map(|upstream| upstream_plan(upstream, config, context));
    let packs = states(config).into_iter().filter_map(|state| pack_plan(state, context));
    Plan {
        upstreams: upstreams.chain(packs).collect(),
        disabled: disabled(config),
        profiles: config.profiles.clone(),
        lean: config.lean.clone(),
        calls: config.calls(),
        hook_runtime: context.hook_runtime(),
        transparent: config.transparent,
        names: config.names,
        state_dir,
        pace: pace(config),
        wall: WallClock::default(),
        ..Plan::default()
    }
}

/// The upstreams and packs that need a variable or a secret that has no value.
fn disabled(config: &Config) -> Vec<DisabledUpstream> {
    let disabled = |id: UpstreamId, kind, missing: &Missing| DisabledUpstream {
        id,
        kind,
        reason: Reason::new(missing.reason()).with_hint(missing.hint()),
    };
    let upstreams = config
        .upstreams
        .off
        .iter()
        .filter_map(|off| Some(disabled(off.id.clone(), UpstreamKind::Server, off.missing.as_ref()?)));
    let packs = config.packs.iter().filter_map(|pack| {
        Some(disabled(UpstreamId::parse(pack.name).ok()?, UpstreamKind::BuiltIn, pack.missing.as_ref()?))
    });
    upstreams.chain(packs).collect()
}

fn pace(config: &Config) -> Pace {
    let usual = Pace::default();
    Pace { debounce: config.debounce.unwrap_or(usual.debounce), pings: config.pings, ..usual }
}

fn upstream_plan(upstream: &UpstreamConfig, config: &Config, context: &ConnectContext) -> UpstreamPlan {
    let default = Timeouts::MCP_SERVER;
    let connect: Arc<dyn Connect> = Arc::new(Upstream::new(upstream, context));
    // A program runs on one node only; servers can be reached from each.
    let connect = match context.cluster() {
        Some(node) if connect.starts_process() => node.owned(&upstream.id, connect, context),
        _ => connect,
    };
    let mut plan = UpstreamPlan::new(upstream.id.clone(), UpstreamKind::Server, connect);
    plan.policy.timeouts = Timeouts { idle: upstream.timeout.unwrap_or(default.idle), ..default };
    plan.policy.roots.clone_from(&upstream.roots);
    plan.policy.pinged = upstream.ping;
    let StartConfig { timeout, stop_when_idle, lazy } = upstream.start;
    plan.policy.start = StartPolicy { timeout, stop_when_idle, lazy };
    let policy = upstream.pins.map_or_else(|| config.pins.clone(), PinPolicy::all);
    plan.policy.pins = Some(Arc::new(PinTerms { policy, lock: upstream.lock.clone() }));
    plan.policy.trusted = upstream.trusted;
    plan.policy.sampling = upstream.sampling.clone().map(Arc::new);
    plan.sharing = upstream.sharing;
    plan.fingerprint = fingerprint(upstream);
    plan
}

/// `None` for a pack that is off.
pub(crate) fn pack_plan(
    PackState { pack, config }: PackState,
    context: &ConnectContext,
) -> Option<UpstreamPlan> {
    let config = config.ok()?;
    let fingerprint = fingerprint_of_pack(pack.name(), &config);
    let upstream = PackUpstream::new(pack, config, context);
    let mut plan = UpstreamPlan::new(upstream.id()?, UpstreamKind::BuiltIn, Arc::new(upstream));
    plan.fingerprint = fingerprint;
    if let Some(idle) = pack.idle_limit() {
        plan.policy.timeouts.idle = idle;
    }
    Some(plan)
}
