//! Which lists an upstream announces changes of. Lists that it does not announce are read again: when they expire, or
//! now and then.

use std::time::Duration;

use tokio::time::Instant;
use toolyard_proto::Raw;

use super::Driver;
use crate::bridge;
use crate::catalog::{Definitions, ListKind};
use crate::plan::UpstreamKind;

/// How often at most the lists of an upstream that announces nothing are asked for.
pub(super) const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// How often at most they are asked for where they expire sooner.
const SHORTEST_LOOK: Duration = Duration::from_secs(5);
/// How often at most an announcement is passed on whose change no list shows.
const PASS_ON_AGAIN: Duration = Duration::from_secs(1);

/// The announcements of an upstream about its lists.
#[derive(Default)]
pub(super) struct Announcements {
    /// The lists whose changes a modern upstream has agreed to announce.
    pub(super) acknowledged: Vec<ListKind>,
    /// Announced, and not being read yet.
    pub(super) announced: Vec<ListKind>,
    /// Announced before the current read.
    pub(super) being_read: Vec<ListKind>,
    /// When clients last had an announcement.
    pub(super) passed_on: Option<Instant>,
}

impl Announcements {
    pub(super) fn acknowledge(&mut self, params: Option<&Raw>) {
        let is_agreed = |key: &str| {
            let agreed = params.and_then(|params| params.at(&["notifications", key]));
            agreed.is_some_and(|agreed| agreed.as_str() == "true")
        };
        let key = |kind: &ListKind| match kind {
            ListKind::Tools => "toolsListChanged",
            ListKind::Prompts => "promptsListChanged",
            ListKind::Resources | ListKind::Templates => "resourcesListChanged",
        };
        self.acknowledged = ListKind::ALL.into_iter().filter(|kind| is_agreed(key(kind))).collect();
    }
}

impl Driver<'_> {
    /// Whether its lists come from this process, which knows when they change: packs, and apps with what they
    /// registered.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self.upstream.kind(), UpstreamKind::BuiltIn | UpstreamKind::App)
    }

    /// The lists that the upstream has and whose changes it does not announce.
    pub(super) fn unannounced(&self) -> Vec<ListKind> {
        if self.is_ours() {
            return Vec::new();
        }
        let greeting = self.link.greeting();
        let is_declared = |kind: &ListKind| greeting.capabilities.member(kind.capability()).is_some();
        let is_announced = |kind: &ListKind| {
            if bridge::must_listen(greeting.revision) {
                self.listening.is_some() && self.announcements.acknowledged.contains(kind)
            } else {
                let declared = greeting.capabilities.at(&[kind.capability(), "listChanged"]);
                self.link.announces_changes() && declared.is_some_and(|declared| declared.as_str() == "true")
            }
        };
        ListKind::ALL.into_iter().filter(is_declared).filter(|kind| !is_announced(kind)).collect()
    }

    /// When lists whose changes are not announced are read again: when they expire, or now and then.
    pub(super) fn next_look(&self, definitions: &Definitions) -> Option<Instant> {
        let pause = |kind: ListKind| match definitions.hints(kind).ttl_ms {
            Some(ttl) if ttl > 0 => Duration::from_millis(ttl).clamp(SHORTEST_LOOK, LOOK_AGAIN),
            _ => LOOK_AGAIN,
        };
        let shortest = self.unannounced().into_iter().map(pause).min();
        self.upstream.life.set_unannounced(shortest.is_some());
        shortest.map(|pause| Instant::now() + scattered(pause))
    }

    /// An announced change that does not show in the list is announced to clients too: the list
    /// does not show everything about an entry. A change that shows is announced when the catalog has it.
    pub(super) fn pass_on_announcement(&mut self, unchanged: &[ListKind]) {
        let announced = std::mem::take(&mut self.announcements.being_read);
        let passed_on: Vec<ListKind> =
            unchanged.iter().copied().filter(|kind| announced.contains(kind)).collect();
        let is_due = self.announcements.passed_on.is_none_or(|at| at.elapsed() >= PASS_ON_AGAIN);
        if is_due && !passed_on.is_empty() {
            self.announcements.passed_on = Some(Instant::now());
            self.outlets.listeners.list_announced(self.upstream.id(), &passed_on);
        }
    }
}

/// Spread randomly, so that many upstreams are not asked at one moment.
pub(super) fn scattered(pause: Duration) -> Duration {
    let mut byte = [0];
    // If the system returns no random byte, the pause has its minimum length.
    let _ = getrandom::fill(&mut byte);
    pause + pause / 2 * u32::from(byte[0]) / 255
}
