//! Which gateway owns what, as pure code: leases, claims and fences over a store with compare-and-set.
//!
//! Each gateway that runs is a [`Member`] with one lease, a key of the store that it renews. A record of an owner
//! names the member that owns an id. Three rules keep an id from having two owners:
//!
//! 1. A member serves what it owns only while its lease is valid by its own clock, counted from the moment at which
//!    it *sent* the last renewal that succeeded, less a margin for clocks that differ.
//! 2. A member may be fenced only if its lease has not changed for the whole length of a lease, by the observer's
//!    clock and counted from the moment at which the observer *saw* the last renewal. Fencing replaces exactly that
//!    version of the lease, so it fails if the member has renewed it meanwhile.
//! 3. The record of an owner is replaced only after its member was fenced, and only in the version that was seen.
//!
//! A fenced member can never renew: it begins again under a new name (epoch). Time is an argument, and the store is
//! whatever carries out the [`Op`]s, so that a model can run all of this in virtual time.

mod abandoned;
mod fence;
#[cfg(test)]
mod model;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The wait before a failed operation is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// After this number of intervals without a renewal, the store counts as lost.
const RENEWALS: u32 = 3;
/// For how many lengths of a lease a lost member stays known.
pub const REMEMBERED: u32 = 4;

/// One run of one gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member {
    pub node: String,
    /// Differs in each run, and after each fence.
    pub epoch: String,
}

impl Member {
    /// The key of its lease in the store.
    pub fn key(&self) -> String {
        format!("{}.{}", self.node, self.epoch)
    }

    /// From the key of a lease.
    pub fn from_key(key: &str) -> Option<Self> {
        let (node, epoch) = key.rsplit_once('.')?;
        Some(Self { node: node.to_owned(), epoch: epoch.to_owned() })
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key())
    }
}

/// A version of a key in the store.
pub type Revision = u64;

/// How long leases are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub lease: Duration,
    /// By how much an owner stops earlier than others may take over.
    pub margin: Duration,
    pub renew_every: Duration,
    /// How long a lost member stays known, and how long the record of an id is kept that no other node has.
    pub remember: Duration,
}

impl Terms {
    /// How long an owner may serve after it has sent a renewal.
    fn valid(self) -> Duration {
        self.lease.saturating_sub(self.margin)
    }

    /// With the usual margin and pace for a lease of this length.
    pub fn of(lease: Duration) -> Self {
        let renew_every = (lease / 12).min(Duration::from_secs(5));
        Self { lease, margin: lease / 12, renew_every, remember: lease * REMEMBERED }
    }
}

/// The time of this process, measured twice from an arbitrary start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Never behind the true time that has passed: it counts while the machine sleeps.
    pub fast: Duration,
    /// Never ahead of it.
    pub slow: Duration,
}

/// What the store is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    CreateLease,
    RenewLease(Revision),
    ReadLease,
    /// Marks a member as fenced: in place of this version of its lease, or of none.
    Fence(Member, Option<Revision>),
    /// Writes this member as the owner: in place of this version of the record, or of none.
    Claim(String, Option<Revision>),
    Release(String, Revision),
    EndLease(Revision),
}

/// The result of an [`Op`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Carried out, and the key now has this version.
    Done(Revision),
    /// Not carried out: the key has another version.
    Conflict,
    /// It may have been carried out.
    Unknown,
    /// The answer to [`Op::ReadLease`]: the version, and whether the member is fenced. Nothing if there is no lease.
    Lease(Option<(Revision, bool)>),
}

/// An [`Op`] with the number by which its outcome is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub number: u64,
    pub op: Op,
}

/// What the store shows of another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    Alive,
    Fenced,
    Gone,
}

/// What is known of one id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub member: Member,
    pub revision: Revision,
}

#[derive(Debug)]
enum Lease {
    /// Not known to have been created.
    None,
    /// The version, if it is known.
    Held(Option<Revision>),
    Fenced,
    Ended,
}

#[derive(Debug)]
struct Seen {
    revision: Revision,
    since: Duration,
    is_fenced: bool,
    /// Whether the store did not have this version when the member was to be fenced.
    is_refused: bool,
    /// The member is not fenced before this, by the slow clock.
    fence_at: Duration,
}

