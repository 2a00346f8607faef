//! Drives the ownership of this node over NATS: carries out what it asks for, and shows it what the store holds.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::jetstream::kv::{Entry, Operation, Watch};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::ownership::{Member, Op, Order, Outcome, Sight};
use crate::record::{self, FENCED, NodeRecord, OwnerRecord};
use crate::shared::{Problem, Shared};
use crate::store::{Buckets, Own, Shown, Store, StoreError, Watches};

const TICK: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_secs(1);
/// How long a gateway that stops waits for its ids to be free.
const GOODBYE: Duration = Duration::from_secs(2);

pub(crate) struct Driver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: Store,
}

/// One thing that happened.
enum Event {
    Tick,
    Wish,
    Reconnected,
    Lease(Option<Entry>),
    Owner(Option<Entry>),
    Answered(u64, Outcome),
}

type Answers = FuturesUnordered<toolyard_model::BoxFuture<(u64, Outcome)>>;

impl Driver {
    /// Runs until it is dropped. Whatever fails is tried again.
    pub(crate) async fn run(self) {
        loop {
            if let Err(error) = self.follow().await {
                let error = chain(&error);
                tracing::warn!(target: "cluster", error, "the cluster's store cannot be used; trying again");
                self.shared.problem.set(Some(error));
            }
            self.shared.is_connected.store(false, Ordering::Relaxed);
            sleep(PAUSE).await;
        }
    }

    /// Ends with an error, or when the watches have to be opened again.
    async fn follow(&self) -> Result<(), StoreError> {
        while !self.store.is_connected() {
            self.tick_alone();
            tokio::select! {
                () = self.store.connected.notified() => {}
                () = sleep(PAUSE) => {}
            }
        }
        let buckets = self.store.buckets().await?;
        let Watches { mut leases, mut owners, mut shown } = buckets.watch().await?;
        self.shared.state().forget_view(self.shared.now());
        self.shared.is_connected.store(true, Ordering::Relaxed);
        self.shared.problem.set(None);
        tracing::info!(target: "cluster", "connected to the cluster's store");
        let mut answers: Answers = FuturesUnordered::new();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let event = tokio::select! {
                _ = ticks.tick() => Event::Tick,
                () = self.shared.wishes.notified() => Event::Wish,
                () = self.store.connected.notified() => Event::Reconnected,
                entry = next(&mut leases) => Event::Lease(entry),
                entry = next(&mut owners) => Event::Owner(entry),
                (number, outcome) = answered(&mut answers) => Event::Answered(number, outcome),
            };
            match event {
                Event::Tick | Event::Wish => self.tick(&buckets, &mut answers),
                Event::Reconnected | Event::Lease(None) | Event::Owner(None) => return Ok(()),
                Event::Lease(Some(entry)) => {
                    shown.leases |= entry.delta == 0;
                    self.saw_lease(&entry);
                }
                Event::Owner(Some(entry)) => {
                    shown.owners |= entry.delta == 0;
                    self.saw_owner(&entry);
                }
                Event::Answered(number, outcome) => self.answered(number, &outcome, &buckets, &mut answers),
            }
            self.check_view(shown);
            self.shared.publish();
        }
    }

    /// What was shown is all that there is, as long as the connection is there.
    fn check_view(&self, shown: Shown) {
        let is_connected = self.store.is_connected();
        self.shared.is_connected.store(is_connected, Ordering::Relaxed);
        let mut state = self.shared.state();
        if !is_connected {
            state.in_sync = false;
        } else if shown.is_all() && !state.in_sync {
            state.saw_all();
        }
    }

    /// Time passes without the store, too.
    fn tick_alone(&self) {
        self.shared.publish();
    }

    fn tick(&self, buckets: &Buckets, answers: &mut Answers) {
        let now = self.shared.now();
        let mut state = self.shared.state();
        let may_join = state.may_join(now);
        let mut orders = std::mem::take(&mut state.outbox);
        if may_join {
            if state.ownership.is_fenced() {
                tracing::warn!(target: "cluster", "another node has fenced this one: its lease had expired; beginning again");
                state.begin_again();
            }
            orders.extend(state.ownership.tick(now));
            orders.extend(state.fence_dead_processes(now));
        }
        drop(state);
        self.send(orders, buckets, answers);
    }

    fn send(&self, orders: Vec<Order>, buckets: &Buckets, answers: &mut Answers) {
        for Order { number, op } in orders {
            let (buckets, own) = (buckets.clone(), self.own(&op));
            answers.push(Box::pin(async move { (number, buckets.carry_out(op, own).await) }));
        }
    }

    fn own(&self, op: &Op) -> Own {
        let state = self.shared.state();
        let member = state.ownership.me().clone();
        let owner = match op {
            Op::Claim(id, _) => state.offers.get(id).cloned(),
            _ => None,
        };
        let owner = owner.map(|owner| OwnerRecord { member: member.clone(), ..owner });
        Own { node: NodeRecord { member: member.clone(), ..state.own.clone() }, member, owner }
    }

    fn answered(&self, number: u64, outcome: &Outcome, buckets: &Buckets, answers: &mut Answers) {
        let now = self.shared.now();
        let mut state = self.shared.state();
        state.ownership.done(number, outcome, now);
        let orders = state.ownership.tick(now);
        drop(state);
        self.send(orders, buckets, answers);
    }

    fn saw_lease(&self, entry: &Entry) {
        let Some(member) = Member::from_key(&entry.key) else { return };
        let now = self.shared.now();
        let mut state = self.shared.state();
        let is_put = entry.operation == Operation::Put;
        if is_put && *entry.value == *FENCED {
            state.ownership.saw_member(&member, Sight::Fenced, entry.revision, now);
            state.ended(&member);
        } else if let Some(node) =
            record::open::<NodeRecord>(&self.shared.keys, &entry.key, &entry.value).filter(|_| is_put)
        {
            if state.saw_node(node, entry.revision, now) && member != *state.ownership.me() {
                tracing::info!(target: "cluster", node = member.node, "a node has joined");
            }
        } else if is_put {
            tracing::warn!(target: "cluster", key = entry.key, "ignored a record that was not sealed with the cluster's key");
        } else {
            state.ownership.saw_member(&member, Sight::Gone, entry.revision, now);
            if state.ended(&member) {
                tracing::info!(target: "cluster", node = member.node, "a node has left");
            }
        }
    }

    fn saw_owner(&self, entry: &Entry) {
        let opened = record::open::<OwnerRecord>(&self.shared.keys, &entry.key, &entry.value);
        let owner = opened.filter(|_| entry.operation == Operation::Put);
        let mut state = self.shared.state();
        state.ownership.saw_owner(
            &entry.key,
            owner.as_ref().map(|owner| owner.member.clone()),
            entry.revision,
        );
        match owner {
            Some(owner) => drop(state.owners.insert(entry.key.clone(), owner)),
            None => drop(state.owners.remove(&entry.key)),
        }
    }
}

