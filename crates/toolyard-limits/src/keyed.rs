//! One limiter per key: per principal, per tool, per model.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Demand, Limit, Limiter, Share};

/// Keys that are kept before idle ones are dropped.
const SWEEP_ABOVE: usize = 1024;

/// Limiters with the same settings, made when a key is first seen and dropped when they are idle.
#[derive(Debug)]
pub struct Keyed {
    limit: Limit,
    limiters: Mutex<Limiters>,
}

#[derive(Debug, Default)]
struct Limiters {
    by_key: HashMap<Arc<str>, Limiter>,
    /// The number of keys at which idle limiters are removed again.
    sweep_at: usize,
    /// The share of the limit that a new key begins with, where several gateways have the limit together.
    share: Option<Share>,
}

impl Keyed {
    pub fn new(limit: Limit) -> Self {
        Self { limit, limiters: Mutex::new(Limiters { sweep_at: SWEEP_ABOVE, ..Limiters::default() }) }
    }

    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// The limiter of `key`.
    pub fn of(&self, key: &Arc<str>) -> Limiter {
        let mut limiters = self.limiters.lock();
        if let Some(limiter) = limiters.by_key.get(key) {
            return limiter.clone();
        }
        if limiters.by_key.len() >= limiters.sweep_at {
            limiters.by_key.retain(|_, limiter| !limiter.is_idle());
            // Busy keys are not checked again for each new one.
            limiters.sweep_at = SWEEP_ABOVE.max(limiters.by_key.len() * 2);
        }
        let limiter = Limiter::new(self.limit.clone());
        if let Some(share) = &limiters.share {
            limiter.set_share(share);
        }
        limiters.by_key.insert(key.clone(), limiter.clone());
        limiter
    }

    /// Returns the demand and the use of each key.
    pub fn take_demands(&self) -> Vec<(Arc<str>, Demand)> {
        let limiters = self.limiters.lock();
        let demand = |(key, limiter): (&Arc<str>, &Limiter)| (key.clone(), limiter.take_demand());
        limiters.by_key.iter().map(demand).filter(|(_, demand)| *demand != Demand::default()).collect()
    }

    /// Uses only a share of the limit for each key: the one that is given for it, or `usual`.
    pub fn set_shares(&self, usual: Share, shares: &HashMap<Arc<str>, Share>) {
        let mut limiters = self.limiters.lock();
        limiters.share = Some(usual);
        for (key, limiter) in &limiters.by_key {
            limiter.set_share(shares.get(key).unwrap_or(&usual));
        }
    }

    /// How many keys are kept.
    pub fn len(&self) -> usize {
        self.limiters.lock().by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_key_has_its_own_limit() {
        let keyed = Keyed::new(Limit::concurrent(1));
        let _ann = keyed.of(&"ann".into()).try_acquire().unwrap();
        assert!(keyed.of(&"ann".into()).try_acquire().is_none());
        assert!(keyed.of(&"bob".into()).try_acquire().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn invented_keys_do_not_pile_up_and_busy_ones_stay() {
        let keyed = Keyed::new(Limit::concurrent(1));
        let busy: Arc<str> = "busy".into();
        let _held = keyed.of(&busy).try_acquire().unwrap();
        for n in 0..10_000 {
            drop(keyed.of(&format!("key {n}").into()).try_acquire().unwrap());
        }
        assert!(keyed.len() <= SWEEP_ABOVE, "{}", keyed.len());
        assert!(keyed.of(&busy).try_acquire().is_none());
    }
}