impl Seen {
    fn new(revision: Revision, now: Now) -> Self {
        Self { revision, since: now.slow, is_fenced: false, is_refused: false, fence_at: now.slow }
    }
}

#[derive(Debug, Default)]
struct Wish {
    /// The version of the record by which the id is ours.
    fence: Option<Revision>,
    try_at: Duration,
}

#[derive(Debug)]
struct Pending {
    op: Op,
    sent: Duration,
}

/// The ownership of one gateway: what it owns, what others own, and what it asks of the store.
#[derive(Debug)]
pub struct Ownership {
    me: Member,
    terms: Terms,
    lease: Lease,
    /// Until when the lease is valid, by the fast clock.
    valid_until: Duration,
    /// When the last renewal that succeeded was sent, by the fast clock.
    renewed: Option<Duration>,
    renew_at: Duration,
    wishes: BTreeMap<String, Wish>,
    owners: BTreeMap<String, Holder>,
    members: BTreeMap<Member, Seen>,
    pending: BTreeMap<u64, Pending>,
    next: u64,
}

impl Ownership {
    pub fn new(me: Member, terms: Terms) -> Self {
        Self {
            me,
            terms,
            lease: Lease::None,
            valid_until: Duration::ZERO,
            renewed: None,
            renew_at: Duration::ZERO,
            wishes: BTreeMap::new(),
            owners: BTreeMap::new(),
            members: BTreeMap::new(),
            pending: BTreeMap::new(),
            next: 1,
        }
    }

    pub fn me(&self) -> &Member {
        &self.me
    }

    /// Claims `id` as soon as it is free, and keeps it.
    pub fn want(&mut self, id: &str) {
        self.wishes.entry(id.to_owned()).or_default();
    }

    /// Stops serving `id` at once, and frees it for others.
    pub fn release(&mut self, id: &str, now: Now) -> Vec<Order> {
        let Some(Wish { fence: Some(revision), .. }) = self.wishes.remove(id) else { return Vec::new() };
        vec![self.order(Op::Release(id.to_owned(), revision), now)]
    }

    /// Frees everything, for a gateway that stops.
    pub fn end(&mut self, now: Now) -> Vec<Order> {
        let ids: Vec<String> = self.wishes.keys().cloned().collect();
        let mut orders: Vec<Order> = ids.iter().flat_map(|id| self.release(id, now)).collect();
        if let Lease::Held(Some(revision)) = self.lease {
            orders.push(self.order(Op::EndLease(revision), now));
        }
        self.lease = Lease::Ended;
        self.valid_until = Duration::ZERO;
        orders
    }

    /// The number by which this member may serve `id` now: later owners have larger ones.
    pub fn serves(&self, id: &str, now: Now) -> Option<Revision> {
        let fence = self.wishes.get(id)?.fence?;
        (now.fast < self.valid_until).then_some(fence)
    }

    /// Until when everything that is owned may be served, by the fast clock.
    pub fn valid_until(&self) -> Duration {
        self.valid_until
    }

    /// The ids that are ours while the lease is valid, with their numbers.
    pub fn owned(&self) -> impl Iterator<Item = (&str, Revision)> {
        self.wishes.iter().filter_map(|(id, wish)| Some((id.as_str(), wish.fence?)))
    }

    /// Who owns what, as the store showed it last.
    pub fn owners(&self) -> &BTreeMap<String, Holder> {
        &self.owners
    }

    /// Whether the store shows a lease of this member.
    pub fn shows(&self, member: &Member) -> bool {
        self.members.contains_key(member)
    }

    /// Whether another member has not been silent for the length of a lease.
    pub fn is_alive(&self, member: &Member, now: Now) -> bool {
        let is_recent = |seen: &Seen| !seen.is_fenced && now.slow < seen.since + self.terms.lease;
        *member == self.me || self.members.get(member).is_some_and(is_recent)
    }

    /// Renews the lease before its time, because there is more to show with it; at most once a second.
    pub fn renew_soon(&mut self) {
        let earliest = self.renewed.map_or(Duration::ZERO, |renewed| renewed + PAUSE);
        self.renew_at = self.renew_at.min(earliest);
    }

