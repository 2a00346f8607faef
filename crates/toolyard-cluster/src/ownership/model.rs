//! A model of ownership: several members over one store, in virtual time, with messages that are late, lost or carried
//! out without an answer, processes that are stopped and continued, machines that sleep, crashes, nodes that stop for
//! ever, leases that the store deletes because of their age, and clocks that run at different speeds. At every step it checks that no id has two owners. Without losses and
//! delays it checks how soon an id has another owner.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use super::{Member, Now, Op, Order, Outcome, Ownership, Revision, Sight, Terms};

const SCHEDULES: u64 = 100_000;
/// How many of those without losses, in which time is looked at more closely.
const CALM_SCHEDULES: u64 = 300;
/// How long one schedule runs, in virtual milliseconds.
const LENGTH: u64 = 200_000;
const LEASE: u64 = 30_000;
const TICK: u64 = 2_500;
/// As often as in the program, for how soon something happens.
const SHORT_TICK: u64 = 250;
const RENEWAL: u64 = LEASE / 12;
/// When the store deletes a lease, and shows that to no one.
const FORGOTTEN: u64 = LEASE * 3 / 2;
/// When a node that never continues would continue.
const NEVER: u64 = u64::MAX;

/// A small generator, so that a schedule is repeated exactly by its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Mostly short, sometimes very long.
    fn delay(&mut self) -> u64 {
        if self.one_in(20) { self.below(60_000) } else { 1 + self.below(50) }
    }
}

#[derive(Clone)]
enum Value {
    Alive,
    Fenced,
    Owner(Member),
}

/// The store: versions by key, compare-and-set.
#[derive(Default)]
struct Store {
    keys: BTreeMap<String, (Revision, Option<Value>)>,
    last: Revision,
    /// When each lease was written.
    written: BTreeMap<String, u64>,
}

impl Store {
    /// Deletes the leases that are old.
    fn forget(&mut self, now: u64) {
        let Self { keys, written, .. } = self;
        written.retain(|key, at| {
            let is_kept = *at + FORGOTTEN > now;
            if !is_kept {
                keys.remove(key);
            }
            is_kept
        });
    }

    fn set(&mut self, key: &str, expected: Option<Revision>, value: Option<Value>) -> Outcome {
        let current =
            self.keys.get(key).map_or(0, |(revision, value)| if value.is_some() { *revision } else { 0 });
        if current != expected.unwrap_or(0) {
            return Outcome::Conflict;
        }
        self.last += 1;
        self.keys.insert(key.to_owned(), (self.last, value));
        Outcome::Done(self.last)
    }

    fn apply(&mut self, me: &Member, op: &Op) -> (Outcome, Option<String>) {
        let owner = || Some(Value::Owner(me.clone()));
        let (key, outcome) = match op {
            Op::CreateLease => (me.key(), self.set(&me.key(), None, Some(Value::Alive))),
            Op::RenewLease(at) => (me.key(), self.set(&me.key(), Some(*at), Some(Value::Alive))),
            Op::ReadLease => {
                let lease = self.keys.get(&me.key()).and_then(|(revision, value)| {
                    value.as_ref().map(|value| (*revision, matches!(value, Value::Fenced)))
                });
                return (Outcome::Lease(lease), None);
            }
            Op::Fence(member, at) => (member.key(), self.set(&member.key(), *at, Some(Value::Fenced))),
            Op::Claim(id, at) => (id.clone(), self.set(id, *at, owner())),
            Op::Release(id, at) => (id.clone(), self.set(id, Some(*at), None)),
            Op::EndLease(at) => (me.key(), self.set(&me.key(), Some(*at), None)),
        };
        let changed = matches!(outcome, Outcome::Done(_)).then_some(key);
        (outcome, changed)
    }
}

enum Event {
    Tick(usize, u32),
    /// An order reaches the store; its answer may be lost.
    Arrive {
        node: usize,
        life: u32,
        me: Member,
        order: Order,
        is_answered: bool,
    },
    Answer {
        node: usize,
        life: u32,
        number: u64,
        outcome: Outcome,
    },
    /// The watch of a node shows a key.
    Show {
        node: usize,
        life: u32,
        key: String,
        revision: Revision,
        value: Option<Value>,
    },
    Mischief,
}

struct Node {
    life: u32,
    ownership: Ownership,
    /// Events are put off until then.
    stopped_until: u64,
    /// Nothing reaches the store, and nothing comes from it.
    cut_until: u64,
    /// Thousandths by which the clocks run too fast.
    drift: i64,
    slept: u64,
    /// The watch shows keys in order.
    shown_until: u64,
}

