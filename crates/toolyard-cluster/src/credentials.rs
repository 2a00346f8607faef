//! The credentials of sign-ins at exported upstreams, which all nodes have together: sealed with the cluster's key in a
//! bucket, one key each. A refresh holds a lock, since a refresh token may be valid only once.

mod lock;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_nats::jetstream::kv;
use bytes::Bytes;
use data_encoding::BASE64;
use futures_util::StreamExt as _;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::time::{MissedTickBehavior, interval, sleep};
use toolyard_core::Gateway;
use toolyard_core::upstream::state::Phase;
use toolyard_model::{BoxFuture, Scope, SharedLock, SharedSecrets, Versioned};

use crate::ownership::{Member, Outcome};
use crate::record;
use crate::shared::Shared;
use crate::store::{Latest, Opener, StoreError, latest, replace, watch};

const PAUSE: Duration = Duration::from_secs(1);
/// How often a value is read again because another node has replaced it before our write.
const TRIES: usize = 5;

/// What the bucket holds for a credential.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// Who wrote it.
    by: Member,
    /// In milliseconds since 1970.
    at: u64,
    /// In base64. Nothing if it was removed.
    value: Option<String>,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct CredentialStore(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    /// Set when this node joins.
    joined: OnceLock<(Opener, Scope)>,
    bucket: Mutex<Option<kv::Store>>,
    /// Secrets that the others have not received yet.
    unsent: Mutex<BTreeMap<String, Versioned>>,
    /// The locks of other nodes.
    locks: lock::Seen,
}

impl fmt::Debug for CredentialStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialStore")
    }
}

impl SharedSecrets for CredentialStore {
    fn agree(&self, name: &str, own: Option<Versioned>) -> BoxFuture<Result<Option<Versioned>, String>> {
        let (store, name) = (self.clone(), name.to_owned());
        Box::pin(async move { store.agree_or_remember(&name, own).await })
    }

    fn lock(&self, name: &str, patience: Duration) -> BoxFuture<Result<Box<dyn SharedLock>, String>> {
        let (store, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            let Inner { shared, joined, locks, .. } = &*store.0;
            let (_, scope) = joined.get().ok_or_else(absent)?;
            lock::take(&store.bucket().await?, shared, scope, &name, locks, patience).await
        })
    }
}

