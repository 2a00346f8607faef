//! Approvals in the store: the calls that wait at each node, so that an operator can still decide when the node is
//! gone; and unused grants, so that a call can be repeated at any node and passes once.
//!
//! `wait.GATEWAY.ID` is a call that waits, or the mark that another node has decided about it. `grant.KEY` is a grant.
//! If it is for one call, the node that deletes it may let that pass; else all nodes use it until it expires.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::kv;
use bytes::Bytes;
use futures_util::StreamExt as _;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch as channel};
use tokio::time::{sleep, timeout};
use toolyard_core::{Gateway, SharedApprovals, UnsharedGrant};
use toolyard_model::BoxFuture;

use crate::ownership::Outcome;
use crate::record;
use crate::shared::Shared;
use crate::store::{Opener, StoreError, delete, look_up, replace, watch};

const PAUSE: Duration = Duration::from_secs(1);
const CLAIM: Duration = Duration::from_secs(2);
/// How long entries are kept: longer than any call waits for approval.
const KEPT: Duration = Duration::from_hours(7 * 24);

/// The entry of a waiting call in the store.
#[derive(Clone, Serialize, Deserialize)]
enum Waiting {
    Call { node: String, call: Value },
    Decided,
}

/// The last known content of the store: each call with its version, by gateway and id, and the versions of grants.
#[derive(Default)]
struct Seen {
    waiting: BTreeMap<(String, String), (u64, Waiting)>,
    grants: BTreeMap<String, u64>,
}

/// The approvals in the store. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ApprovalStore(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    opener: Opener,
    seen: Mutex<Seen>,
    wake: Notify,
    bucket: channel::Sender<Option<kv::Store>>,
}

impl SharedApprovals for ApprovalStore {
    fn changed(&self) {
        self.0.wake.notify_one();
    }

    fn claim(&self, key: &str) -> BoxFuture<Option<bool>> {
        let (store, key) = (self.clone(), key.to_owned());
        Box::pin(async move { store.take_grant(&key).await })
    }
}

impl ApprovalStore {
    pub(crate) fn new(shared: Arc<Shared>, opener: Opener) -> Self {
        let (seen, wake, bucket) = (Mutex::default(), Notify::new(), channel::Sender::new(None));
        Self(Arc::new(Inner { shared, opener, seen, wake, bucket }))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock()
    }

    fn bucket(&self) -> Option<kv::Store> {
        self.0.bucket.borrow().clone()
    }

    /// Runs until it is dropped. Whatever fails is tried again.
    pub(crate) async fn run(self, gateway: Gateway) {
        loop {
            if let Err(error) = self.follow(&gateway).await {
                tracing::debug!(target: "cluster", %error, "approvals are not shared; trying again");
            }
            self.0.bucket.send_replace(None);
            sleep(PAUSE).await;
        }
    }

    async fn follow(&self, gateway: &Gateway) -> Result<(), StoreError> {
        let bucket = self.0.opener.open("approvals", KEPT).await?;
        let mut entries = watch(&bucket).await?;
        *self.seen() = Seen::default();
        self.0.bucket.send_replace(Some(bucket.clone()));
        let mut unused = BTreeSet::new();
        loop {
            tokio::select! {
                biased;
                entry = entries.next() => match entry {
                    Some(Ok(entry)) => self.saw(&entry, gateway),
                    _ => return Ok(()),
                },
                () = self.0.wake.notified() => self.write_waiting(&bucket, gateway).await,
                () = sleep(PAUSE) => {
                    self.write_waiting(&bucket, gateway).await;
                    self.write_grants(&bucket, gateway, &mut unused).await;
                }
            }
        }
    }

    fn saw(&self, entry: &kv::Entry, gateway: &Gateway) {
        let is_put = entry.operation == kv::Operation::Put;
        if let Some(key) = entry.key.strip_prefix("grant.") {
            if !is_put {
                self.seen().grants.remove(key);
                gateway.forget_grant(key);
            } else if let Some(grant) = record::open::<Value>(&self.0.shared.keys, &entry.key, &entry.value) {
                self.seen().grants.insert(key.to_owned(), entry.revision);
                gateway.learn_grant(grant);
            }
            return;
        }
        let Some((holder, id)) = entry.key.strip_prefix("wait.").and_then(|rest| rest.split_once('.')) else {
            return;
        };
        let opened = record::open::<Waiting>(&self.0.shared.keys, &entry.key, &entry.value);
        let name = (holder.to_owned(), id.to_owned());
        match opened.filter(|_| is_put) {
            Some(waiting) => {
                if matches!(waiting, Waiting::Decided) && holder == &*self.0.shared.gateway {
                    gateway.forget_waiting(id);
                }
                self.seen().waiting.insert(name, (entry.revision, waiting));
            }
            None => drop(self.seen().waiting.remove(&name)),
        }
    }

