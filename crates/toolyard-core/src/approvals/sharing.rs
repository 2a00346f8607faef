//! Approvals of several gateways: what waits at one can be decided about at another, also when the first is gone. A
//! grant that was not used holds at all of them, for one call; one for a client without a session holds at all of them
//! until it expires. A session is at one gateway, and so are its grants.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use serde::Deserialize as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Approvals, Grant, Pending, SharedApprovals};
use crate::Gateway;

/// A grant that only this gateway knows.
#[derive(Debug)]
pub struct UnsharedGrant {
    pub key: String,
    /// Whether it is for one call.
    pub is_once: bool,
    pub grant: Value,
}

impl Grant {
    /// Whether another gateway may use it up.
    pub(super) fn is_to_be_claimed(&self) -> bool {
        self.is_shared && self.is_once
    }

    /// The key by which other gateways know the call.
    pub(super) fn key(&self) -> String {
        let text = serde_json::to_vec(&self.subject).unwrap_or_default();
        HEXLOWER.encode(&Sha256::digest(&text)[..16])
    }
}

impl Approvals {
    pub(super) fn learn(&self, grant: Grant) {
        let mut change = self.change();
        let mut state = self.state();
        let is_as_good = |known: &Grant| known.is_shared && known.expires >= grant.expires;
        let is_known = state.grants.iter().any(|known| is_as_good(known) && known.key() == grant.key());
        if !is_known {
            // A call that waits here for this approval continues.
            let is_meant =
                |pending: &Pending| pending.subject == grant.subject && pending.session == grant.session;
            state.pending.retain(|_, pending| !is_meant(pending));
            state.grant(grant);
            change.store(state);
            self.changed.send_modify(|count| *count += 1);
        }
    }
}

impl Gateway {
    /// Reports changes of what waits and of what was granted, and takes grants of others. Set once.
    pub fn share_approvals(&self, with: Arc<dyn SharedApprovals>) {
        let _ = self.shared().approvals.shared.set(with);
    }

    /// The calls that wait at this gateway, by their ids, for other gateways.
    pub fn waiting_calls(&self) -> Vec<(String, Value)> {
        let state = self.shared().approvals.state();
        let call =
            |(id, pending): (&String, &Pending)| Some((id.clone(), serde_json::to_value(pending).ok()?));
        state.pending.iter().filter_map(call).collect()
    }

    /// The grants that were given here and that other gateways do not know yet.
    pub fn unshared_grants(&self) -> Vec<UnsharedGrant> {
        let state = self.shared().approvals.state();
        let is_meant = |grant: &&Grant| grant.session.is_none() && !grant.is_shared;
        let grant = |grant: &Grant| {
            let (key, is_once) = (grant.key(), grant.is_once);
            Some(UnsharedGrant { key, is_once, grant: serde_json::to_value(grant).ok()? })
        };
        state.grants.iter().filter(is_meant).filter_map(grant).collect()
    }

    /// Begins to share a grant: from now on, one for one call must be claimed before it is used. Returns false if it was
    /// already used.
    pub fn begin_to_share_grant(&self, key: &str) -> bool {
        let approvals = &self.shared().approvals;
        let mut change = approvals.change();
        let mut state = approvals.state();
        let Some(grant) = state.grants.iter_mut().find(|grant| !grant.is_shared && grant.key() == key) else {
            return false;
        };
        grant.is_shared = true;
        change.store(state);
        true
    }

    /// Another gateway has given a grant.
    pub fn learn_grant(&self, grant: Value) {
        if let Ok(grant) = serde_json::from_value::<Grant>(grant) {
            self.shared().approvals.learn(Grant { is_shared: true, ..grant });
        }
    }

    /// A grant that gateways have together was used, or has ended.
    pub fn forget_grant(&self, key: &str) {
        let approvals = &self.shared().approvals;
        let mut change = approvals.change();
        let mut state = approvals.state();
        let before = state.grants.len();
        state.grants.retain(|grant| !(grant.is_shared && grant.key() == key));
        if state.grants.len() != before {
            change.store(state);
        }
    }

    /// A call that waits here was decided about elsewhere.
    pub fn forget_waiting(&self, id: &str) {
        let approvals = &self.shared().approvals;
        let mut change = approvals.change();
        let mut state = approvals.state();
        if state.pending.remove(id).is_some() {
            change.store(state);
            approvals.changed.send_modify(|count| *count += 1);
        }
    }

    /// Decides about a call that waited at a gateway that is no longer running. The grant is made here.
    pub fn decide_for(&self, id: &str, waiting: Value, is_approved: bool) -> Option<Value> {
        let pending: Pending = serde_json::from_value(waiting).ok()?;
        let approvals = &self.shared().approvals;
        let change = approvals.change();
        approvals.settle((change, approvals.state()), id, pending, is_approved);
        Some(if is_approved { json!({ "approved": [id] }) } else { json!({ "denied": id }) })
    }

    /// A waiting call of another gateway, as lists show it. Nothing if it cannot be read.
    pub fn waiting_json(&self, id: &str, waiting: &Value) -> Option<Value> {
        Some(Pending::deserialize(waiting).ok()?.listed(id))
    }

    /// A waiting call of another gateway, with all of its arguments.
    pub fn whole_waiting_json(&self, id: &str, waiting: &Value) -> Option<Value> {
        Some(Pending::deserialize(waiting).ok()?.whole(id))
    }
}
