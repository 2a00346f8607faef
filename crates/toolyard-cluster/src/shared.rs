//! What the parts of a node share: its ownership, the other nodes, and who owns what, as the store showed it last.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use toolyard_core::plan::Condition;
use toolyard_model::Keys;

use crate::clock::Clock;
use crate::forward::Idle;
use crate::ownership::{Member, Now, Order, Ownership, Revision, Sight};
use crate::process;
use crate::reach::Ways;
use crate::record::{ConditionRecord, NodeRecord, OwnerRecord};
use crate::rival::Rivals;
use crate::tls::{Identity, TrustedKeys};

pub(crate) struct Shared {
    /// The id of this gateway.
    pub(crate) gateway: Arc<str>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) identity: Identity,
    pub(crate) trusted: TrustedKeys,
    /// How other nodes are reached.
    pub(crate) ways: Ways,
    /// Connections to other nodes for requests that are passed on.
    pub(crate) idle: Idle,
    pub(crate) clock: Clock,
    /// Until when owned ids may be served, in milliseconds of the fast clock.
    valid_until: AtomicU64,
    pub(crate) is_connected: AtomicBool,
    /// Why NATS cannot be used, as far as is known.
    pub(crate) problem: Problem,
    /// The last record of the audit that NATS has; -1 if the audit is not copied.
    pub(crate) shipped: Arc<AtomicI64>,
    state: Mutex<State>,
    /// Counts changes of what the store shows.
    pub(crate) changes: watch::Sender<u64>,
    /// Wakes the driver: there is something to ask of the store.
    pub(crate) wishes: Notify,
}

pub(crate) struct State {
    pub(crate) ownership: Ownership,
    pub(crate) own: NodeRecord,
    pub(crate) nodes: BTreeMap<Member, NodeRecord>,
    pub(crate) owners: BTreeMap<String, OwnerRecord>,
    /// What this node would write as the owner of an id.
    pub(crate) offers: BTreeMap<String, OwnerRecord>,
    cells: HashMap<String, Arc<Cell>>,
    /// What this node serves by which number, as far as it was logged.
    logged: BTreeMap<String, u64>,
    /// Orders that the driver sends with its next tick.
    pub(crate) outbox: Vec<Order>,
    /// Whether everything that the store had was shown, and it is still connected.
    pub(crate) in_sync: bool,
    /// Leases with the name of this node, and why it is not in the cluster if another node has that name.
    pub(crate) rivals: Rivals,
    pub(crate) refusal: Option<String>,
    /// The members that were alive when the store last answered. While it does not, none of them counts as gone.
    alive: BTreeSet<Member>,
}

/// The last error of the connection to NATS. Nothing while it is good.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problem(Arc<Mutex<Option<String>>>);

impl Problem {
    pub(crate) fn set(&self, problem: Option<String>) {
        *self.0.lock() = problem;
    }

    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().clone()
    }
}

/// Whether this node owns one id: the number of the claim, or 0.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) fence: watch::Sender<u64>,
}