/// Frees everything that this node owns, so that others need not wait for its lease.
pub(crate) async fn goodbye(shared: &Shared, settings: &crate::NatsSettings) {
    let leaving = async {
        let node = shared.node_name();
        let store = Store::connect(settings.clone(), &node, shared.keys.clone(), Problem::default()).await?;
        let buckets = store.buckets().await?;
        let (orders, own) = last_orders(shared);
        shared.publish();
        for Order { op, .. } in orders {
            buckets.carry_out(op, own.clone()).await;
        }
        Ok::<(), StoreError>(())
    };
    match tokio::time::timeout(GOODBYE, leaving).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::debug!(target: "cluster", %error, "did not release its upstreams before it stopped");
        }
        Err(_) => {
            tracing::debug!(target: "cluster", "did not release its upstreams before it stopped: NATS did not answer");
        }
    }
}

fn last_orders(shared: &Shared) -> (Vec<Order>, Own) {
    let now = shared.now();
    let mut state = shared.state();
    let orders = state.ownership.end(now);
    // By now no upstream is served any more.
    state.offers.clear();
    (orders, Own { member: state.ownership.me().clone(), node: state.own.clone(), owner: None })
}

async fn next(watch: &mut Watch) -> Option<Entry> {
    match watch.next().await {
        Some(Ok(entry)) => Some(entry),
        Some(Err(error)) => {
            tracing::debug!(target: "cluster", %error, "a watch has failed");
            None
        }
        None => None,
    }
}

async fn answered(answers: &mut Answers) -> (u64, Outcome) {
    match answers.next().await {
        Some(answer) => answer,
        None => pending().await,
    }
}

fn chain(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
