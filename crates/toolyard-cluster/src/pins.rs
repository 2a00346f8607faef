//! The record of accepted definitions (pins) of exported upstreams, which all nodes have together: a node that takes an
//! upstream over compares with what was accepted before, and one approval counts everywhere.
//!
//! Each upstream is one key of a bucket. The record in the bucket takes precedence: a node whose write fails because
//! another node has written first adopts the other's record and compares again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::kv;
use bytes::Bytes;
use futures_util::StreamExt as _;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::sleep;
use toolyard_core::pins::SharedPins;
use toolyard_core::{Gateway, UpstreamKind};

use crate::catalog::Exports;
use crate::ownership::{Member, Outcome};
use crate::record;
use crate::shared::Shared;
use crate::store::{Opener, StoreError, look_up, replace, watch};

const PAUSE: Duration = Duration::from_secs(1);
/// A longer record is kept on its node: NATS carries messages of up to 1 MB by default.
const LONGEST: usize = 900_000;

/// What the bucket holds for an upstream.
#[derive(Serialize, Deserialize)]
struct Pinned {
    /// Who wrote it.
    by: Member,
    record: Value,
}

/// The upstreams whose records have changed and are not in the bucket yet.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    ids: Mutex<BTreeSet<String>>,
    wake: Notify,
}

pub(crate) type Unwritten = Arc<Changed>;

impl Changed {
    fn ids(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.ids.lock()
    }

    fn add(&self, id: &str) {
        self.ids().insert(id.to_owned());
        self.wake.notify_one();
    }
}

impl SharedPins for Changed {
    fn changed(&self, upstream: &str) {
        self.add(upstream);
    }
}

pub(crate) struct PinKeeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) gateway: Gateway,
    pub(crate) opener: Opener,
    pub(crate) exports: Exports,
    pub(crate) unwritten: Unwritten,
}

/// The version of each record that is known.
type Known = BTreeMap<String, u64>;

impl PinKeeper {
    /// Runs until it is dropped. Whatever fails is tried again.
    pub(crate) async fn run(self) {
        loop {
            if let Err(error) = self.follow().await {
                tracing::debug!(target: "cluster", %error, "the record of definitions is not shared; trying again");
            }
            sleep(PAUSE).await;
        }
    }

    /// Ends when the bucket has to be opened again.
    async fn follow(&self) -> Result<(), StoreError> {
        let bucket = self.opener.open("pins", Duration::ZERO).await?;
        let (mut entries, mut known) = (watch(&bucket).await?, Known::new());
        for upstream in self.gateway.upstreams() {
            if upstream.kind() == UpstreamKind::Server {
                self.unwritten.add(upstream.id().as_str());
            }
        }
        loop {
            tokio::select! {
                // What the bucket has comes first.
                biased;
                entry = entries.next() => match entry {
                    Some(Ok(entry)) => self.saw(&entry, &mut known),
                    _ => return Ok(()),
                },
                () = self.unwritten.wake.notified() => if !self.write_all(&bucket, &mut known).await {
                    return Ok(());
                },
            }
        }
    }

    fn saw(&self, entry: &kv::Entry, known: &mut Known) {
        let before = known.get(&entry.key).copied().unwrap_or_default();
        if entry.operation != kv::Operation::Put || entry.revision <= before {
            return;
        }
        let opened = record::open::<Pinned>(&self.shared.keys, &purpose(&entry.key), &entry.value);
        let Some(Pinned { by, record }) = opened else {
            tracing::warn!(target: "cluster", key = entry.key, "ignored a record that was not sealed with the cluster's key");
            return;
        };
        known.insert(entry.key.clone(), entry.revision);
        // What this node has written may be older than what it has now.
        if by == *self.shared.state().ownership.me() || !self.exports.names(&entry.key) {
            return;
        }
        if let Err(error) = self.gateway.adopt_pins(&entry.key, record) {
            tracing::warn!(target: "cluster", upstream = entry.key, %error, "the record of definitions of another node cannot be read");
        }
    }

    /// False if the bucket did not answer.
    async fn write_all(&self, bucket: &kv::Store, known: &mut Known) -> bool {
        let ids = std::mem::take(&mut *self.unwritten.ids());
        for id in ids.iter().filter(|id| self.exports.names(id)) {
            if !self.write(bucket, id, known).await {
                self.unwritten.ids().extend(ids);
                return false;
            }
        }
        true
    }

    async fn write(&self, bucket: &kv::Store, id: &str, known: &mut Known) -> bool {
        let Some(record) = self.gateway.pins_of(id) else { return true };
        let by = self.shared.state().ownership.me().clone();
        let sealed = record::seal(&self.shared.keys, &purpose(id), &Pinned { by, record });
        if sealed.len() > LONGEST {
            tracing::warn!(target: "cluster", upstream = id, bytes = sealed.len(), "the record of definitions is too long to be shared");
            return true;
        }
        match replace(bucket, id, Bytes::from(sealed), known.get(id).copied()).await {
            Outcome::Done(revision) => {
                known.insert(id.to_owned(), revision);
                true
            }
            Outcome::Conflict => {
                if let Some(entry) = look_up(bucket, id).await {
                    self.saw(&entry, known);
                }
                // It may have been this node's own, and older.
                self.unwritten.add(id);
                true
            }
            Outcome::Unknown | Outcome::Lease(_) => false,
        }
    }
}

fn purpose(id: &str) -> String {
    format!("pins {id}")
}
