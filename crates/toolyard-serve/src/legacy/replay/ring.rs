//! The last events of a session, kept for clients that come back.

use std::collections::VecDeque;

use super::Item;

const MOST_EVENTS: usize = 256;
const MOST_BYTES: usize = 1024 * 1024;

pub(super) struct Kept {
    pub(super) stream: u64,
    pub(super) item: Item,
    /// An unread answer.
    pub(super) awaited: bool,
}

#[derive(Default)]
pub(super) struct Ring {
    kept: VecDeque<Kept>,
    bytes: usize,
}

impl Ring {
    /// Adds a message. If there are too many, the oldest is removed; an unread answer is removed only if nothing else
    /// is left. A single message is kept, however large: it may be the answer that the client reconnects for.
    pub(super) fn keep(&mut self, kept: Kept) {
        self.bytes += kept.item.message.len();
        self.kept.push_back(kept);
        while self.kept.len() > 1 && (self.kept.len() > MOST_EVENTS || self.bytes > MOST_BYTES) {
            let oldest = self.kept.iter().position(|kept| !kept.awaited).unwrap_or(0);
            let gone = self.kept.remove(oldest);
            self.bytes -= gone.map_or(0, |gone| gone.item.message.len());
        }
    }

    /// An answer has been read; it may still be asked for again.
    pub(super) fn read(&mut self, stream: u64, position: u64) {
        let is_it = |kept: &&mut Kept| kept.stream == stream && kept.item.position == position;
        if let Some(kept) = self.kept.iter_mut().rev().find(is_it) {
            kept.awaited = false;
        }
    }

    /// Whether it has an unread answer.
    pub(super) fn is_awaited(&self, stream: u64) -> bool {
        self.kept.iter().any(|kept| kept.stream == stream && kept.awaited)
    }

    /// The events of a stream after `position`, as far as they are still there.
    pub(super) fn after(&self, stream: u64, position: u64) -> Vec<Item> {
        let wanted = |kept: &&Kept| kept.stream == stream && kept.item.position > position;
        self.kept.iter().filter(wanted).map(|kept| kept.item.clone()).collect()
    }
}