    /// Whether the store has taken a renewal lately. If not, the silence of others may be its own.
    pub fn is_in_touch(&self, now: Now) -> bool {
        self.renewed.is_some_and(|renewed| now.fast < renewed + self.terms.renew_every * RENEWALS)
    }

    /// How long ago the last renewal of a member's lease was seen.
    pub fn silence(&self, member: &Member, now: Now) -> Option<Duration> {
        self.members.get(member).map(|seen| now.slow.saturating_sub(seen.since))
    }

    /// Whether this member has a lease, as far as it knows.
    pub fn has_lease(&self) -> bool {
        matches!(self.lease, Lease::Held(_))
    }

    pub fn is_fenced(&self) -> bool {
        matches!(self.lease, Lease::Fenced)
    }

    /// What was shown may be out of date: everything is shown again. Orders that are not answered yet will not be.
    pub fn forget_view(&mut self, now: Now) {
        self.owners.clear();
        self.members.clear();
        let numbers: Vec<u64> = self.pending.keys().copied().collect();
        for number in numbers {
            self.done(number, &Outcome::Unknown, now);
        }
    }

    /// Begins again after a fence, under a new epoch. Nothing is owned then.
    pub fn begin_again(&mut self, epoch: String) {
        self.me.epoch = epoch;
        self.lease = Lease::None;
        self.valid_until = Duration::ZERO;
        self.pending.clear();
        for wish in self.wishes.values_mut() {
            *wish = Wish::default();
        }
    }

    /// The store shows a lease.
    pub fn saw_member(&mut self, member: &Member, sight: Sight, revision: Revision, now: Now) {
        if *member == self.me {
            if sight == Sight::Fenced {
                self.lost();
            }
            return;
        }
        if sight == Sight::Gone {
            self.members.remove(member);
            return;
        }
        let seen = self.members.entry(member.clone()).or_insert(Seen::new(0, now));
        if revision > seen.revision {
            *seen = Seen { is_fenced: seen.is_fenced, ..Seen::new(revision, now) };
        }
        seen.is_fenced |= sight == Sight::Fenced;
    }

    /// The store shows the record of an owner, or that it was deleted.
    pub fn saw_owner(&mut self, id: &str, holder: Option<Member>, revision: Revision) {
        let before = self.owners.get(id).map_or(0, |holder| holder.revision);
        if revision < before {
            return;
        }
        let is_mine = holder.as_ref() == Some(&self.me);
        match holder {
            Some(member) => drop(self.owners.insert(id.to_owned(), Holder { member, revision })),
            None => drop(self.owners.remove(id)),
        }
        // A record of ours is never taken as proof of ownership: an earlier release may still be under way, and
        // would then delete it. Claiming it again gives it a version that no earlier request can touch.
        if let Some(wish) = self.wishes.get_mut(id)
            && !is_mine
            && wish.fence.is_some_and(|fence| fence < revision)
        {
            *wish = Wish::default();
        }
    }

    /// What is due now.
    pub fn tick(&mut self, now: Now) -> Vec<Order> {
        let mut orders = Vec::new();
        orders.extend(self.tick_lease(now));
        if matches!(self.lease, Lease::Held(Some(_))) && now.fast < self.valid_until {
            orders.extend(self.tick_claims(now));
        }
        orders
    }

    fn tick_lease(&mut self, now: Now) -> Option<Order> {
        let is_own = |op: &Op| matches!(op, Op::CreateLease | Op::RenewLease(_) | Op::ReadLease);
        if now.fast < self.renew_at || self.pending.values().any(|pending| is_own(&pending.op)) {
            return None;
        }
        let op = match self.lease {
            Lease::None => Op::CreateLease,
            Lease::Held(Some(revision)) => Op::RenewLease(revision),
            Lease::Held(None) => Op::ReadLease,
            Lease::Fenced | Lease::Ended => return None,
        };
        Some(self.order(op, now))
    }