impl CredentialStore {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let (joined, bucket) = (OnceLock::new(), Mutex::default());
        let (unsent, locks) = (Mutex::default(), lock::Seen::default());
        Self(Arc::new(Inner { shared, joined, bucket, unsent, locks }))
    }

    /// Runs until it is dropped: sends the others what they do not have yet, and connects upstreams that wait for a
    /// sign-in when another node has one.
    pub(crate) async fn run(self, opener: Opener, scope: Scope, gateway: Gateway) {
        let _ = self.0.joined.set((opener, scope));
        loop {
            if let Err(error) = self.follow(&gateway).await {
                tracing::debug!(target: "cluster", %error, "sign-ins are not shared; trying again");
            }
            sleep(PAUSE).await;
        }
    }

    async fn follow(&self, gateway: &Gateway) -> Result<(), StoreError> {
        let Ok(bucket) = self.bucket().await else { return Ok(()) };
        let mut entries = watch(&bucket).await?;
        // The watch survives a lost connection, so it does not show when secrets can be sent again.
        let mut ticks = interval(PAUSE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                entry = entries.next() => {
                    let Some(Ok(entry)) = entry else { return Ok(()) };
                    self.saw(&entry, gateway);
                }
                _ = ticks.tick() => self.send_unsent().await,
            }
        }
    }

    async fn send_unsent(&self) {
        let unsent: Vec<_> = self.unsent().iter().map(|(name, own)| (name.clone(), own.clone())).collect();
        for (name, own) in unsent {
            // A secret that cannot be sent now either is still remembered.
            let _ = self.agree_or_remember(&name, Some(own)).await;
        }
    }

    fn saw(&self, entry: &kv::Entry, gateway: &Gateway) {
        let kept = record::open::<Kept>(&self.0.shared.keys, &purpose(&entry.key), &entry.value);
        let is_news = kept.is_some_and(|kept| kept.by != *self.0.shared.state().ownership.me());
        if !is_news {
            return;
        }
        let waiting = gateway.upstreams().into_iter();
        waiting
            .filter(|upstream| upstream.state().phase == Phase::SignIn)
            .for_each(|upstream| upstream.wake());
    }

    async fn agree_or_remember(
        &self,
        name: &str,
        own: Option<Versioned>,
    ) -> Result<Option<Versioned>, String> {
        let remembered = self.unsent().get(name).cloned();
        let newest = remembered.into_iter().chain(own).max_by_key(|one| one.at);
        let agreed = self.agree_now(name, newest.clone()).await;
        let mut unsent = self.unsent();
        // A later one may have been recorded in the meantime.
        let newest = newest.filter(|newest| unsent.get(name).is_none_or(|other| other.at <= newest.at));
        match (&agreed, newest) {
            (Ok(_), Some(_)) => drop(unsent.remove(name)),
            (Err(_), Some(newest)) => drop(unsent.insert(name.to_owned(), newest)),
            (_, None) => {}
        }
        drop(unsent);
        agreed
    }

    async fn agree_now(&self, name: &str, own: Option<Versioned>) -> Result<Option<Versioned>, String> {
        let bucket = self.bucket().await?;
        for _ in 0..TRIES {
            let entry = latest(&bucket, name).await.inspect_err(|_| self.forget_bucket())?;
            let known = entry.as_ref().and_then(|entry| self.read(name, entry));
            let own = match own.clone() {
                Some(own) if known.as_ref().is_none_or(|known| is_newer(&own, known)) => own,
                _ => return Ok(known),
            };
            let revision = entry.map(|entry| entry.revision);
            match replace(&bucket, name, self.seal(name, &own), revision).await {
                Outcome::Done(_) => return Ok(Some(own)),
                Outcome::Conflict => {}
                Outcome::Unknown | Outcome::Lease(_) => return Err("NATS did not answer".to_owned()),
            }
        }
        Err("other nodes keep changing this sign-in; try again".to_owned())
    }

    fn seal(&self, name: &str, own: &Versioned) -> Bytes {
        let by = self.0.shared.state().ownership.me().clone();
        let value = own.value.as_ref().map(|value| BASE64.encode(value));
        let kept = Kept { by, at: own.at, value };
        Bytes::from(record::seal(&self.0.shared.keys, &purpose(name), &kept))
    }

    /// What cannot be read is as good as absent, and is replaced.
    fn read(&self, name: &str, entry: &Latest) -> Option<Versioned> {
        let opened = || {
            let kept: Kept = record::open(&self.0.shared.keys, &purpose(name), &entry.value)?;
            let value = kept.value.map(|value| BASE64.decode(value.as_bytes()));
            Some(Versioned { at: kept.at, value: value.transpose().ok()? })
        };
        let read = opened();
        if read.is_none() {
            tracing::warn!(target: "cluster", name, "a shared sign-in is not sealed with the cluster's key; it is ignored");
        }
        read
    }

    /// An error at once while NATS is not connected: no call waits for it.
    async fn bucket(&self) -> Result<kv::Store, String> {
        if !self.0.shared.is_connected.load(Ordering::Relaxed) {
            return Err("NATS is not connected".to_owned());
        }
        if let Some(bucket) = self.0.bucket.lock().clone() {
            return Ok(bucket);
        }
        let (opener, _) = self.0.joined.get().ok_or_else(absent)?;
        let bucket = opener.open("credentials", Duration::ZERO).await.map_err(|error| error.to_string())?;
        *self.0.bucket.lock() = Some(bucket.clone());
        Ok(bucket)
    }

    /// It may have been deleted, and is opened again.
    fn forget_bucket(&self) {
        *self.0.bucket.lock() = None;
    }

    fn unsent(&self) -> MutexGuard<'_, BTreeMap<String, Versioned>> {
        self.0.unsent.lock()
    }
}

fn absent() -> String {
    "this node has not joined the cluster yet".to_owned()
}

fn is_newer(own: &Versioned, known: &Versioned) -> bool {
    own.at > known.at && own.value != known.value
}

fn purpose(name: &str) -> String {
    format!("credential {name}")
}
