//! A lock that one node holds at a time, for work of some seconds. It is released when its node has ended, or when
//! other nodes have seen the same lock for too long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::kv;
use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use toolyard_model::{Scope, SharedLock};

use crate::ownership::{Member, Outcome};
use crate::record;
use crate::shared::Shared;
use crate::store::{Latest, delete, latest, replace};

/// Longer than a refresh takes.
const LONGEST: Duration = Duration::from_secs(40);
/// For how long the lock of a node is respected that no lease is known of: this node may have just started.
const GRACE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Serialize, Deserialize)]
struct Holder {
    member: Member,
}

#[derive(Debug)]
struct Lock {
    bucket: kv::Store,
    key: String,
    revision: u64,
    scope: Scope,
}

impl SharedLock for Lock {}

impl Drop for Lock {
    fn drop(&mut self) {
        let (bucket, key, revision) = (self.bucket.clone(), std::mem::take(&mut self.key), self.revision);
        self.scope.spawn(async move {
            // If it fails, the lock is free after a while.
            delete(&bucket, &key, revision).await;
        });
    }
}

/// The version of each lock that was seen last, and since when.
pub(super) type Seen = Mutex<BTreeMap<String, (u64, Instant)>>;

/// An error if it is still held after `patience`.
pub(super) async fn take(
    bucket: &kv::Store,
    shared: &Arc<Shared>,
    scope: &Scope,
    name: &str,
    seen: &Seen,
    patience: Duration,
) -> Result<Box<dyn SharedLock>, String> {
    let key = format!("lock/{name}");
    let member = shared.state().ownership.me().clone();
    let sealed = Bytes::from(record::seal(&shared.keys, &key, &Holder { member }));
    let deadline = Instant::now() + patience;
    loop {
        let held = latest(bucket, &key).await?;
        let revision = held.as_ref().map(|held| held.revision);
        let is_held = held.is_some_and(|held| is_held(shared, seen, &key, &held));
        if !is_held {
            match replace(bucket, &key, sealed.clone(), revision).await {
                Outcome::Done(revision) => {
                    seen.lock().remove(&key);
                    let (bucket, scope) = (bucket.clone(), scope.clone());
                    return Ok(Box::new(Lock { bucket, key, revision, scope }));
                }
                Outcome::Conflict => {}
                Outcome::Unknown | Outcome::Lease(_) => return Err("NATS did not answer".to_owned()),
            }
        }
        if Instant::now() >= deadline {
            return Err("another node holds the lock".to_owned());
        }
        sleep(PAUSE).await;
    }
}

fn is_held(shared: &Shared, seen: &Seen, key: &str, held: &Latest) -> bool {
    let since = seen_since(seen, key, held.revision);
    let holder: Option<Holder> = record::open(&shared.keys, key, &held.value);
    let Some(Holder { member }) = holder else { return false };
    let (state, now) = (shared.state(), shared.now());
    let longest = if state.is_alive(&member, now) {
        LONGEST
    } else if state.ownership.shows(&member) {
        return false;
    } else {
        GRACE
    };
    since.elapsed() < longest
}

fn seen_since(seen: &Seen, key: &str, revision: u64) -> Instant {
    let mut seen = seen.lock();
    let (known, since) = seen.entry(key.to_owned()).or_insert_with(|| (revision, Instant::now()));
    if *known != revision {
        (*known, *since) = (revision, Instant::now());
    }
    *since
}