    fn tick_claims(&mut self, now: Now) -> Vec<Order> {
        let is_due = |wish: &Wish| wish.fence.is_none() && wish.try_at <= now.slow;
        let due: Vec<String> =
            self.wishes.iter().filter(|(_, wish)| is_due(wish)).map(|(id, _)| id.clone()).collect();
        let mut orders = Vec::new();
        for id in due {
            let Some(op) = self.way_to(&id, now) else { continue };
            if let Some(wish) = self.wishes.get_mut(&id) {
                wish.try_at = now.slow + PAUSE;
            }
            orders.push(self.order(op, now));
        }
        orders.extend(self.tick_leftovers(now));
        orders.extend(self.tick_abandoned(now));
        orders
    }

    /// The next thing to do for an id that is wanted and not owned.
    fn way_to(&self, id: &str, now: Now) -> Option<Op> {
        let is_claiming = |pending: &Pending| matches!(&pending.op, Op::Claim(other, _) if other == id);
        if self.pending.values().any(is_claiming) {
            return None;
        }
        let Some(holder) = self.owners.get(id) else { return Some(Op::Claim(id.to_owned(), None)) };
        let claim = || Some(Op::Claim(id.to_owned(), Some(holder.revision)));
        if holder.member == self.me {
            return claim();
        }
        match self.members.get(&holder.member) {
            Some(seen) if seen.is_fenced => claim(),
            Some(seen) if now.slow < seen.since + self.terms.lease => None,
            Some(seen) => self.fence_of(&holder.member, seen, now),
            None => self.fence_of_unknown(&holder.member),
        }
    }

    /// The store has answered.
    pub fn done(&mut self, number: u64, outcome: &Outcome, now: Now) {
        let Some(Pending { op, sent }) = self.pending.remove(&number) else { return };
        match op {
            Op::CreateLease | Op::RenewLease(_) => self.renewed(outcome, sent, now),
            Op::ReadLease => self.read(outcome, now),
            Op::Fence(member, at) => self.fenced(member, at, outcome, now),
            Op::Claim(id, _) => self.claimed(&id, outcome),
            Op::Release(..) | Op::EndLease(_) => {}
        }
    }

    fn renewed(&mut self, outcome: &Outcome, sent: Duration, now: Now) {
        if matches!(self.lease, Lease::Fenced | Lease::Ended) {
            return;
        }
        if let Outcome::Done(revision) = outcome {
            self.lease = Lease::Held(Some(*revision));
            self.valid_until = sent + self.terms.valid();
            self.renewed = Some(sent);
            self.renew_at = sent + self.terms.renew_every;
        } else {
            self.lease = Lease::Held(None);
            self.renew_at = if *outcome == Outcome::Conflict { now.fast } else { now.fast + PAUSE };
        }
    }

    fn read(&mut self, outcome: &Outcome, now: Now) {
        match outcome {
            _ if matches!(self.lease, Lease::Fenced | Lease::Ended) => {}
            Outcome::Lease(Some((_, true))) => self.lost(),
            Outcome::Lease(Some((revision, false))) => self.lease = Lease::Held(Some(*revision)),
            // A lease that is gone may have been fenced long ago.
            Outcome::Lease(None) if self.valid_until > Duration::ZERO => self.lost(),
            Outcome::Lease(None) => self.lease = Lease::None,
            _ => self.renew_at = now.fast + PAUSE,
        }
    }

    fn claimed(&mut self, id: &str, outcome: &Outcome) {
        let Outcome::Done(revision) = outcome else { return };
        let is_newest = self.owners.get(id).is_none_or(|holder| holder.revision <= *revision);
        if !is_newest {
            return;
        }
        self.owners.insert(id.to_owned(), Holder { member: self.me.clone(), revision: *revision });
        if let Some(wish) = self.wishes.get_mut(id) {
            wish.fence = Some(*revision);
        }
    }

    fn lost(&mut self) {
        self.lease = Lease::Fenced;
        self.valid_until = Duration::ZERO;
        for wish in self.wishes.values_mut() {
            *wish = Wish::default();
        }
    }

    fn order(&mut self, op: Op, now: Now) -> Order {
        let number = self.next;
        self.next += 1;
        self.pending.insert(number, Pending { op: op.clone(), sent: now.fast });
        Order { number, op }
    }
}
