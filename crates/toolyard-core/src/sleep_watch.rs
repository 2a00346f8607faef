//! Notices that the machine has slept, or that this process was stopped for a while. Links may have died
//! silently in the meantime, and unreachable upstreams may be reachable now, so everything is checked again.
//!
//! Sleep is seen by the clock on the wall: it has gone further than the wait between two looks. Nothing is
//! asked of the network for it, and no link is judged by anything but itself.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::catalog::Catalog;

/// How often the clock is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// How much further than that it must have gone.
const JUMP: Duration = Duration::from_secs(30);

/// The clock on the wall.
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

/// Looks at the clock until it is dropped.
pub(crate) async fn watch(wall: WallClock, catalog: Arc<Catalog>) {
    let mut before = wall.now();
    loop {
        tokio::time::sleep(LOOK).await;
        let now = wall.now();
        // A clock that is set back shows nothing.
        let passed = now.duration_since(before).unwrap_or_default();
        before = now;
        let slept = passed.saturating_sub(LOOK);
        if slept >= JUMP {
            tracing::info!(target: "upstream", seconds = slept.as_secs(), "the clock has jumped; checking every upstream");
            for upstream in &catalog.rules().upstreams {
                upstream.revalidate();
            }
        }
    }
}
