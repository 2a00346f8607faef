//! The sessions and connections of clients that are open, for operators.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde_json::{Value, json};
use toolyard_model::{ClientKey, Origin, Principal};

use crate::ledger::label;
use crate::report::at;

/// So many are shown; more are not recorded.
const MOST: usize = 10_000;

#[derive(Default)]
pub(crate) struct OpenSessions(Mutex<HashMap<ClientKey, Session>>);

struct Session {
    began: SystemTime,
    origin: Arc<Origin>,
}

impl OpenSessions {
    fn all(&self) -> MutexGuard<'_, HashMap<ClientKey, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn began(&self, origin: &Arc<Origin>) {
        let mut all = self.all();
        if all.len() < MOST {
            all.insert(origin.client.clone(), Session { began: SystemTime::now(), origin: origin.clone() });
        }
    }

    pub(crate) fn ended(&self, client: &ClientKey) {
        self.all().remove(client);
    }

    pub(crate) fn count(&self) -> usize {
        self.all().len()
    }

    /// The sessions that `asking` may see, or all for an operator, the oldest first.
    pub(crate) fn to_json(&self, asking: Option<&Principal>) -> Vec<Value> {
        let all = self.all();
        let mut seen: Vec<&Session> = all
            .values()
            .filter(|session| asking.is_none_or(|asking| asking.name() == session.origin.principal.name()))
            .collect();
        seen.sort_by_key(|session| session.began);
        seen.into_iter().map(Session::to_json).collect()
    }
}

impl Session {
    fn to_json(&self) -> Value {
        let Origin { view, principal, client, revision, client_info, .. } = &*self.origin;
        json!({
            "session": label(client),
            "since": at(self.began),
            "principal": principal.name(),
            "view": format!("/mcp/{view}").trim_end_matches('/'),
            "revision": revision.as_str(),
            "client": client_info,
        })
    }
}
