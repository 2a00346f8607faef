//! Serialises subscribing to a resource and unsubscribing from it, so that the two cannot overtake each
//! other. Different resources do not wait for each other, except that the number under way is bounded.

use std::hash::{BuildHasher, RandomState};

use tokio::sync::{Mutex, MutexGuard};

/// How many are under way at once.
const LANES: usize = 64;

pub(super) struct KeyedLock {
    lanes: [Mutex<()>; LANES],
    choice: RandomState,
}

impl Default for KeyedLock {
    fn default() -> Self {
        Self { lanes: std::array::from_fn(|_| Mutex::default()), choice: RandomState::new() }
    }
}

impl KeyedLock {
    /// Waits until no other task subscribes to this resource or unsubscribes from it.
    pub(super) async fn lock(&self, uri: &str) -> MutexGuard<'_, ()> {
        let lanes = u64::try_from(LANES).unwrap_or(1);
        let lane = usize::try_from(self.choice.hash_one(uri) % lanes).unwrap_or_default();
        self.lanes[lane].lock().await
    }
}