    /// Brings the store in line with what waits here.
    async fn write_waiting(&self, bucket: &kv::Store, gateway: &Gateway) {
        let own = self.0.shared.gateway.to_string();
        let calls: BTreeMap<String, Value> = gateway.waiting_calls().into_iter().collect();
        let known: BTreeMap<String, u64> = {
            let seen = self.seen();
            let own = seen.waiting.iter().filter(|((gateway, _), _)| *gateway == own);
            own.map(|((_, id), (revision, _))| (id.clone(), *revision)).collect()
        };
        for (id, call) in calls.iter().filter(|(id, _)| !known.contains_key(*id)) {
            let waiting = Waiting::Call { node: self.0.shared.node_name(), call: call.clone() };
            self.put(bucket, &format!("wait.{own}.{id}"), &waiting, None).await;
        }
        for (id, revision) in known.iter().filter(|(id, _)| !calls.contains_key(*id)) {
            delete(bucket, &format!("wait.{own}.{id}"), *revision).await;
        }
    }

    /// Shares grants that were not used since the last time: a call that waits here takes its own at once.
    async fn write_grants(&self, bucket: &kv::Store, gateway: &Gateway, unused: &mut BTreeSet<String>) {
        let before = std::mem::take(unused);
        for grant in gateway.unshared_grants() {
            if before.contains(&grant.key) {
                self.write_grant(bucket, gateway, &grant).await;
            } else {
                unused.insert(grant.key);
            }
        }
    }

    /// A grant for one call must be claimed as soon as another node may know it; another one is still good here.
    async fn write_grant(&self, bucket: &kv::Store, gateway: &Gateway, unshared: &UnsharedGrant) {
        let UnsharedGrant { key, is_once, grant } = unshared;
        if *is_once && !gateway.begin_to_share_grant(key) {
            return;
        }
        // An entry that is there already has expired.
        let known = self.seen().grants.get(key).copied();
        let written = self.put(bucket, &format!("grant.{key}"), grant, known).await;
        if !is_once && matches!(written, Outcome::Done(_)) {
            gateway.begin_to_share_grant(key);
        }
    }

    async fn put(
        &self,
        bucket: &kv::Store,
        key: &str,
        value: &impl Serialize,
        known: Option<u64>,
    ) -> Outcome {
        let sealed = record::seal(&self.0.shared.keys, key, value);
        replace(bucket, key, Bytes::from(sealed), known).await
    }

    async fn take_grant(&self, key: &str) -> Option<bool> {
        let (bucket, name) = (self.bucket()?, format!("grant.{key}"));
        let known = self.seen().grants.get(key).copied();
        let revision = match known {
            Some(revision) => revision,
            None => look_up(&bucket, &name).await?.revision,
        };
        match timeout(CLAIM, delete(&bucket, &name, revision)).await.ok()? {
            Outcome::Done(_) => Some(true),
            Outcome::Conflict => Some(false),
            Outcome::Unknown | Outcome::Lease(_) => None,
        }
    }

    /// What waits at gateways that are gone, each with the name of its node.
    pub(crate) fn left_behind(&self, gateway: &Gateway) -> Vec<Value> {
        let seen = self.seen();
        let waiting = seen.waiting.iter().filter(|((holder, _), _)| self.is_gone(holder));
        let call = |((_, id), (_, waiting)): (&(String, String), &(u64, Waiting))| match waiting {
            Waiting::Call { node, call } => Some(at_node(gateway.waiting_json(id, call)?, node)),
            Waiting::Decided => None,
        };
        waiting.filter_map(call).collect()
    }

    /// A call that waits at any gateway, with all of its arguments.
    pub(crate) fn waiting_call(&self, id: &str, gateway: &Gateway) -> Option<Value> {
        let seen = self.seen();
        let mut waiting = seen.waiting.iter().filter(|((_, own), _)| own == id);
        waiting.find_map(|(_, (_, waiting))| match waiting {
            Waiting::Call { node, call } => Some(at_node(gateway.whole_waiting_json(id, call)?, node)),
            Waiting::Decided => None,
        })
    }

    fn is_gone(&self, gateway: &str) -> bool {
        let (state, now) = (self.0.shared.state(), self.0.shared.now());
        let is_it = |node: &&crate::record::NodeRecord| node.gateway == gateway;
        let mut nodes = state.nodes.values().filter(is_it);
        gateway != &*self.0.shared.gateway && !nodes.any(|node| state.ownership.is_alive(&node.member, now))
    }

    /// Decides about a call that waits at a gateway that is no longer running. `None` if no call with that id waits.
    pub(crate) async fn decide(
        &self,
        id: &str,
        is_approved: bool,
        gateway: &Gateway,
    ) -> Option<Result<Value, String>> {
        let found = {
            let seen = self.seen();
            let mut waiting = seen.waiting.iter().filter(|((_, own), _)| own == id);
            waiting.find_map(|((holder, _), (revision, waiting))| match waiting {
                Waiting::Call { call, .. } => Some((holder.clone(), *revision, call.clone())),
                Waiting::Decided => None,
            })
        };
        let (holder, revision, call) = found.filter(|(holder, ..)| self.is_gone(holder))?;
        let failed = || Some(Err("NATS did not answer, so it is not decided; try again".to_owned()));
        let Some(bucket) = self.bucket() else { return failed() };
        match self.put(&bucket, &format!("wait.{holder}.{id}"), &Waiting::Decided, Some(revision)).await {
            Outcome::Done(_) => gateway.decide_for(id, call, is_approved).map(Ok),
            Outcome::Conflict => None,
            Outcome::Unknown | Outcome::Lease(_) => failed(),
        }
    }
}

fn at_node(mut call: Value, node: &str) -> Value {
    call["node"] = json!(node);
    call
}
