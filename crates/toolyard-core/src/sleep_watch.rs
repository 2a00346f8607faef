//! Notices that the machine has slept, or that this process was stopped for a while. Links may have died
//! silently in the meantime, and unreachable upstreams may be reachable now, so everything is checked again.
//!
//! Sleep is noticed by the wall clock: more time has passed on it than the wait between two looks. The network is not
//! asked for it, and each link is judged by itself alone.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::catalog::Catalog;

/// How often the clock is read.
const LOOK: Duration = Duration::from_secs(5);
/// How much more time than that must have passed.
const JUMP: Duration = Duration::from_secs(30);

/// The wall clock.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl WallClock {
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    fn now(&self) -> SystemTime {
        (self.0)()
    }
}

impl Default for WallClock {
    fn default() -> Self {
        Self::new(SystemTime::now)
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WallClock")
    }
}

/// Watches the clock until it is dropped.
pub(crate) async fn watch(wall: WallClock, catalog: Arc<Catalog>) {
    let mut before = wall.now();
    loop {
        tokio::time::sleep(LOOK).await;
        let now = wall.now();
        // A clock that was set back proves nothing.
        let passed = now.duration_since(before).unwrap_or_default();
        before = now;
        let slept = passed.saturating_sub(LOOK);
        if slept >= JUMP {
            tracing::info!(target: "upstream", seconds = slept.as_secs(), "the clock jumped; every upstream is checked");
            for upstream in &catalog.rules().upstreams {
                upstream.revalidate();
            }
        }
    }
}
