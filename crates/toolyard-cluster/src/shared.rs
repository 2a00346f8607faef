//! What the parts of a node share: its ownership, the other nodes, and who owns what, as the store showed it last.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use toolyard_model::Keys;

use crate::clock::Clock;
use crate::ownership::{Member, Now, Order, Ownership};
use crate::process;
use crate::reach::Ways;
use crate::record::{NodeRecord, OwnerRecord};
use crate::tls::{Identity, TrustedKeys};

pub(crate) struct Shared {
    pub(crate) keys: Arc<Keys>,
    pub(crate) identity: Identity,
    pub(crate) trusted: TrustedKeys,
    /// How other nodes are reached.
    pub(crate) ways: Ways,
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
}

pub(crate) struct State {
    pub(crate) ownership: Ownership,
    pub(crate) own: NodeRecord,
    pub(crate) nodes: BTreeMap<Member, NodeRecord>,
    pub(crate) owners: BTreeMap<String, OwnerRecord>,
    /// What this node would write as the owner of an id.
    pub(crate) offers: BTreeMap<String, OwnerRecord>,
    cells: HashMap<String, Arc<Cell>>,
    /// Orders that the driver sends with its next tick.
    pub(crate) outbox: Vec<Order>,
    /// Whether everything that the store had was shown.
    pub(crate) in_sync: bool,
}

/// The last error of the connection to NATS. Nothing while it is good.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problem(Arc<Mutex<Option<String>>>);

impl Problem {
    pub(crate) fn set(&self, problem: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whether this node owns one id: the number of the claim, or 0.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) fence: watch::Sender<u64>,
}

impl Shared {
    pub(crate) fn new(keys: Arc<Keys>, identity: Identity, ownership: Ownership, own: NodeRecord) -> Self {
        let state = State {
            ownership,
            own,
            nodes: BTreeMap::new(),
            owners: BTreeMap::new(),
            offers: BTreeMap::new(),
            cells: HashMap::new(),
            outbox: Vec::new(),
            in_sync: false,
        };
        Self {
            keys,
            identity,
            trusted: TrustedKeys::default(),
            ways: Ways::default(),
            clock: Clock::new(),
            valid_until: AtomicU64::new(0),
            is_connected: AtomicBool::new(false),
            problem: Problem::default(),
            shipped: Arc::new(AtomicI64::new(-1)),
            state: Mutex::new(state),
            changes: watch::Sender::new(0),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    }

    /// Stops serving an id, and frees it.
    pub(crate) fn release(&self, id: &str) {
        let (now, mut state) = (self.now(), self.state());
        state.offers.remove(id);
        let orders = state.ownership.release(id, now);
        state.outbox.extend(orders);
        drop(state);
        self.publish();
    }

    /// The node that owns an id, if it is another one that is alive.
    pub(crate) fn owner_elsewhere(&self, id: &str) -> Option<NodeRecord> {
        let state = self.state();
        let owner = &state.owners.get(id)?.member;
        let is_other = owner != state.ownership.me() && state.ownership.is_alive(owner, self.now());
        state.nodes.get(owner).filter(|_| is_other).cloned()
    }

    /// The newest run of a node, if it is alive.
    pub(crate) fn node(&self, name: &str) -> Option<NodeRecord> {
        let (state, now) = (self.state(), self.now());
        let is_it =
            |node: &&NodeRecord| node.member.node == name && state.ownership.is_alive(&node.member, now);
        state.nodes.values().filter(is_it).max_by_key(|node| node.started).cloned()
    }

    /// The names of all nodes that are alive.
    pub(crate) fn living_nodes(&self) -> Vec<String> {
        let (state, now) = (self.state(), self.now());
        let alive = state.nodes.keys().filter(|member| state.ownership.is_alive(member, now));
        alive.map(|member| member.node.clone()).collect()
    }

    /// Passes on what has changed. Call it after every change of `state`.
    pub(crate) fn publish(&self) {
        let state = self.state();
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

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("node", &self.node_name()).finish_non_exhaustive()
    }
}
