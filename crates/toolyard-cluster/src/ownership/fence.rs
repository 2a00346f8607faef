//! How a member is fenced whose lease has ended: its lease is replaced in the version that was seen, or as one that the
//! store has no more.
//!
//! The store deletes a lease because of its age without showing that. So if it refuses a fence, either a later version
//! is about to be shown, or there is no lease: the two are tried in turn. A member without a lease cannot renew it, so
//! it can be fenced as well.

use super::{Member, Now, Op, Order, Outcome, Ownership, PAUSE, Revision, Seen};

impl Ownership {
    /// The process of a member is known to have ended, so its lease need not be waited for.
    pub fn is_known_dead(&mut self, member: &Member, now: Now) -> Vec<Order> {
        let Some(seen) = self.members.get(member).filter(|seen| !seen.is_fenced) else { return Vec::new() };
        let op = self.fence_of(member, seen, now);
        op.map(|op| self.order(op, now)).into_iter().collect()
    }

    /// Nothing while that is under way, or shortly after it was refused.
    pub(super) fn fence_of(&self, member: &Member, seen: &Seen, now: Now) -> Option<Op> {
        let is_due = now.slow >= seen.fence_at && !self.is_fencing(member);
        is_due.then(|| Op::Fence(member.clone(), (!seen.is_refused).then_some(seen.revision)))
    }

    /// For a member of which no lease was seen.
    pub(super) fn fence_of_unknown(&self, member: &Member) -> Option<Op> {
        (!self.is_fencing(member)).then(|| Op::Fence(member.clone(), None))
    }

    fn is_fencing(&self, member: &Member) -> bool {
        self.pending.values().any(|pending| matches!(&pending.op, Op::Fence(other, _) if other == member))
    }

    /// The store has answered to a fence in place of this version.
    pub(super) fn fenced(&mut self, member: Member, at: Option<Revision>, outcome: &Outcome, now: Now) {
        match outcome {
            Outcome::Done(revision) => {
                let seen = Seen { is_fenced: true, ..Seen::new(*revision, now) };
                self.members.insert(member, seen);
            }
            Outcome::Conflict => {
                if let Some(seen) = self.members.get_mut(&member) {
                    seen.is_refused = at == Some(seen.revision);
                    seen.fence_at = now.slow + PAUSE;
                }
            }
            Outcome::Unknown | Outcome::Lease(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ownership::{Sight, Terms};

    const LEASE: u64 = 30;

    fn member(node: &str) -> Member {
        Member { node: node.into(), epoch: "1".into() }
    }

    fn at(tenths: u64) -> Now {
        let time = Duration::from_millis(tenths * 100);
        Now { fast: time, slow: time }
    }

    /// `a` wants the program that `b` owns with the version 2 of its lease.
    fn rivals() -> Ownership {
        let mut ownership = Ownership::new(member("a"), Terms::of(Duration::from_secs(LEASE)));
        ownership.want("files");
        ownership.saw_member(&member("b"), Sight::Alive, 2, at(0));
        ownership.saw_owner("files", Some(member("b")), 3);
        ownership
    }

    /// Ten ticks a second until then. Leases of `a` are renewed; all else is answered by `answer`, and is returned with
    /// the seconds.
    fn run(ownership: &mut Ownership, seconds: u64, answer: impl Fn(&Op) -> Outcome) -> Vec<(u64, Op)> {
        let mut asked = Vec::new();
        for tenth in 0..seconds * 10 {
            for Order { number, op } in ownership.tick(at(tenth)) {
                let is_own = matches!(op, Op::CreateLease | Op::RenewLease(_));
                let outcome = if is_own { Outcome::Done(1_000 + tenth) } else { answer(&op) };
                ownership.done(number, &outcome, at(tenth));
                if !is_own {
                    asked.push((tenth / 10, op));
                }
            }
        }
        asked
    }

    #[test]
    fn a_member_whose_lease_the_store_has_forgotten_is_fenced() {
        let mut ownership = rivals();
        let asked = run(&mut ownership, LEASE + 5, |op| match op {
            Op::Fence(_, Some(_)) => Outcome::Conflict,
            _ => Outcome::Done(9_000),
        });
        let fence = |at: Option<Revision>| Op::Fence(member("b"), at);
        let claim = Op::Claim("files".into(), Some(3));
        assert_eq!(asked, [(LEASE, fence(Some(2))), (LEASE + 1, fence(None)), (LEASE + 2, claim)]);
        assert!(!ownership.is_alive(&member("b"), at((LEASE + 5) * 10)));
    }

    #[test]
    fn a_member_does_not_count_as_alive_because_it_could_not_be_fenced() {
        let mut ownership = rivals();
        let asked = run(&mut ownership, LEASE + 10, |_| Outcome::Conflict);
        assert!(!ownership.is_alive(&member("b"), at((LEASE + 10) * 10)));
        assert!((5..=10).contains(&asked.len()), "about once a second: {asked:?}");
    }

    #[test]
    fn a_member_that_has_renewed_its_lease_is_waited_for_again() {
        let mut ownership = rivals();
        run(&mut ownership, LEASE + 3, |_| Outcome::Conflict);
        ownership.saw_member(&member("b"), Sight::Alive, 7, at((LEASE + 3) * 10));
        assert!(ownership.is_alive(&member("b"), at((LEASE + 4) * 10)));
        assert_eq!(
            ownership
                .tick(at((LEASE + 4) * 10))
                .iter()
                .filter(|order| matches!(order.op, Op::Fence(..)))
                .count(),
            0
        );
        let seen = &ownership.members[&member("b")];
        let fence = ownership.fence_of(&member("b"), seen, at((2 * LEASE + 3) * 10));
        assert_eq!(fence, Some(Op::Fence(member("b"), Some(7))));
    }
}
