//! Handles: names for instances, for clients without a session. A handle can be neither guessed nor forged, belongs to
//! the principal that requested it, and expires an hour after its last use.
//!
//! A handle is sealed with the gateway's keys, so that it survives a restart of the gateway: the start counts as a use.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use toolyard_model::Principal;
use toolyard_proto::name::UpstreamId;

use crate::keys::StateKeys;

/// How long an unused handle is valid.
pub(super) const IDLE: Duration = Duration::from_hours(1);
/// How old a handle of an earlier run may be: when it was last used is not known.
const MAX_AGE: Duration = Duration::from_hours(24);
/// How many there are at most; the one that was not used for longest makes room.
const MOST: usize = 10_000;
const PREFIX: &str = "inst_";
const PURPOSE: &str = "handle of an instance";

#[derive(Debug)]
pub(super) struct Handles {
    known: Mutex<HashMap<String, Handle>>,
    keys: Arc<StateKeys>,
    started: Instant,
}

#[derive(Debug)]
struct Handle {
    principal: Arc<str>,
    instance: UpstreamId,
    used: Instant,
    /// Remembered so that it is not restored.
    is_retracted: bool,
}

/// The content of a handle.
#[derive(Deserialize, Serialize)]
struct Sealed {
    /// The run of the gateway that issued it.
    run: [u8; 8],
    principal: Arc<str>,
    instance: String,
    /// In seconds since 1970.
    issued: u64,
}

impl Handles {
    pub(super) fn new(keys: Arc<StateKeys>) -> Self {
        Self { known: Mutex::default(), keys, started: Instant::now() }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Handle>> {
        self.known.lock()
    }

    pub(super) fn issue(&self, principal: &Principal, instance: &UpstreamId, now: Instant) -> String {
        let sealed = Sealed {
            run: self.keys.get().run(),
            principal: principal.name().clone(),
            instance: instance.to_string(),
            issued: seconds_since_1970(),
        };
        let bytes = serde_json::to_vec(&sealed).unwrap_or_default();
        // It names the gateway, so that the others of a cluster know where it is valid.
        let keys = self.keys.get();
        let key = format!("{PREFIX}{}.{}", keys.gateway(), keys.seal(PURPOSE, &bytes));
        let handle = Handle {
            principal: sealed.principal,
            instance: instance.clone(),
            used: now,
            is_retracted: false,
        };
        insert(&mut self.known(), key.clone(), handle, now);
        key
    }

    /// The instance that it refers to. Each use extends its life.
    pub(super) fn redeem(&self, key: &str, principal: &Principal, now: Instant) -> Option<UpstreamId> {
        let mut known = self.known();
        self.restore(&mut known, key, now);
        let handle = known.get_mut(key).filter(|handle| handle.is_of(principal, now))?;
        handle.used = now;
        Some(handle.instance.clone())
    }

    /// Gives it back.
    pub(super) fn retract(&self, key: &str, principal: &Principal, now: Instant) -> Option<UpstreamId> {
        let mut known = self.known();
        self.restore(&mut known, key, now);
        let handle = known.get_mut(key).filter(|handle| handle.is_of(principal, now))?;
        handle.is_retracted = true;
        Some(handle.instance.clone())
    }

    /// A handle that an earlier run issued is known from its first use on. It must be used within an hour after the
    /// start; by then, one that was retracted in this run is still known.
    fn restore(&self, known: &mut HashMap<String, Handle>, key: &str, now: Instant) {
        if known.contains_key(key) || now.saturating_duration_since(self.started) >= IDLE {
            return;
        }
        let Some(sealed) = self.open(key) else { return };
        let age = seconds_since_1970().saturating_sub(sealed.issued);
        let Ok(instance) = UpstreamId::parse(&sealed.instance) else { return };
        if sealed.run == self.keys.get().run() || age >= MAX_AGE.as_secs() {
            return;
        }
        let handle = Handle { principal: sealed.principal, instance, used: now, is_retracted: false };
        insert(known, key.to_owned(), handle, now);
    }

    fn open(&self, key: &str) -> Option<Sealed> {
        let (gateway, sealed) = key.strip_prefix(PREFIX)?.split_once('.')?;
        let keys = self.keys.get();
        let bytes = keys.open(PURPOSE, sealed).filter(|_| gateway == keys.gateway())?;
        serde_json::from_slice(&bytes).ok()
    }

    pub(super) fn count(&self, instance: &UpstreamId, now: Instant) -> usize {
        self.known().values().filter(|handle| handle.instance == *instance && handle.is_good(now)).count()
    }
}

impl Handle {
    fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) < IDLE
    }

    fn is_good(&self, now: Instant) -> bool {
        !self.is_retracted && self.is_recent(now)
    }

    fn is_of(&self, principal: &Principal, now: Instant) -> bool {
        self.principal == *principal.name() && self.is_good(now)
    }
}

