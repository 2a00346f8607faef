//! Records that members leave behind: those of this one that it does not want, and those that no other member takes over.

use super::{Holder, Now, Op, Order, Ownership, Pending, Revision, Seen};

impl Ownership {
    /// Releases what is recorded as ours and not wanted: a claim that was given up may have been carried out late.
    pub(super) fn tick_leftovers(&mut self, now: Now) -> Vec<Order> {
        let is_releasing = |id: &str| {
            self.pending.values().any(|pending| matches!(&pending.op, Op::Release(other, _) if other == id))
        };
        let is_left = |(id, holder): &(&String, &Holder)| {
            holder.member == self.me && !self.wishes.contains_key(*id) && !is_releasing(id)
        };
        let left: Vec<(String, Revision)> =
            self.owners.iter().filter(is_left).map(|(id, holder)| (id.clone(), holder.revision)).collect();
        left.into_iter().map(|(id, revision)| self.order(Op::Release(id, revision), now)).collect()
    }

    /// Forgets members that have been silent for long, and removes the records of what they own if no other member wants it. First they are
    /// fenced, as before a claim.
    pub(super) fn tick_abandoned(&mut self, now: Now) -> Option<Order> {
        if let Some(op) = self.fence_of_silent(now) {
            return Some(self.order(op, now));
        }
        let is_free = |id: &String| {
            let is_releasing =
                |pending: &Pending| matches!(&pending.op, Op::Release(other, _) if other == id);
            !self.wishes.contains_key(id) && !self.pending.values().any(is_releasing)
        };
        let is_gone = |holder: &Holder| {
            let member = self.members.get(&holder.member);
            member.is_some_and(|seen| seen.is_fenced && self.is_old(seen, now))
        };
        let abandoned = self.owners.iter().find(|(id, holder)| is_gone(holder) && is_free(id));
        let (id, revision) = abandoned.map(|(id, holder)| (id.clone(), holder.revision))?;
        Some(self.order(Op::Release(id, revision), now))
    }

    /// For a member that has a lease, and for one that owns something without a lease.
    fn fence_of_silent(&self, now: Now) -> Option<Op> {
        let mut silent = self.members.iter().filter(|(_, seen)| !seen.is_fenced && self.is_old(seen, now));
        let is_unknown =
            |holder: &&Holder| holder.member != self.me && !self.members.contains_key(&holder.member);
        silent.find_map(|(member, seen)| self.fence_of(member, seen, now)).or_else(|| {
            let unknown = self.owners.values().find(is_unknown)?;
            self.fence_of_unknown(&unknown.member)
        })
    }

    fn is_old(&self, seen: &Seen, now: Now) -> bool {
        now.slow >= seen.since + self.terms.remember
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ownership::{Member, Outcome, Sight, Terms};

    fn member(node: &str) -> Member {
        Member { node: node.into(), epoch: "1".into() }
    }

    fn at(seconds: u64) -> Now {
        let time = Duration::from_secs(seconds);
        Now { fast: time, slow: time }
    }

    /// Carries everything out that is asked for, and returns what concerns others.
    fn tick(ownership: &mut Ownership, seconds: u64) -> Vec<Op> {
        let mut asked = Vec::new();
        // The second time with a lease that is valid again.
        for _ in 0..2 {
            for (revision, Order { number, op }) in (1_000 * seconds..).zip(ownership.tick(at(seconds))) {
                ownership.done(number, &Outcome::Done(revision), at(seconds));
                if !matches!(op, Op::CreateLease | Op::RenewLease(_)) {
                    asked.push(op);
                }
            }
        }
        asked
    }

    #[test]
    fn what_a_member_that_is_gone_leaves_is_removed_after_a_while() {
        let mut ownership = Ownership::new(member("a"), Terms::of(Duration::from_secs(30)));
        ownership.saw_member(&member("b"), Sight::Alive, 2, at(0));
        ownership.saw_owner("files", Some(member("b")), 3);
        assert_eq!(tick(&mut ownership, 119), []);
        assert_eq!(tick(&mut ownership, 121), [Op::Fence(member("b"), Some(2))]);
        assert_eq!(tick(&mut ownership, 200), []);
        let asked = tick(&mut ownership, 300);
        assert_eq!(asked.first(), Some(&Op::Release("files".into(), 3)));
        ownership.saw_owner("files", None, 4);
        assert_eq!(tick(&mut ownership, 301), []);
    }

    #[test]
    fn an_owner_without_a_lease_is_fenced_first() {
        let mut ownership = Ownership::new(member("a"), Terms::of(Duration::from_secs(30)));
        ownership.saw_owner("files", Some(member("b")), 3);
        assert_eq!(tick(&mut ownership, 1), [Op::Fence(member("b"), None)]);
    }
}
