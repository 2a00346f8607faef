//! Gateways that share their credentials, each with a store of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::sync::OwnedMutexGuard;
use toolyard_model::{BoxFuture, SharedLock, SharedSecrets, Versioned};
use toolyard_oauth::client::{Keeper, SHARED, Settings, Vault};
use toolyard_oauth::{Http, Kind};

use crate::server::{Server, token};

/// What all gateways have together, in memory.
#[derive(Debug, Default)]
struct Together {
    all: Mutex<BTreeMap<String, Versioned>>,
    lock: Arc<tokio::sync::Mutex<()>>,
    is_away: AtomicBool,
}

#[derive(Debug)]
struct Held(#[expect(dead_code, reason = "held")] OwnedMutexGuard<()>);

impl SharedLock for Held {}

impl SharedSecrets for Together {
    fn agree(&self, name: &str, own: Option<Versioned>) -> BoxFuture<Result<Option<Versioned>, String>> {
        let mut all = self.all.lock();
        if self.is_away.load(Ordering::SeqCst) {
            return Box::pin(async { Err("away".to_owned()) });
        }
        if let Some(own) = own
            && all.get(name).is_none_or(|known| own.at > known.at)
        {
            all.insert(name.to_owned(), own);
        }
        let latest = all.get(name).cloned();
        Box::pin(async move { Ok(latest) })
    }

    fn lock(&self, _: &str, patience: Duration) -> BoxFuture<Result<Box<dyn SharedLock>, String>> {
        let (lock, is_away) = (self.lock.clone(), self.is_away.load(Ordering::SeqCst));
        Box::pin(async move {
            if is_away {
                return Err("away".to_owned());
            }
            let held = if patience.is_zero() {
                lock.try_lock_owned().map_err(|_| "busy".to_owned())?
            } else {
                lock.lock_owned().await
            };
            Ok(Box::new(Held(held)) as Box<dyn SharedLock>)
        })
    }
}

/// One gateway.
struct Node {
    keeper: Arc<Keeper>,
    folder: TempDir,
}

fn node(server: &Server, together: &Arc<Together>) -> Node {
    let folder = tempfile::tempdir().unwrap();
    let vault = Vault::open(folder.path()).unwrap().shared_with(together.clone());
    let target = server.target(Settings::default());
    Node { keeper: Arc::new(Keeper::new(Http::default(), vault, target, SHARED)), folder }
}

async fn used(node: &Node) -> Option<String> {
    let header = node.keeper.authorization().await.unwrap()?;
    Some(header.to_str().unwrap().trim_start_matches("Bearer ").to_owned())
}

#[tokio::test]
async fn a_sign_in_at_one_gateway_is_used_and_refreshed_by_the_other() {
    let (server, together) = (Server::start().await, Arc::new(Together::default()));
    server.script().tokens =
        vec![(200, token("first", Some("r1"), 0)), (200, token("second", Some("r2"), 3600))];
    let (a, b) = (node(&server, &together), node(&server, &together));
    server.sign_in(&a.keeper).await;
    assert_eq!(used(&b).await.as_deref(), Some("second"));
    assert_eq!(used(&a).await.as_deref(), Some("second"), "it was refreshed at the other");
    assert_eq!(server.asked("/token").len(), 2, "one sign-in and one refresh");
    // The copy is enough to go on alone.
    together.is_away.store(true, Ordering::SeqCst);
    a.keeper.reload().await.unwrap();
    assert_eq!(used(&a).await.as_deref(), Some("second"));
}

#[tokio::test]
async fn a_sign_out_reaches_the_other_gateway_and_its_copy_does_not_undo_it() {
    let (server, together) = (Server::start().await, Arc::new(Together::default()));
    let (a, b) = (node(&server, &together), node(&server, &together));
    server.sign_in(&a.keeper).await;
    assert_eq!(used(&b).await.as_deref(), Some("first"));
    assert!(a.keeper.sign_out().await.unwrap());
    b.keeper.reload().await.unwrap();
    assert_eq!(used(&b).await, None);
    a.keeper.reload().await.unwrap();
    assert_eq!(used(&a).await, None);
}

#[tokio::test]
async fn a_sign_out_counts_though_the_clock_of_the_other_gateway_is_ahead() {
    let (server, together) = (Server::start().await, Arc::new(Together::default()));
    let a = node(&server, &together);
    server.sign_in(&a.keeper).await;
    together.all.lock().values_mut().for_each(|known| known.at += 3_600_000);
    assert!(a.keeper.sign_out().await.unwrap());
    a.keeper.reload().await.unwrap();
    assert_eq!(used(&a).await, None);
}

#[tokio::test]
async fn what_another_process_of_the_user_signs_out_of_is_signed_out_everywhere() {
    let (server, together) = (Server::start().await, Arc::new(Together::default()));
    let (a, b) = (node(&server, &together), node(&server, &together));
    server.sign_in(&a.keeper).await;
    assert_eq!(used(&b).await.as_deref(), Some("first"));
    let vault = Vault::open(a.folder.path()).unwrap().shared_by_another();
    let beside = Keeper::new(Http::default(), vault, server.target(Settings::default()), SHARED);
    assert!(beside.sign_out().await.unwrap());
    a.keeper.reload().await.unwrap();
    b.keeper.reload().await.unwrap();
    assert_eq!((used(&a).await, used(&b).await), (None, None));
}

#[tokio::test]
async fn another_process_of_the_user_does_not_refresh_what_its_gateway_shares() {
    let (server, together) = (Server::start().await, Arc::new(Together::default()));
    server.script().tokens = vec![(200, token("first", Some("r1"), 0))];
    let a = node(&server, &together);
    server.sign_in(&a.keeper).await;
    let vault = Vault::open(a.folder.path()).unwrap().shared_by_another();
    let beside = Keeper::new(Http::default(), vault, server.target(Settings::default()), SHARED);
    let used = Arc::new(beside).authorization().await.unwrap();
    assert_eq!(used.unwrap(), "Bearer first");
    assert_eq!(server.asked("/token").len(), 1, "one sign-in and no refresh");
}

#[tokio::test]
async fn without_the_others_no_refresh_token_is_used() {
    let (server, together) = (Server::start().await, Arc::new(Together::default()));
    server.script().tokens =
        vec![(200, token("first", Some("r1"), 0)), (200, token("second", Some("r2"), 3600))];
    let a = node(&server, &together);
    server.sign_in(&a.keeper).await;
    together.is_away.store(true, Ordering::SeqCst);
    assert_eq!(used(&a).await.as_deref(), Some("first"), "the server decides whether it is still good");
    assert_eq!(server.asked("/token").len(), 1);
    let old = a.keeper.authorization().await.unwrap();
    let refused = a.keeper.renew(old.as_ref(), &toolyard_oauth::client::Challenge::default()).await;
    assert_eq!(refused.unwrap_err().kind, Kind::Unreachable);
    together.is_away.store(false, Ordering::SeqCst);
    assert_eq!(used(&a).await.as_deref(), Some("second"));
}
