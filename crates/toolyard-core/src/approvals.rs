//! Approvals of calls: what waits for an operator, what was granted, and the sealed states that clients carry. A grant
//! is for one principal, one tool and the digest of the arguments. Everything is kept in a file, so that a restart
//! neither loses nor repeats a grant.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;
use toolyard_model::{ClientKey, Origin};
use toolyard_policy::rules::Approval;

use crate::event::{Events, What};
use crate::keys::StateKeys;
use crate::report::at;

/// So many calls may wait; more are refused.
const MOST_PENDING: usize = 1_000;
/// How many calls of one principal may wait, so that it does not keep out the others.
const MOST_PENDING_EACH: usize = 50;
const MOST_GRANTS: usize = 10_000;
/// So many decisions are remembered for reports.
const REMEMBERED: usize = 100;
/// Arguments are shown up to this size.
const SHOWN: usize = 10_000;
const PURPOSE: &str = "approval";
/// Followed by the gateway that sealed the state: another gateway may be behind this one, or beside it in a cluster.
const PREFIX: &str = "yard-approval-";

/// What is approved: these arguments of this tool, by this principal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Subject {
    principal: String,
    tool: String,
    digest: String,
}

impl Subject {
    pub(crate) fn new(origin: &Origin, tool: &str, args: &Value) -> Self {
        let principal = format!("{:?}", origin.principal.id());
        Self { principal, tool: tool.to_owned(), digest: toolyard_policy::canonical::digest(args) }
    }

    /// Whether it is about a call of this principal and tool, whatever its arguments are.
    pub(crate) fn is_of(&self, origin: &Origin, tool: &str) -> bool {
        self.tool == tool && self.principal == format!("{:?}", origin.principal.id())
    }
}

/// A call that needs approval.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) subject: Subject,
    pub(crate) approval: Approval,
    pub(crate) args: Value,
    /// Where the rule is written.
    pub(crate) rule: String,
}

/// What a client brings back in `requestState`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Carried {
    /// It was asked.
    Asked {
        nonce: String,
        subject: Subject,
        /// For how many seconds an approval of the session holds, if there can be one.
        lasts: Option<u64>,
        expires: u64,
    },
    /// The call was approved, and then its upstream asked; its own state is inside.
    Granted { nonce: String, subject: Subject, inner: Option<String>, expires: u64 },
}

#[derive(Default, Serialize, Deserialize)]
struct State {
    pending: BTreeMap<String, Pending>,
    grants: Vec<Grant>,
    /// Answers that were used, until they would have expired.
    used: BTreeMap<String, u64>,
    #[serde(default)]
    decided: VecDeque<Decided>,
    /// Counts changes.
    #[serde(skip)]
    version: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Pending {
    subject: Subject,
    /// The name of the principal, for people.
    principal: String,
    args: Value,
    rule: String,
    since: u64,
    expires: u64,
    for_session: bool,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Grant {
    subject: Subject,
    /// The session that it is for, where it is for more than one call and there is one.
    session: Option<String>,
    is_once: bool,
    expires: u64,
}

/// One decision, for reports.
#[derive(Clone, Serialize, Deserialize)]
struct Decided {
    /// The id under which it waited, if it did.
    #[serde(default)]
    id: Option<String>,
    at: u64,
    tool: String,
    principal: String,
    digest: String,
    by: String,
    approved: bool,
}

/// What an operator decided about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Approved,
    Denied,
    Waiting,
    /// It was not decided in time.
    Expired,
}

pub(crate) struct Approvals {
    keys: Arc<StateKeys>,
    path: Option<PathBuf>,
    state: Mutex<State>,
    /// The newest version in the file. Held while the file is written, which `state` is not.
    written: Mutex<u64>,
    /// Counts decisions, for calls that wait.
    changed: watch::Sender<u64>,
    /// Where decisions are reported.
    events: Option<Arc<Events>>,
}

impl std::fmt::Debug for Approvals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Approvals")
    }
}

impl Approvals {
    pub(crate) fn open(state_dir: Option<&Path>, keys: Arc<StateKeys>) -> Self {
        let path = state_dir.map(|folder| folder.join("approvals.json"));
        let state = path.as_deref().map(load).unwrap_or_default();
        let (state, changed) = (Mutex::new(state), watch::Sender::new(0));
        Self { keys, path, state, written: Mutex::default(), changed, events: None }
    }

    /// Reports every decision as an event.
    pub(crate) fn reporting_to(self, events: Arc<Events>) -> Self {
        Self { events: Some(events), ..self }
    }

