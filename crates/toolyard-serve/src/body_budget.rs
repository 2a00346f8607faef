//! How many bytes of request bodies may be in memory at once, over all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that are left of the budget.
#[derive(Debug)]
pub(crate) struct BodyBudget(AtomicUsize);

impl BodyBudget {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(bytes)))
    }

    /// An empty reservation, to be extended as a body arrives.
    pub(crate) fn reserve(self: &Arc<Self>) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }
}

/// The bytes that one request holds; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<BodyBudget>,
    bytes: usize,
}

impl Reservation {
    /// Reserves further bytes. Returns false if the budget does not have them.
    pub(crate) fn extend(&mut self, bytes: usize) -> bool {
        let take = |left: usize| left.checked_sub(bytes);
        let taken = self.budget.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        self.bytes += if taken { bytes } else { 0 };
        taken
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_bytes_can_be_reserved_again() {
        let budget = BodyBudget::new(10);
        let (mut one, mut two) = (budget.reserve(), budget.reserve());
        assert!(one.extend(6) && two.extend(4) && !two.extend(1));
        drop(one);
        assert!(two.extend(6) && !two.extend(1));
        drop(two);
        assert!(budget.reserve().extend(10));
    }
}