impl Node {
    fn is_there(&self) -> bool {
        self.stopped_until != NEVER
    }

    fn now(&self, time: u64) -> Now {
        let ran = |time: u64| {
            let time = i64::try_from(time).unwrap();
            Duration::from_millis(u64::try_from(time + time * self.drift / 1_000).unwrap())
        };
        Now { fast: ran(time), slow: ran(time - self.slept) }
    }
}

struct World {
    random: Random,
    time: u64,
    store: Store,
    nodes: Vec<Node>,
    ids: Vec<String>,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    next: u64,
    lease: u64,
    /// Messages are neither lost nor late, and nothing fails of itself.
    is_calm: bool,
}

impl World {
    fn calm(seed: u64) -> Self {
        let mut world = Self::new(seed, false);
        world.is_calm = true;
        world.events.retain(|_, event| !matches!(event, Event::Mischief));
        world.queue.retain(|Reverse((_, number))| world.events.contains_key(number));
        world
    }

    fn new(seed: u64, impatient: bool) -> Self {
        let mut random = Random(seed);
        let count = 2 + usize::try_from(random.below(3)).unwrap();
        let ids = (0..=random.below(2)).map(|id| format!("id{id}")).collect();
        let mut world = Self {
            random,
            time: 0,
            store: Store::default(),
            nodes: Vec::new(),
            ids,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            next: 0,
            lease: LEASE,
            is_calm: false,
        };
        for node in 0..count {
            // In the broken variant one member waits for less than others rely on.
            let lease = if impatient && node == 0 { LEASE / 3 } else { world.lease };
            let drift = i64::try_from(world.random.below(21)).unwrap() - 10;
            let ownership = world.ownership(node, 0, lease);
            world.nodes.push(Node {
                life: 0,
                ownership,
                stopped_until: 0,
                cut_until: 0,
                drift,
                slept: 0,
                shown_until: 0,
            });
            world.at(1, Event::Tick(node, 0));
        }
        world.at(500, Event::Mischief);
        world
    }

    fn ownership(&self, node: usize, life: u32, lease: u64) -> Ownership {
        let me = Member { node: format!("n{node}"), epoch: life.to_string() };
        let mut ownership = Ownership::new(me, Terms::of(Duration::from_millis(lease)));
        self.ids.iter().for_each(|id| ownership.want(id));
        ownership
    }

    fn at(&mut self, after: u64, event: Event) {
        self.next += 1;
        self.queue.push(Reverse((self.time + after, self.next)));
        self.events.insert(self.next, event);
    }

    fn run(&mut self) -> Result<u64, String> {
        let mut grants = 0;
        while let Some(served) = self.step()? {
            grants += served;
        }
        Ok(grants)
    }

    /// The next event, and then how many ids have an owner. Nothing at the end.
    fn step(&mut self) -> Result<Option<u64>, String> {
        let Some(Reverse((time, number))) = self.queue.pop().filter(|Reverse((time, _))| *time <= LENGTH)
        else {
            return Ok(None);
        };
        self.time = time;
        let event = self.events.remove(&number).expect("each event is queued once");
        self.happen(event);
        self.check().map(Some)
    }

    /// Goes on until `is_so`, and returns the time at which it was.
    fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> u64 {
        while !is_so(self) {
            assert!(self.step().unwrap().is_some(), "it never comes to this: {what}");
        }
        self.time
    }

    fn owner_of(&self, id: &str) -> Option<usize> {
        self.nodes
            .iter()
            .position(|node| node.is_there() && node.ownership.serves(id, node.now(self.time)).is_some())
    }