    fn report(&self, subject: &Subject, principal: &str, by: &'static str, is_approved: bool) {
        let Some(events) = &self.events else { return };
        let (tool, digest) = (subject.tool.as_str().into(), subject.digest.as_str().into());
        events.emit(What::ApprovalDecided { tool, principal: principal.into(), digest, by, is_approved });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = now();
        state.pending.retain(|_, one| one.expires > now);
        state.grants.retain(|one| one.expires > now);
        state.used.retain(|_, expires| *expires > now);
        state
    }

    /// Stores a change before it is used, without the lock on what is stored: others read and change it meanwhile. What
    /// cannot be stored holds only until the gateway ends, and is logged.
    fn store(&self, mut state: MutexGuard<'_, State>) {
        let Some(path) = &self.path else { return };
        state.version += 1;
        let (version, bytes) = (state.version, serde_json::to_vec(&*state));
        drop(state);
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if *written > version {
            // A later change was stored meanwhile, and this one with it.
            return;
        }
        *written = version;
        let stored = bytes.map_err(io::Error::from).and_then(|bytes| write(path, &bytes));
        if let Err(error) = stored {
            tracing::warn!(path = %path.display(), %error, "approvals were not stored");
        }
    }

    /// Whether a call was granted. A grant for one call is used up.
    pub(crate) fn take(&self, subject: &Subject, client: &ClientKey) -> bool {
        let mut state = self.state();
        let session = session_of(client);
        let fits = |grant: &Grant| {
            grant.subject == *subject && (grant.session.is_none() || grant.session == session)
        };
        let Some(found) = state.grants.iter().position(fits) else { return false };
        if state.grants[found].is_once {
            state.grants.remove(found);
            self.store(state);
        }
        true
    }

    /// Grants all equal calls of a session, or of a principal without one, until the grant expires.
    pub(crate) fn grant_session(&self, subject: &Subject, client: &ClientKey, expires: Duration) {
        let mut state = self.state();
        let expires = now() + expires.as_secs();
        state.grant(Grant { subject: subject.clone(), session: session_of(client), is_once: false, expires });
        self.store(state);
    }

    /// Records what a client has decided.
    pub(crate) fn record(&self, subject: &Subject, principal: &str, is_approved: bool) {
        let mut state = self.state();
        state.record(None, subject, principal, "client", is_approved);
        self.store(state);
        self.report(subject, principal, "client", is_approved);
    }

    /// Files a call for an operator to decide, or finds it if it was filed before. `None` if too many wait.
    pub(crate) fn file(&self, wanted: &Wanted, principal: &str) -> Option<String> {
        let mut state = self.state();
        let known = state.pending.iter().find(|(_, one)| one.subject == wanted.subject);
        if let Some((id, _)) = known {
            return Some(id.clone());
        }
        let own = state.pending.values().filter(|one| one.principal == principal).count();
        if own >= MOST_PENDING_EACH || state.pending.len() >= MOST_PENDING {
            return None;
        }
        let id = random_id();
        let text = wanted.args.to_string();
        let is_long = text.len() > SHOWN;
        let args = if is_long { json!(format!("({} bytes)", text.len())) } else { wanted.args.clone() };
        let pending = Pending {
            subject: wanted.subject.clone(),
            principal: principal.to_owned(),
            args,
            rule: wanted.rule.clone(),
            since: now(),
            expires: now() + wanted.approval.expires.as_secs(),
            for_session: wanted.approval.is_for_session,
        };
        state.pending.insert(id.clone(), pending);
        self.store(state);
        tracing::info!(target: "policy", id, tool = wanted.subject.tool, principal, "a call waits for approval");
        Some(id)
    }

    /// Decides about a call that waits. `None` if there is none of that id.
    pub(crate) fn decide(&self, id: &str, is_approved: bool) -> Option<String> {
        let mut state = self.state();
        let pending = state.pending.remove(id)?;
        if is_approved {
            let (subject, is_once) = (pending.subject.clone(), !pending.for_session);
            state.grant(Grant { subject, session: None, is_once, expires: pending.expires });
        }
        state.record(Some(id), &pending.subject, &pending.principal, "operator", is_approved);
        self.store(state);
        self.report(&pending.subject, &pending.principal, "operator", is_approved);
        tracing::info!(target: "policy", id, tool = pending.subject.tool, principal = pending.principal, approved = is_approved, "an operator decided about a call");
        self.changed.send_modify(|count| *count += 1);
        Some(pending.subject.tool)
    }

    /// Waits until an operator has decided about a call, for a bounded time.
    pub(crate) async fn wait(&self, id: &str, subject: &Subject, at_most: Duration) -> Outcome {
        let mut changed = self.changed.subscribe();
        let is_decided = |_: &u64| !self.state().pending.contains_key(id);
        if tokio::time::timeout(at_most, changed.wait_for(is_decided)).await.is_err() {
            return Outcome::Waiting;
        }
        let state = self.state();
        let is_granted = state.grants.iter().any(|grant| grant.subject == *subject);
        let mut decided = state.decided.iter().filter(|one| one.id.as_deref() == Some(id));
        match (is_granted, decided.next()) {
            (true, _) => Outcome::Approved,
            (false, Some(_)) => Outcome::Denied,
            (false, None) => Outcome::Expired,
        }
    }

