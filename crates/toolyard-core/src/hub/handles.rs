//! Handles: names for instances, for clients without a session. A handle is unguessable, belongs to the principal
//! that requested it, and expires an hour after its last use.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use tokio::time::Instant;
use toolyard_model::Principal;
use toolyard_proto::name::UpstreamId;

/// How long a handle is good without being used.
pub(super) const IDLE: Duration = Duration::from_hours(1);
/// How many there are at most; the one that was not used for longest makes room.
const MOST: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Handles(Mutex<HashMap<String, Handle>>);

#[derive(Debug)]
struct Handle {
    principal: Principal,
    instance: UpstreamId,
    used: Instant,
}

impl Handles {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Handle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn issue(&self, principal: &Principal, instance: &UpstreamId, now: Instant) -> String {
        let mut handles = self.all();
        if handles.len() >= MOST {
            handles.retain(|_, handle| handle.is_good(now));
        }
        if handles.len() >= MOST {
            let oldest = handles.iter().min_by_key(|(_, handle)| handle.used).map(|(key, _)| key.clone());
            handles.retain(|key, _| Some(key) != oldest.as_ref());
        }
        let key = random();
        let handle = Handle { principal: principal.clone(), instance: instance.clone(), used: now };
        handles.insert(key.clone(), handle);
        key
    }

    /// The instance that it leads to. To use it keeps it.
    pub(super) fn redeem(&self, key: &str, principal: &Principal, now: Instant) -> Option<UpstreamId> {
        let mut handles = self.all();
        let handle = handles.get_mut(key).filter(|handle| handle.is_of(principal, now))?;
        handle.used = now;
        Some(handle.instance.clone())
    }

    /// Gives it back.
    pub(super) fn retract(&self, key: &str, principal: &Principal, now: Instant) -> Option<UpstreamId> {
        let mut handles = self.all();
        handles.get(key).filter(|handle| handle.is_of(principal, now))?;
        handles.remove(key).map(|handle| handle.instance)
    }

    pub(super) fn count(&self, instance: &UpstreamId, now: Instant) -> usize {
        self.all().values().filter(|handle| handle.instance == *instance && handle.is_good(now)).count()
    }
}

impl Handle {
    fn is_good(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) < IDLE
    }

    fn is_of(&self, principal: &Principal, now: Instant) -> bool {
        self.principal == *principal && self.is_good(now)
    }
}

fn random() -> String {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).expect("the system gives random numbers");
    format!("inst_{}", BASE64URL_NOPAD.encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop() -> UpstreamId {
        UpstreamId::parse("shop").unwrap()
    }

    #[test]
    fn a_handle_is_good_for_its_owner_and_for_an_hour_after_it_was_used() {
        let (handles, now) = (Handles::default(), Instant::now());
        let (ann, bob) = (Principal::token("ann"), Principal::token("bob"));
        let key = handles.issue(&ann, &shop(), now);
        assert!(key.len() >= 22, "128 bits need 22 characters: {key}");
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
    }

    #[test]
    fn there_are_only_so_many_handles() {
        let (handles, now) = (Handles::default(), Instant::now());
        let ann = Principal::token("ann");
        let first = handles.issue(&ann, &shop(), now);
        for at in 0..MOST {
            handles.issue(&ann, &shop(), now + Duration::from_millis(1 + at as u64));
        }
        let end = now + Duration::from_mins(1);
        assert_eq!(handles.all().len(), MOST);
        assert_eq!(handles.redeem(&first, &ann, end), None);
        // Those that are over go first.
        handles.issue(&ann, &shop(), now + 2 * IDLE);
        assert_eq!(handles.all().len(), 1);
    }
}