    /// How many ids have an owner. Two owners of one id are an error.
    fn check(&self) -> Result<u64, String> {
        let mut served = 0;
        for id in &self.ids {
            let is_owner = |node: &&Node| node.ownership.serves(id, node.now(self.time)).is_some();
            let owners: Vec<String> =
                self.nodes.iter().filter(is_owner).map(|node| node.ownership.me().key()).collect();
            if owners.len() > 1 {
                return Err(format!("{id} has the owners {owners:?} at {} ms", self.time));
            }
            served += owners.len() as u64;
        }
        Ok(served)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Mischief => self.mischief(),
            Event::Arrive { node, life, me, order, is_answered } => {
                self.arrive(node, life, &me, &order, is_answered);
            }
            Event::Tick(node, life) => {
                if let Some(event) = self.put_off(node, life, Event::Tick(node, life)) {
                    drop(event);
                    let now = self.nodes[node].now(self.time);
                    let orders = self.nodes[node].ownership.tick(now);
                    self.send(node, orders);
                    if self.nodes[node].ownership.is_fenced() {
                        self.nodes[node].life += 1;
                        let life = self.nodes[node].life;
                        self.nodes[node].ownership.begin_again(life.to_string());
                    }
                    let life = self.nodes[node].life;
                    self.at(if self.is_calm { SHORT_TICK } else { TICK }, Event::Tick(node, life));
                }
            }
            Event::Answer { node, life, number, outcome } => {
                let again = Event::Answer { node, life, number, outcome: outcome.clone() };
                if self.put_off(node, life, again).is_some() {
                    let now = self.nodes[node].now(self.time);
                    self.nodes[node].ownership.done(number, &outcome, now);
                }
            }
            Event::Show { node, life, key, revision, value } => {
                let again = Event::Show { node, life, key: key.clone(), revision, value: value.clone() };
                if self.put_off(node, life, again).is_some() {
                    self.show(node, &key, revision, value);
                }
            }
        }
    }

    /// Nothing if the node is stopped, and the event comes later, or if it belongs to an earlier life.
    fn put_off(&mut self, node: usize, life: u32, event: Event) -> Option<Event> {
        let Node { life: now, stopped_until, .. } = self.nodes[node];
        // What the watch shows and the clock do not end with a fence, only with the process.
        let is_over = matches!(event, Event::Answer { .. }) && life != now;
        if is_over || stopped_until == NEVER {
            return None;
        }
        if stopped_until > self.time {
            self.at(stopped_until - self.time, event);
            return None;
        }
        Some(event)
    }

    fn show(&mut self, node: usize, key: &str, revision: Revision, value: Option<Value>) {
        let now = self.nodes[node].now(self.time);
        let ownership = &mut self.nodes[node].ownership;
        match (Member::from_key(key), value) {
            (Some(member), Some(Value::Fenced)) => {
                ownership.saw_member(&member, Sight::Fenced, revision, now);
            }
            (Some(member), Some(_)) => ownership.saw_member(&member, Sight::Alive, revision, now),
            (Some(member), None) => ownership.saw_member(&member, Sight::Gone, revision, now),
            (None, Some(Value::Owner(owner))) => ownership.saw_owner(key, Some(owner), revision),
            (None, _) => ownership.saw_owner(key, None, revision),
        }
    }

    fn send(&mut self, node: usize, orders: Vec<Order>) {
        let (life, me) = (self.nodes[node].life, self.nodes[node].ownership.me().clone());
        for order in orders {
            let is_lost = !self.is_calm && (self.nodes[node].cut_until > self.time || self.random.one_in(25));
            // Even a request that was given up may be carried out later.
            let after = if is_lost { 5_000 + self.random.below(120_000) } else { self.delay() };
            let never_arrives = is_lost && self.random.one_in(2);
            let (is_answered, number) = (!is_lost && after < 5_000, order.number);
            if !never_arrives {
                self.at(after, Event::Arrive { node, life, me: me.clone(), order, is_answered });
            }
            if !is_answered {
                self.at(5_000, Event::Answer { node, life, number, outcome: Outcome::Unknown });
            }
        }
    }

    fn delay(&mut self) -> u64 {
        if self.is_calm { 1 + self.random.below(50) } else { self.random.delay() }
    }

    fn arrive(&mut self, node: usize, life: u32, me: &Member, order: &Order, is_answered: bool) {
        self.store.forget(self.time);
        let (outcome, changed) = self.store.apply(me, &order.op);
        if is_answered {
            let after = 1 + self.random.below(50);
            self.at(after, Event::Answer { node, life, number: order.number, outcome });
        }
        let Some(key) = changed else { return };
        if Member::from_key(&key).is_some() {
            self.store.written.insert(key.clone(), self.time);
        }
        let (revision, value) = self.store.keys[&key].clone();
        for other in 0..self.nodes.len() {
            let after = self.time + self.delay();
            let healed = self.nodes[other].cut_until;
            let after = after.max(healed).max(self.nodes[other].shown_until + 1);
            self.nodes[other].shown_until = after;
            let event = Event::Show { node: other, life, key: key.clone(), revision, value: value.clone() };
            self.at(after - self.time, event);
        }
    }

    fn mischief(&mut self) {
        let node = usize::try_from(self.random.below(self.nodes.len() as u64)).unwrap();
        let long = self.random.below(3 * self.lease);
        let id = self.ids[0].clone();
        match self.random.below(9) {
            _ if !self.nodes[node].is_there() => {}
            0 => self.nodes[node].stopped_until = self.time + long,
            1 => self.nodes[node].cut_until = self.time + long,
            2 => self.nodes.iter_mut().for_each(|node| node.cut_until = self.time + long),
            3 => {
                self.nodes[node].stopped_until = self.time + long;
                let sleep = self.random.below(long + 1);
                self.nodes[node].slept += sleep.min(self.time - self.nodes[node].slept);
            }
            4 => self.crash(node),
            5 if self.nodes[node].stopped_until <= self.time => {
                let now = self.nodes[node].now(self.time);
                let orders = self.nodes[node].ownership.release(&id, now);
                self.send(node, orders);
            }
            6 => self.nodes[node].ownership.want(&id),
            7 if self.nodes[node].stopped_until <= self.time => {
                let now = self.nodes[node].now(self.time);
                let orders = self.nodes[node].ownership.end(now);
                self.send(node, orders);
                self.crash(node);
            }
            8 if self.random.one_in(3) => self.nodes[node].stopped_until = NEVER,
            _ => {}
        }
        let after = 1_000 + self.random.below(25_000);
        self.at(after, Event::Mischief);
    }

    /// The process ends and another begins, which sees the whole store again.
    fn crash(&mut self, node: usize) {
        let life = self.nodes[node].life + 1;
        let ownership = self.ownership(node, life, self.lease);
        let before = &mut self.nodes[node];
        (before.life, before.ownership, before.stopped_until) = (life, ownership, 0);
        let keys: Vec<_> = self.store.keys.iter().map(|(key, at)| (key.clone(), at.clone())).collect();
        for (key, (revision, value)) in keys {
            self.show(node, &key, revision, value);
        }
    }
}