    /// A state for a client that is asked.
    pub(crate) fn asked(&self, wanted: &Wanted) -> String {
        let expires = now() + wanted.approval.expires.as_secs();
        let lasts = wanted.approval.session().map(|lasts| lasts.as_secs());
        self.seal(&Carried::Asked { nonce: random_id(), subject: wanted.subject.clone(), lasts, expires })
    }

    /// The state of an upstream, wrapped with the approval of its call.
    /// It ends at `until`, or after `within` if it is the first one.
    pub(crate) fn granted(
        &self,
        subject: &Subject,
        inner: Option<String>,
        until: Option<u64>,
        within: Duration,
    ) -> String {
        let expires = until.unwrap_or_else(|| now() + within.as_secs());
        self.seal(&Carried::Granted { nonce: random_id(), subject: subject.clone(), inner, expires })
    }

    fn seal(&self, carried: &Carried) -> String {
        let bytes = serde_json::to_vec(carried).unwrap_or_default();
        let keys = self.keys.get();
        format!("{PREFIX}{}.{}", keys.gateway(), keys.seal(PURPOSE, &bytes))
    }

    /// What a client carries, if it is ours: `Err` if it is ours and cannot be used any more.
    pub(crate) fn open_state(&self, text: &str) -> Option<Result<Carried, &'static str>> {
        let (gateway, sealed) = text.strip_prefix(PREFIX)?.split_once('.')?;
        if gateway != self.keys.get().gateway() {
            return None;
        }
        let bytes = self.keys.get().open(PURPOSE, sealed);
        let Some(carried) = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()) else {
            return Some(Err("is not valid"));
        };
        let (Carried::Asked { expires, .. } | Carried::Granted { expires, .. }) = &carried;
        Some(if *expires > now() { Ok(carried) } else { Err("has expired") })
    }

    /// Marks an answer as used. False if it was used before.
    pub(crate) fn use_once(&self, nonce: &str, expires: u64) -> bool {
        let mut state = self.state();
        let is_new = state.used.insert(nonce.to_owned(), expires).is_none();
        if is_new {
            self.store(state);
        }
        is_new
    }

    /// What waits, and what was decided, for operators.
    pub(crate) fn to_json(&self) -> (Vec<Value>, Vec<Value>) {
        let state = self.state();
        let time = |seconds: u64| at(UNIX_EPOCH + Duration::from_secs(seconds));
        let pending = state.pending.iter().map(|(id, one)| {
            json!({
                "id": id, "tool": one.subject.tool, "principal": one.principal, "arguments": one.args,
                "digest": one.subject.digest, "rule": one.rule, "since": time(one.since),
                "expires": time(one.expires),
            })
        });
        let decided = state.decided.iter().rev().map(|one| {
            json!({
                "at": time(one.at), "tool": one.tool, "principal": one.principal, "digest": one.digest,
                "by": one.by, "approved": one.approved,
            })
        });
        (pending.collect(), decided.collect())
    }
}

impl State {
    fn grant(&mut self, grant: Grant) {
        if self.grants.len() >= MOST_GRANTS {
            self.grants.remove(0);
        }
        self.grants.retain(|known| known.subject != grant.subject || known.session != grant.session);
        self.grants.push(grant);
    }

    fn record(&mut self, id: Option<&str>, subject: &Subject, principal: &str, by: &str, approved: bool) {
        let id = id.map(str::to_owned);
        let Subject { tool, digest, .. } = subject.clone();
        let (principal, by) = (principal.to_owned(), by.to_owned());
        self.decided.push_back(Decided { id, at: now(), tool, principal, digest, by, approved });
        while self.decided.len() > REMEMBERED {
            self.decided.pop_front();
        }
    }
}

fn session_of(client: &ClientKey) -> Option<String> {
    match client {
        ClientKey::Session(id) => Some(id.to_string()),
        _ => None,
    }
}

fn load(path: &Path) -> State {
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|error| {
            // Nothing is granted then, so calls are asked about again.
            tracing::warn!(path = %path.display(), %error, "the stored approvals are invalid; none of them holds");
            State::default()
        }),
        Err(_) => State::default(),
    }
}

/// Written beside and renamed, readable by the user alone.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    toolyard_model::private_file::write(path, bytes)
}

fn random_id() -> String {
    let mut bytes = [0; 5];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    HEXLOWER.encode(&bytes)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests;