fn insert(known: &mut HashMap<String, Handle>, key: String, handle: Handle, now: Instant) {
    if known.len() >= MOST {
        known.retain(|_, handle| handle.is_recent(now));
    }
    if known.len() >= MOST {
        let oldest = known.iter().min_by_key(|(_, handle)| handle.used).map(|(key, _)| key.clone());
        known.retain(|key, _| Some(key) != oldest.as_ref());
    }
    known.insert(key, handle);
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop() -> UpstreamId {
        UpstreamId::parse("shop").unwrap()
    }

    fn handles() -> Handles {
        Handles::new(Arc::default())
    }

    #[test]
    fn a_handle_is_valid_for_its_owner_until_an_hour_after_its_last_use() {
        let (handles, now) = (handles(), Instant::now());
        let (ann, bob) = (Principal::token("ann"), Principal::token("bob"));
        let key = handles.issue(&ann, &shop(), now);
        assert_ne!(key, handles.issue(&ann, &shop(), now));
        let later = now + IDLE.saturating_sub(Duration::from_secs(1));
        assert_eq!(handles.redeem(&key, &bob, later), None);
        assert_eq!(handles.redeem(&key, &ann, later), Some(shop()));
        // The use has kept it; the other one is over.
        assert_eq!(handles.redeem(&key, &ann, now + IDLE), Some(shop()));
        assert_eq!(handles.count(&shop(), now + IDLE), 1);
        assert_eq!(handles.retract(&key, &bob, now + IDLE), None);
        assert_eq!(handles.retract(&key, &ann, now + IDLE), Some(shop()));
        assert_eq!(handles.redeem(&key, &ann, now + IDLE), None);
        assert_eq!(handles.count(&shop(), now + IDLE), 0);
    }

    #[test]
    fn a_handle_of_an_earlier_run_is_valid_for_its_owner_until_an_hour_after_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let started = || Handles::new(Arc::new(StateKeys::new(Some(folder.path()))));
        let (ann, bob) = (Principal::token("ann"), Principal::token("bob"));
        let key = started().issue(&ann, &shop(), Instant::now());
        let (next, now) = (started(), Instant::now());
        assert_eq!(next.redeem(&key, &bob, now), None);
        assert_eq!(next.redeem(&key, &ann, now), Some(shop()));
        assert_eq!(next.retract(&key, &ann, now), Some(shop()));
        assert_eq!(next.redeem(&key, &ann, now), None);
        let late = started();
        assert_eq!(late.redeem(&key, &ann, Instant::now() + IDLE), None);
        assert_eq!(handles().redeem(&key, &ann, Instant::now()), None, "other keys");
        let mut changed = key.into_bytes();
        changed[20] ^= 1;
        assert_eq!(started().redeem(&String::from_utf8(changed).unwrap(), &ann, Instant::now()), None);
    }

    #[test]
    fn there_are_only_so_many_handles() {
        let (handles, now) = (handles(), Instant::now());
        let ann = Principal::token("ann");
        let first = handles.issue(&ann, &shop(), now);
        for at in 0..MOST {
            handles.issue(&ann, &shop(), now + Duration::from_millis(1 + at as u64));
        }
        let end = now + Duration::from_mins(1);
        assert_eq!(handles.known().len(), MOST);
        assert_eq!(handles.redeem(&first, &ann, end), None);
        // Expired ones go first.
        handles.issue(&ann, &shop(), now + 2 * IDLE);
        assert_eq!(handles.known().len(), 1);
    }
}