/// The schedules of one thread: how often an id was seen to be served, or the first violation.
fn run(seeds: impl Iterator<Item = u64>, impatient: bool) -> Result<u64, String> {
    let mut grants = 0;
    for seed in seeds {
        grants += World::new(seed, impatient).run().map_err(|error| format!("schedule {seed}: {error}"))?;
    }
    Ok(grants)
}

#[test]
fn no_schedule_gives_an_id_two_owners() {
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let grants: Vec<Result<u64, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || run((thread as u64..SCHEDULES).step_by(threads), false)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let grants: u64 = grants.into_iter().map(Result::unwrap).sum();
    assert!(grants > 10 * SCHEDULES, "ids were hardly ever owned: {grants}");
}

#[test]
fn the_model_finds_a_member_that_does_not_wait_for_the_lease() {
    let found = run(0..2_000, true);
    assert!(found.is_err_and(|error| error.contains("has the owners")));
}

/// A world without losses in which every id has an owner and some time has passed since, with the owner of the first
/// id.
fn settled(seed: u64) -> (World, String, usize) {
    let mut world = World::calm(seed);
    let claimed = world.until("all ids are owned", |world| world.check() == Ok(world.ids.len() as u64));
    assert!(
        claimed < 3_000,
        "free ids are claimed within seconds, and not after {claimed} ms: schedule {seed}"
    );
    let later = claimed + world.random.below(60_000);
    world.until("some time has passed", |world| world.time >= later);
    let id = world.ids[0].clone();
    let owner = world.owner_of(&id).expect("an owner that is never disturbed stays");
    (world, id, owner)
}

/// How long it takes until another node than `before` is the owner.
fn replaced(world: &mut World, id: &str, before: usize) -> u64 {
    let start = world.time;
    world.until("another owner", |world| world.owner_of(id).is_some_and(|owner| owner != before)) - start
}

#[test]
fn an_owner_that_never_continues_is_replaced_within_its_lease_and_one_renewal() {
    for seed in 0..CALM_SCHEDULES {
        let (mut world, id, owner) = settled(seed);
        world.nodes[owner].stopped_until = NEVER;
        let took = replaced(&mut world, &id, owner);
        assert!(took <= LEASE + RENEWAL, "{took} ms in the schedule {seed}");
        assert!(
            took > LEASE / 2,
            "{took} ms: an owner that may still serve was replaced, in the schedule {seed}"
        );
    }
}

#[test]
fn an_owner_that_ends_in_order_is_replaced_within_two_seconds() {
    for seed in 0..CALM_SCHEDULES {
        let (mut world, id, owner) = settled(seed);
        let now = world.nodes[owner].now(world.time);
        let orders = world.nodes[owner].ownership.end(now);
        world.send(owner, orders);
        world.nodes[owner].stopped_until = NEVER;
        let took = replaced(&mut world, &id, owner);
        assert!(took <= 2_000, "{took} ms in the schedule {seed}");
    }
}
