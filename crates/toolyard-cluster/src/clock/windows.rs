//! Time that also passes while the machine sleeps. On Windows, only the wall clock does that.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(super) fn with_sleep() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
