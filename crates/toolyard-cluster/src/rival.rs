//! Whether another node that runs now has the name of this one. A node does not join while one has: requests for a
//! session are passed on by the name of its node, and a node does not show upstreams of its own name.
//!
//! A lease with the same name may also be left from an earlier run. A running node renews its lease, so this node waits
//! for one renewal before it decides.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ownership::{Member, Now, Revision};
use crate::process;
use crate::record::NodeRecord;
use crate::shared::State;

/// A node that has not renewed its lease for so long has ended. Every node renews it each 5 seconds at least.
const SILENT: Duration = Duration::from_secs(11);

/// What was seen of the leases that have the name of this node.
#[derive(Debug, Default)]
pub(crate) struct Rivals(BTreeMap<Member, Seen>);

#[derive(Debug)]
struct Seen {
    first: Revision,
    last: Revision,
    since: Duration,
}

impl Rivals {
    pub(crate) fn saw(&mut self, member: &Member, revision: Revision, now: Now) {
        let seen = Seen { first: revision, last: revision, since: now.slow };
        let seen = self.0.entry(member.clone()).or_insert(seen);
        seen.last = seen.last.max(revision);
    }

    pub(crate) fn ended(&mut self, member: &Member) {
        self.0.remove(member);
    }
}

/// Whether the name of this node is free.
enum Name<'a> {
    Free,
    /// Another lease has it, and it is not known yet whether its node runs.
    Unclear,
    Taken(&'a NodeRecord),
}

impl State {
    /// Whether this node may be in the cluster. If another one has its name, it leaves, and joins when the name is free.
    pub(crate) fn may_join(&mut self, now: Now) -> bool {
        let has_lease = self.ownership.has_lease();
        if !has_lease && !self.in_sync {
            return false;
        }
        match self.name(has_lease, now) {
            Name::Taken(other) => {
                let refusal = refusal(other);
                self.refuse(refusal, now);
                return false;
            }
            Name::Unclear if !has_lease => return false,
            Name::Unclear | Name::Free => {}
        }
        if self.refusal.take().is_some() {
            tracing::info!(target: "cluster", "the name of this node is free now; joining the cluster");
            self.begin_again();
            self.offers.keys().for_each(|id| self.ownership.want(id));
        }
        true
    }

    fn name(&self, has_lease: bool, now: Now) -> Name<'_> {
        let own = &self.own;
        let is_rival = |node: &&NodeRecord| {
            node.member.node == own.member.node
                && node.key != own.key
                && self.ownership.is_alive(&node.member, now)
                && !node.process.as_ref().is_some_and(process::has_ended)
                // Of two that have joined at the same moment, the earlier one stays.
                && !(has_lease && (own.started, &own.key) < (node.started, &node.key))
        };
        let mut name = Name::Free;
        for node in self.nodes.values().filter(is_rival) {
            match self.rivals.0.get(&node.member) {
                Some(seen) if seen.last > seen.first => return Name::Taken(node),
                Some(seen) if now.slow >= seen.since + SILENT => {}
                _ => name = Name::Unclear,
            }
        }
        name
    }

    fn refuse(&mut self, refusal: String, now: Now) {
        if self.refusal.is_none() {
            tracing::error!(target: "cluster", "{refusal}");
            let orders = self.ownership.end(now);
            self.outbox.extend(orders);
        }
        self.refusal = Some(refusal);
    }
}

fn refusal(other: &NodeRecord) -> String {
    let place = other.address.as_ref().map(|address| format!(" at {address}")).unwrap_or_default();
    format!(
        "another node{place} has the name `{}`, so this gateway has not joined the cluster; set another `node` in [cluster]",
        other.member.node
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::Sight;
    use crate::shared::tests::{at, fresh, record, renew, show_as};

    fn twin() -> Member {
        Member { node: "a".into(), epoch: "2".into() }
    }

    /// The store shows a lease with the name of this node, in this version.
    fn show(state: &mut State, revision: Revision, second: u64) {
        let node = NodeRecord { member: twin(), key: b"twin".to_vec(), ..record("a") };
        show_as(state, node, revision, at(second));
    }

    #[test]
    fn a_node_joins_only_when_everything_was_shown() {
        let shared = fresh();
        let mut state = shared.state();
        assert!(!state.may_join(at(0)));
        state.saw_all();
        assert!(state.may_join(at(0)));
    }

    #[test]
    fn a_node_does_not_join_while_another_one_renews_a_lease_with_its_name() {
        let shared = fresh();
        let mut state = shared.state();
        show(&mut state, 3, 0);
        state.saw_all();
        assert!(!state.may_join(at(1)), "it may run");
        assert_eq!(state.refusal, None);
        show(&mut state, 4, 5);
        assert!(!state.may_join(at(20)), "it runs");
        assert!(
            state.refusal.as_ref().is_some_and(|why| why.contains("the name `a`")),
            "{:?}",
            state.refusal
        );
        // Its lease ends.
        assert!(state.may_join(at(36)));
        assert_eq!(state.refusal, None);
    }

    #[test]
    fn a_lease_that_an_earlier_run_left_behind_delays_a_node_for_eleven_seconds_only() {
        let shared = fresh();
        let mut state = shared.state();
        show(&mut state, 3, 0);
        state.saw_all();
        assert!(!state.may_join(at(10)));
        assert!(state.may_join(at(11)));
        assert_eq!(state.refusal, None);
    }

    #[test]
    fn of_two_nodes_that_join_at_the_same_moment_the_later_one_leaves_and_returns_when_the_name_is_free() {
        for (started, stays) in [(1, true), (3, false)] {
            let shared = fresh();
            let mut state = shared.state();
            state.own.started = started;
            state.saw_all();
            assert!(state.may_join(at(0)));
            renew(&mut state, 1, at(0));
            state.ownership.want("one");
            for revision in [2, 5] {
                let node = NodeRecord { member: twin(), key: b"twin".to_vec(), started: 2, ..record("a") };
                show_as(&mut state, node, revision, at(1));
            }
            assert_eq!(state.may_join(at(2)), stays);
            assert_eq!(state.ownership.has_lease(), stays);
            state.ownership.saw_member(&twin(), Sight::Gone, 6, at(3));
            state.ended(&twin());
            assert!(state.may_join(at(3)));
            assert_eq!(state.own.member.epoch == "1", stays, "a node returns under a new epoch");
        }
    }
}