impl Shared {
    pub(crate) fn new(keys: Arc<Keys>, identity: Identity, ownership: Ownership, own: NodeRecord) -> Self {
        let gateway = own.gateway.as_str().into();
        let state = State {
            ownership,
            own,
            nodes: BTreeMap::new(),
            owners: BTreeMap::new(),
            offers: BTreeMap::new(),
            cells: HashMap::new(),
            logged: BTreeMap::new(),
            outbox: Vec::new(),
            in_sync: false,
            rivals: Rivals::default(),
            refusal: None,
            alive: BTreeSet::new(),
        };
        Self {
            gateway,
            keys,
            identity,
            trusted: TrustedKeys::default(),
            ways: Ways::default(),
            idle: Idle::default(),
            clock: Clock::new(),
            valid_until: AtomicU64::new(0),
            is_connected: AtomicBool::new(false),
            problem: Problem::default(),
            shipped: Arc::new(AtomicI64::new(-1)),
            state: Mutex::new(state),
            changes: watch::Sender::new(0),
            wishes: Notify::new(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }

    /// Whether the lease of this node is valid. Cheap: it is asked for every call of an upstream that is owned.
    pub(crate) fn is_valid(&self) -> bool {
        let until = Duration::from_millis(self.valid_until.load(Ordering::Acquire));
        self.now().fast < until
    }

    pub(crate) fn node_name(&self) -> String {
        self.state().ownership.me().node.clone()
    }

    /// Whether this node owns an id, to be watched.
    pub(crate) fn cell(&self, id: &str) -> Arc<Cell> {
        let mut state = self.state();
        let fence = state.ownership.owned().find(|(owned, _)| *owned == id).map_or(0, |(_, fence)| fence);
        let made = || Arc::new(Cell { fence: watch::Sender::new(fence) });
        state.cells.entry(id.to_owned()).or_insert_with(made).clone()
    }

    /// Records what this node would serve under an id, and claims the id.
    pub(crate) fn want(&self, id: &str, kind: &str, is_exported: bool) {
        let mut state = self.state();
        let member = state.ownership.me().clone();
        state.offers.insert(id.to_owned(), OwnerRecord { member, kind: kind.to_owned(), is_exported });
        state.ownership.want(id);
        drop(state);
        self.wishes.notify_one();
    }

    /// Stops serving an id, and frees it.
    pub(crate) fn release(&self, id: &str) {
        let (now, mut state) = (self.now(), self.state());
        state.offers.remove(id);
        let orders = state.ownership.release(id, now);
        state.outbox.extend(orders);
        drop(state);
        self.publish();
        self.wishes.notify_one();
    }

    /// Shows the other nodes in what condition the upstreams of this one are, and what its instances say about
    /// themselves.
    pub(crate) fn report(
        &self,
        conditions: BTreeMap<String, ConditionRecord>,
        instances: BTreeMap<String, Value>,
    ) {
        let mut state = self.state();
        if state.own.conditions != conditions || state.own.instances != instances {
            (state.own.conditions, state.own.instances) = (conditions, instances);
            state.ownership.renew_soon();
        }
    }

    /// What is known of an upstream that another node has: the node, what it is there, and how it describes itself.
    pub(crate) fn about_elsewhere(&self, id: &str) -> Option<Value> {
        let state = self.state();
        let OwnerRecord { member, kind, .. } = state.owners.get(id)?;
        let own = state.nodes.get(member).and_then(|node| node.instances.get(id));
        let mut about = own.filter(|own| own.is_object()).cloned().unwrap_or_else(|| json!({}));
        (about["node"], about["kind"]) = (json!(member.node), json!(kind));
        Some(about)
    }

    /// In what condition an upstream is at the node that has it, if that is another one and it is not active there.
    pub(crate) fn condition_elsewhere(&self, id: &str) -> Option<Condition> {
        let node = self.owner_elsewhere(id)?;
        node.conditions.get(id)?.condition(&node.member.node)
    }

    /// The node that owns an id, if it is another one that is alive.
    pub(crate) fn owner_elsewhere(&self, id: &str) -> Option<NodeRecord> {
        let state = self.state();
        let owner = &state.owners.get(id)?.member;
        let is_other = owner != state.ownership.me() && state.is_alive(owner, self.now());
        let is_other = is_other && state.refusal.is_none();
        state.nodes.get(owner).filter(|_| is_other).cloned()
    }

    /// The newest run of a node, if it is alive.
    pub(crate) fn node(&self, name: &str) -> Option<NodeRecord> {
        let (state, now) = (self.state(), self.now());
        let is_it = |node: &&NodeRecord| node.member.node == name && state.is_alive(&node.member, now);
        state.nodes.values().filter(is_it).max_by_key(|node| node.started).cloned()
    }

    /// The names of all nodes that are alive.
    pub(crate) fn living_nodes(&self) -> Vec<String> {
        let (state, now) = (self.state(), self.now());
        let alive = state.nodes.keys().filter(|member| state.is_alive(member, now));
        alive.map(|member| member.node.clone()).collect()
    }

    /// Passes on what has changed. Call it after every change of `state`.
    pub(crate) fn publish(&self) {
        let mut state = self.state();
        state.log_tenures(self.now());
        state.note_alive(self.now());
        let until = u64::try_from(state.ownership.valid_until().as_millis()).unwrap_or_default();
        self.valid_until.store(until, Ordering::Release);
        let owned: HashMap<&str, u64> = state.ownership.owned().collect();
        for (id, cell) in &state.cells {
            let fence = owned.get(id.as_str()).copied().unwrap_or(0);
            cell.fence.send_if_modified(|before| std::mem::replace(before, fence) != fence);
        }
        drop(owned);
        let trusted = state.nodes.values().map(|node| (node.key.clone(), node.member.node.clone()));
        self.trusted.set(trusted.collect());
        drop(state);
        self.changes.send_modify(|count| *count += 1);
    }
}

impl State {
    /// Everything will be shown again. The nodes that are known stay known until then.
    pub(crate) fn forget_view(&mut self, now: Now) {
        self.ownership.forget_view(now);
        self.in_sync = false;
    }

    /// The whole store has been read: entries that were known before and were not read again are removed.
    pub(crate) fn saw_all(&mut self) {
        let Self { ownership, nodes, owners, .. } = self;
        nodes.retain(|member, _| member == ownership.me() || ownership.shows(member));
        owners.retain(|id, _| ownership.owners().contains_key(id));
        self.in_sync = true;
    }

    /// Whether a member has renewed its lease in time. Without the store no renewals are seen: members that were alive
    /// then count as alive until the store shows otherwise. Ownership is not affected: each owner stops by its own
    /// lease, and no node can become an owner without the store.
    pub(crate) fn is_alive(&self, member: &Member, now: Now) -> bool {
        self.ownership.is_alive(member, now) || !self.is_in_touch(now) && self.alive.contains(member)
    }

    fn is_in_touch(&self, now: Now) -> bool {
        self.in_sync && self.ownership.is_in_touch(now)
    }

    /// Remembers who is alive as long as that is known.
    fn note_alive(&mut self, now: Now) {
        if self.is_in_touch(now) {
            let is_alive = |member: &&Member| self.ownership.is_alive(member, now);
            self.alive = self.nodes.keys().filter(is_alive).cloned().collect();
        }
    }

    /// The store shows a lease in this version. Returns whether the node was not known.
    pub(crate) fn saw_node(&mut self, node: NodeRecord, revision: Revision, now: Now) -> bool {
        let member = node.member.clone();
        self.ownership.saw_member(&member, Sight::Alive, revision, now);
        if member.node == self.own.member.node && node.key != self.own.key {
            self.rivals.saw(&member, revision, now);
        }
        self.nodes.insert(member, node).is_none()
    }

    /// The store shows that a member has ended.
    pub(crate) fn ended(&mut self, member: &Member) -> bool {
        self.alive.remove(member);
        self.rivals.ended(member);
        self.nodes.remove(member).is_some()
    }

    /// Logs what this node has begun or ceased to own, with the fencing number. The end is logged before the store is
    /// asked to free the id, or when the lease ends, so that the log of the next owner begins later. Only programs stop
    /// when the lease ends.
    fn log_tenures(&mut self, now: Now) {
        let is_valid = now.fast < self.ownership.valid_until();
        let served: BTreeMap<&str, u64> = self.ownership.owned().filter(|_| is_valid).collect();
        let has = |id: &str, fence: u64| served.get(id) == Some(&fence);
        let (cells, offers) = (&self.cells, &self.offers);
        self.logged.retain(|id, fence| {
            let is_served = has(id, *fence);
            if !is_served && goes_on(cells, offers, id) {
                tracing::info!(target: "cluster", id, fence, "the claim of this node to an upstream has ended; it still serves it");
            } else if !is_served {
                tracing::info!(target: "cluster", id, fence, "this node has given up an upstream");
            }
            is_served
        });
        for (id, fence) in served {
            if self.logged.insert(id.to_owned(), fence).is_none() {
                tracing::info!(target: "cluster", id, fence, "this node owns an upstream");
            }
        }
    }

    /// Begins again under a new epoch.
    pub(crate) fn begin_again(&mut self) {
        self.ownership.begin_again(crate::new_epoch());
        self.own.member = self.ownership.me().clone();
    }

    /// Nodes whose process ran on this machine and has ended need not be waited for.
    pub(crate) fn fence_dead_processes(&mut self, now: Now) -> Vec<Order> {
        let is_dead = |node: &&NodeRecord| node.process.as_ref().is_some_and(process::has_ended);
        let dead: Vec<Member> = self.nodes.values().filter(is_dead).map(|node| node.member.clone()).collect();
        dead.iter().flat_map(|member| self.ownership.is_known_dead(member, now)).collect()
    }
}

/// Whether this node serves an upstream without a claim to it: servers at an address, apps and instances, as long as
/// they are here. A program has a cell, by which it is stopped.
fn goes_on(cells: &HashMap<String, Arc<Cell>>, offers: &BTreeMap<String, OwnerRecord>, id: &str) -> bool {
    offers.contains_key(id) && !cells.contains_key(id)
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("node", &self.node_name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ownership::{Outcome, Terms};

    fn member(node: &str) -> Member {
        Member { node: node.into(), epoch: "1".into() }
    }

    pub(crate) fn record(node: &str) -> NodeRecord {
        let text = || "x".to_owned();
        let (member, key) = (member(node), node.as_bytes().to_vec());
        let (gateway, version, config) = (text(), text(), text());
        let (conditions, instances) = (BTreeMap::new(), BTreeMap::new());
        NodeRecord {
            member,
            address: None,
            key,
            gateway,
            version,
            config,
            process: None,
            started: 0,
            conditions,
            instances,
        }
    }

    pub(crate) fn at(seconds: u64) -> Now {
        let time = Duration::from_secs(seconds);
        Now { fast: time, slow: time }
    }

    /// The store takes the lease of `a` at this time.
    pub(crate) fn renew(state: &mut State, revision: u64, now: Now) {
        for order in state.ownership.tick(now) {
            state.ownership.done(order.number, &Outcome::Done(revision), now);
        }
    }

    fn show(state: &mut State, node: &str, revision: u64, now: Now) {
        show_as(state, record(node), revision, now);
    }

    pub(crate) fn show_as(state: &mut State, node: NodeRecord, revision: u64, now: Now) {
        state.saw_node(node, revision, now);
    }

    /// `a` with a lease of 30 s, before it has joined.
    pub(crate) fn fresh() -> Shared {
        let keys = Arc::new(Keys::shared(&[7; 32], "a"));
        let ownership = Ownership::new(member("a"), Terms::of(Duration::from_secs(30)));
        Shared::new(keys, Identity::new().unwrap(), ownership, record("a"))
    }

    /// `a` with a lease of 30 s, which has seen `b` and `c` at the second 0.
    fn shared() -> Shared {
        let shared = fresh();
        let mut state = shared.state();
        renew(&mut state, 1, at(0));
        show(&mut state, "b", 2, at(0));
        show(&mut state, "c", 3, at(0));
        state.saw_all();
        state.note_alive(at(0));
        drop(state);
        shared
    }

    #[test]
    fn a_node_that_is_silent_for_its_lease_is_not_alive() {
        let shared = shared();
        let mut state = shared.state();
        renew(&mut state, 4, at(29));
        show(&mut state, "b", 5, at(29));
        state.note_alive(at(29));
        assert!(state.is_alive(&member("b"), at(31)));
        assert!(!state.is_alive(&member("c"), at(31)));
    }

    #[test]
    fn without_the_store_nodes_stay_as_they_were_until_all_is_shown_again() {
        let shared = shared();
        let mut state = shared.state();
        state.note_alive(at(100));
        assert!(state.is_alive(&member("b"), at(100)), "neither it nor the store has answered");
        state.forget_view(at(100));
        renew(&mut state, 6, at(100));
        show(&mut state, "b", 7, at(100));
        assert!(state.is_alive(&member("c"), at(100)), "the store may still show it");
        state.saw_all();
        state.note_alive(at(100));
        assert!(state.is_alive(&member("b"), at(100)));
        assert!(!state.is_alive(&member("c"), at(100)), "the store has it no more");
        assert!(!state.nodes.contains_key(&member("c")));
    }

    #[test]
    fn a_node_that_has_left_is_not_alive_before_all_is_shown() {
        let shared = shared();
        let mut state = shared.state();
        state.forget_view(at(1));
        state.ownership.saw_member(&member("b"), Sight::Gone, 8, at(1));
        state.ended(&member("b"));
        assert!(!state.is_alive(&member("b"), at(1)));
        assert!(state.is_alive(&member("c"), at(1)));
    }

    #[test]
    fn without_a_claim_only_programs_stop() {
        let shared = shared();
        shared.cell("program");
        for id in ["program", "app"] {
            shared.want(id, "any", true);
        }
        let goes_on = |id: &str| {
            let state = shared.state();
            goes_on(&state.cells, &state.offers, id)
        };
        assert_eq!(["program", "app", "unknown"].map(goes_on), [false, true, false]);
        shared.release("app");
        assert!(!goes_on("app"), "it is gone");
    }
}
