//! Upstreams that come and go while the gateway runs: apps that registered, instances that were found. They
//! have the same life cycle as those of the config; only how they are added differs.

mod seat;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use seat::Seat;

use crate::gateway::{DRAIN, Gateway};
use crate::plan::{UpstreamKind, UpstreamPlan};
use crate::upstream::Upstream;
use crate::upstream::state::Phase;

/// How long a disconnected app stays known, so that calls can report that it has disconnected.
const REMEMBERED: Duration = Duration::from_mins(10);
/// How many apps that are gone are known at the same time.
const MOST_GONE: usize = 256;

/// Another upstream has the id already.
#[derive(Clone, Debug)]
pub struct Taken(pub Arc<Upstream>);

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.0.kind() {
            UpstreamKind::Server => "an upstream of the config",
            UpstreamKind::BuiltIn => "a built-in pack",
            UpstreamKind::App => "an app that is registered",
            UpstreamKind::Instance => "an instance that was found",
            UpstreamKind::Node => "an upstream of another node",
        };
        write!(f, "the id `{}` belongs to {what}", self.0.id())
    }
}

impl std::error::Error for Taken {}

impl Gateway {
    /// Adds an upstream. Its definitions are fetched and shown at once.
    pub fn join(&self, plan: UpstreamPlan) -> Result<Arc<Upstream>, Taken> {
        debug_assert!(plan.kind.is_dynamic(), "what the config names comes by a reload");
        let _one_at_a_time = self.changing();
        let old = self.rules();
        let fold = plan.id.fold();
        if let Some(other) = old.upstreams.iter().find(|other| other.id().fold() == fold) {
            return Err(Taken(other.clone()));
        }
        let upstream = self.make(plan, None);
        let forgotten = to_forget(&old.upstreams, SystemTime::now());
        let kept = old.upstreams.iter().filter(|old| !contains(&forgotten, old)).cloned();
        self.adopt(&old, kept.chain([upstream.clone()]).collect());
        self.start_one(&upstream);
        for gone in forgotten {
            self.retire(gone);
        }
        Ok(upstream)
    }

    /// Replaces a dynamic upstream of the same id by `plan`: the old definitions are shown until the new ones have been
    /// received, and calls under way finish on the old one.
    pub fn succeed(&self, before: &Arc<Upstream>, plan: UpstreamPlan) -> Result<Arc<Upstream>, Taken> {
        let one_at_a_time = self.changing();
        let old = self.rules();
        if !contains(&old.upstreams, before) {
            drop(one_at_a_time);
            return self.join(plan);
        }
        let upstream = self.make(plan, before.definitions().map(|old| old.borrowed()));
        let put = |old: &Arc<Upstream>| if Arc::ptr_eq(old, before) { upstream.clone() } else { old.clone() };
        self.adopt(&old, old.upstreams.iter().map(put).collect());
        self.start_one(&upstream);
        self.move_listeners(before, &upstream);
        self.retire(before.clone());
        Ok(upstream)
    }

    /// Forgets a dynamic upstream; calls under way may finish.
    pub fn remove(&self, upstream: &Arc<Upstream>) {
        let _one_at_a_time = self.changing();
        let old = self.rules();
        if !contains(&old.upstreams, upstream) {
            return;
        }
        let rest = old.upstreams.iter().filter(|other| !Arc::ptr_eq(other, upstream)).cloned();
        self.adopt(&old, rest.collect());
        self.retire(upstream.clone());
    }

    fn retire(&self, upstream: Arc<Upstream>) {
        self.scope().spawn(upstream.retire(DRAIN));
    }
}

fn contains(all: &[Arc<Upstream>], one: &Arc<Upstream>) -> bool {
    all.iter().any(|other| Arc::ptr_eq(other, one))
}

/// Apps that have been gone too long, or the longest if there are too many.
fn to_forget(upstreams: &[Arc<Upstream>], now: SystemTime) -> Vec<Arc<Upstream>> {
    let gone_since = |upstream: &Arc<Upstream>| {
        let state = upstream.state();
        let is_gone =
            upstream.kind() == UpstreamKind::App && state.phase == Phase::Dead && !upstream.is_reached_for();
        is_gone.then(|| (state.since, upstream.clone()))
    };
    let mut gone: Vec<(SystemTime, Arc<Upstream>)> = upstreams.iter().filter_map(gone_since).collect();
    gone.sort_by_key(|(since, _)| *since);
    let surplus = gone.len().saturating_sub(MOST_GONE);
    let long = |since: &SystemTime| now.duration_since(*since).is_ok_and(|gone| gone >= REMEMBERED);
    let forget = gone.into_iter().enumerate().filter(|(at, (since, _))| *at < surplus || long(since));
    forget.map(|(_, (_, upstream))| upstream).collect()
}
