//! The last events of a session, kept for clients that come back.

use std::collections::VecDeque;

use super::Item;

const MOST_EVENTS: usize = 256;
const MOST_BYTES: usize = 1024 * 1024;

pub(super) struct Kept {
    pub(super) stream: u64,
    pub(super) item: Item,
}

#[derive(Default)]
pub(super) struct Ring {
    kept: VecDeque<Kept>,
    bytes: usize,
}

impl Ring {
    /// The newest event is always kept, however large: it may be the answer that the client comes back for.
    pub(super) fn keep(&mut self, kept: Kept) {
        self.bytes += kept.item.message.len();
        self.kept.push_back(kept);
        while self.kept.len() > 1 && (self.kept.len() > MOST_EVENTS || self.bytes > MOST_BYTES) {
            let gone = self.kept.pop_front();
            self.bytes -= gone.map_or(0, |gone| gone.item.message.len());
        }
    }

    /// The events of a stream after `position`, as far as they are still there.
    pub(super) fn after(&self, stream: u64, position: u64) -> Vec<Item> {
        let wanted = |kept: &&Kept| kept.stream == stream && kept.item.position > position;
        self.kept.iter().filter(wanted).map(|kept| kept.item.clone()).collect()
    }
}
