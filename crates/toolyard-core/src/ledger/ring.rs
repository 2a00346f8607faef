//! The last calls. Each writes to a place of its own, so that calls do not wait for each other here.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::{Ended, Record};

/// How many calls are remembered.
const PLACES: usize = 256;

type RingSlot = Mutex<Option<(usize, Ended)>>;

pub(super) struct Ring {
    places: [RingSlot; PLACES],
    next: AtomicUsize,
}

impl Default for Ring {
    fn default() -> Self {
        Self { places: std::array::from_fn(|_| Mutex::default()), next: AtomicUsize::new(0) }
    }
}

impl Ring {
    pub(super) fn push(&self, ended: Ended) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        // Locked only if as many calls end at the same moment as there are places, or by a reader.
        if let Some(mut place) = self.places[number % PLACES].try_lock() {
            *place = Some((number, ended));
        }
    }

    /// The records, newest first, each with its number, which only grows.
    pub(super) fn newest_first(&self) -> Vec<(usize, Ended)> {
        let read = |place: &RingSlot| place.lock().clone();
        let mut all: Vec<(usize, Ended)> = self.places.iter().filter_map(read).collect();
        all.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
        all
    }

    /// The newest records, as reports show them.
    pub(super) fn records(&self, most: usize) -> Vec<Record> {
        self.newest_first().into_iter().take(most).map(|(_, ended)| ended.record.clone()).collect()
    }
}
