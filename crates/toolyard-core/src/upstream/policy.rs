//! How an upstream is treated: settings that can change while it runs. None of them is part of its identity, so
//! a change takes effect in place and no connection or process is restarted.

use std::sync::Arc;
use std::time::Duration;

use crate::pins::PinTerms;
use crate::plan::{Connect, Pace, SamplingPlan, Timeouts, UpstreamKind, UpstreamPlan};

/// The settings of one upstream that may change at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamPolicy {
    /// How long a call may take.
    pub timeouts: Timeouts,
    /// The answer to `roots/list` outside of any call.
    pub roots: Vec<String>,
    /// Whether the upstream is pinged regularly.
    pub pinged: bool,
    pub start: StartPolicy,
    /// How changes of its tools are treated; they are not recorded if not given.
    pub pins: Option<Arc<PinTerms>>,
    /// Whether rules may permit something because of its own annotations.
    pub trusted: bool,
    /// The model that answers its sampling requests for clients without one.
    pub sampling: Option<Arc<SamplingPlan>>,
}

/// When the process or connection of an upstream is started and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartPolicy {
    /// How long its start may take, if not the default. The connector applies it.
    pub timeout: Option<Duration>,
    /// How long it may be idle before it is stopped; never if not given.
    pub stop_when_idle: Option<Duration>,
    /// Whether it is started by its first call only, where its definitions are stored.
    pub lazy: bool,
}

impl UpstreamPolicy {
    /// The defaults for an upstream of this kind.
    pub fn of(kind: UpstreamKind) -> Self {
        let is_server = matches!(kind, UpstreamKind::Server | UpstreamKind::Node);
        let timeouts = if is_server { Timeouts::MCP_SERVER } else { Timeouts::LOCAL };
        Self {
            timeouts,
            roots: Vec::new(),
            pinged: kind.is_dynamic() && kind != UpstreamKind::Node,
            start: StartPolicy::default(),
            pins: None,
            trusted: kind == UpstreamKind::BuiltIn,
            sampling: None,
        }
    }
}

/// Everything about an upstream that a reload replaces at once.
pub(crate) struct LivePolicy {
    pub(crate) own: UpstreamPolicy,
    pub(crate) pace: Pace,
    pub(crate) connect: Arc<dyn Connect>,
}

impl LivePolicy {
    pub(super) fn new(plan: &UpstreamPlan, pace: Pace) -> Self {
        Self { own: plan.policy.clone(), pace, connect: plan.connect.clone() }
    }
}
