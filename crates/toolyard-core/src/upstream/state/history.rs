//! The last steps of an upstream's life with their reasons, and how often each step was made in all.

use std::collections::VecDeque;
use std::time::SystemTime;

use toolyard_proto::Reason;

use super::Phase;

/// How many steps are kept.
pub(super) const MOST: usize = 100;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseChange {
    pub from: Phase,
    pub to: Phase,
    pub at: SystemTime,
    pub reason: Option<Reason>,
}

/// Bounded, so that an upstream that flaps for weeks costs no more than any other.
#[derive(Clone, Debug, Default)]
pub struct History {
    changes: VecDeque<PhaseChange>,
    counts: [[u64; Phase::ALL.len()]; Phase::ALL.len()],
}

impl History {
    pub(super) fn push(&mut self, change: PhaseChange) {
        if self.changes.len() == MOST {
            self.changes.pop_front();
        }
        self.counts[change.from as usize][change.to as usize] += 1;
        self.changes.push_back(change);
    }

    /// The last steps, oldest first.
    pub fn changes(&self) -> impl DoubleEndedIterator<Item = &PhaseChange> + ExactSizeIterator {
        self.changes.iter()
    }

    /// How often each transition was made, for those that ever were.
    pub fn counts(&self) -> impl Iterator<Item = (Phase, Phase, u64)> + '_ {
        let pairs = Phase::ALL.into_iter().flat_map(|from| Phase::ALL.into_iter().map(move |to| (from, to)));
        pairs.map(|(from, to)| (from, to, self.counts[from as usize][to as usize])).filter(|(.., n)| *n > 0)
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }
}
