//! The gateway itself: what is offered (catalog), the upstreams, the steps that a call passes
//! (pipeline), and how differences between revisions are bridged.

mod approvals;
mod beside_calls;
pub mod pins;
pub mod plan;
pub mod gateway;
mod api;
mod dispatch;
mod call;
pub mod pipeline;
mod bridge;
pub mod catalog;
pub mod upstream;
pub mod greet;
mod hub;
mod keys;
mod lean;
pub mod apps;
pub mod discovery;
pub mod dynamic_upstreams;
pub mod event;
pub mod ledger;
mod levels;
pub mod limit_shares;
mod listen;
mod metrics;
pub mod report;
pub mod redact;
mod session_hooks;
pub mod settings;
pub mod status;
mod tasks;
mod sessions;
mod skills;
mod sleep_watch;
mod tool_switch;
mod yard;

pub use api::{Answered, ApprovalsElsewhere, Controls, Route, Who};
pub use approvals::{SharedApprovals, UnsharedGrant, shorten_arguments};
pub use apps::{AppOptions, Apps};
pub use gateway::{Gateway, Reloaded};
pub use plan::{
    AfterLoss, BegunSignIn, CallRules, Connect, Connected, DisabledUpstream, LimitPlan, NoCounterpart,
    PackWork, Per, Plan, ProfilePlan, RetryPlan, Sharing, Timeouts, ToolRule, ToolSettings, UpstreamKind,
    UpstreamPlan, Validate,
};
pub use sleep_watch::WallClock;
pub(crate) use toolyard_model::Scope;
