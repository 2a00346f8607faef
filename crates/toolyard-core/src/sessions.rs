//! The sessions and connections of clients that are open, for operators.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::time::Instant;
use toolyard_model::{ClientKey, Origin, Principal};

use crate::ledger::label;
use crate::ledger::meter::{ByWay, Histogram};
use crate::report::at;

/// The maximum number of recorded sessions.
const MOST: usize = 10_000;

#[derive(Default)]
pub(crate) struct OpenSessions {
    open: Mutex<HashMap<ClientKey, OpenSession>>,
    /// How long those lasted that have ended.
    pub(crate) lasted: ByWay<Histogram>,
}

struct OpenSession {
    began: SystemTime,
    since: Instant,
    origin: Arc<Origin>,
}

impl OpenSessions {
    fn all(&self) -> MutexGuard<'_, HashMap<ClientKey, OpenSession>> {
        self.open.lock()
    }

    pub(crate) fn began(&self, origin: &Arc<Origin>) {
        let mut all = self.all();
        if all.len() < MOST {
            let (began, since) = (SystemTime::now(), Instant::now());
            all.insert(origin.client.clone(), OpenSession { began, since, origin: origin.clone() });
        }
    }

    pub(crate) fn ended(&self, client: &ClientKey) {
        let ended = self.all().remove(client);
        if let Some(OpenSession { since, origin, .. }) = ended {
            self.lasted.of(origin.revision, origin.transport).add(since.elapsed());
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.all().len()
    }

    /// The sessions that `asking` may see, or all for an operator, the oldest first.
    pub(crate) fn to_json(&self, asking: Option<&Principal>) -> Vec<Value> {
        let all = self.all();
        let mut seen: Vec<&OpenSession> = all
            .values()
            .filter(|session| asking.is_none_or(|asking| asking.name() == session.origin.principal.name()))
            .collect();
        seen.sort_by_key(|session| session.began);
        seen.into_iter().map(OpenSession::to_json).collect()
    }
}

impl OpenSession {
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
