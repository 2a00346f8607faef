//! Approvals of calls: what waits for an operator, what was granted, and the sealed states that clients carry. A grant
//! is for one principal, one tool and the digest of the arguments. Everything is kept in a file, so that a restart
//! neither loses nor repeats a grant, and neither does a second gateway of the same state directory.

mod file;
mod sharing;
mod shown;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use toolyard_model::shared_file::SharedFile;
use toolyard_model::{BoxFuture, ClientKey, Origin};
use toolyard_policy::rules::Approval;

use crate::event::{Events, What};
use crate::keys::StateKeys;
use file::Change;

pub use sharing::UnsharedGrant;
pub use shown::shorten_arguments;

/// How many calls may wait in all; further calls are refused.
const MOST_PENDING: usize = 1_000;
/// How many calls of one principal may wait, so that it does not keep out the others.
const MOST_PENDING_EACH: usize = 50;
const MOST_GRANTS: usize = 10_000;
/// How many decisions are kept for reports.
const REMEMBERED: usize = 100;
/// A call with larger arguments cannot wait. Arguments are kept whole, because an operator must see all that is
/// approved.
const LARGEST: usize = 256 * 1024;
/// The arguments of all calls of one principal that wait, and of all calls, in bytes.
const MOST_BYTES_EACH: usize = 2 * 1024 * 1024;
const MOST_BYTES: usize = 16 * 1024 * 1024;
const PURPOSE: &str = "approval";
/// Followed by the gateway that sealed the state: another gateway may be behind this one, or beside it in a cluster.
const PREFIX: &str = "yard-approval-";

/// The subject of an approval: these arguments of this tool, by this principal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ApprovalSubject {
    principal: String,
    tool: String,
    digest: String,
}

impl ApprovalSubject {
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
    pub(crate) subject: ApprovalSubject,
    pub(crate) approval: Approval,
    pub(crate) args: Value,
    /// The place where the rule is written.
    pub(crate) rule: String,
}

/// The state that a client brings back in `requestState`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Carried {
    /// The client was asked.
    Asked {
        nonce: String,
        subject: ApprovalSubject,
        /// For how many seconds an approval for the session is valid, if it can be given for the session.
        lasts: Option<u64>,
        expires: u64,
    },
    /// The call was approved, and then its upstream asked; its own state is inside.
    Granted { nonce: String, subject: ApprovalSubject, inner: Option<String>, expires: u64 },
}

#[derive(Default, Serialize, Deserialize)]
struct ApprovalState {
    pending: BTreeMap<String, Pending>,
    grants: Vec<Grant>,
    /// Answers that were used, until they would have expired.
    used: BTreeMap<String, u64>,
    #[serde(default)]
    decided: VecDeque<Decided>,
}

/// Approvals that several gateways share.
pub trait SharedApprovals: Send + Sync + 'static {
    /// The waiting calls or the grants of this gateway have changed.
    fn changed(&self);

    /// Takes the grant of this key for one call, if no other gateway has taken it. `None` if that cannot be determined
    /// now.
    fn claim(&self, key: &str) -> BoxFuture<Option<bool>>;
}

#[derive(Clone, Serialize, Deserialize)]
struct Pending {
    subject: ApprovalSubject,
    /// The name of the principal, for people.
    principal: String,
    args: Value,
    /// The size of the arguments as text.
    #[serde(default)]
    bytes: usize,
    /// The beginning of the arguments, where they are too long for lists.
    #[serde(default)]
    cut: Option<Box<str>>,
    rule: String,
    since: u64,
    expires: u64,
    for_session: bool,
    /// The session of the client, if an approval is for more than one call and there is a session.
    #[serde(default)]
    session: Option<String>,
}

/// Why a call cannot wait for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotFiled {
    TooMany,
    /// Its arguments have more than `most` bytes.
    TooLarge {
        bytes: usize,
        most: usize,
    },
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Grant {
    subject: ApprovalSubject,
    /// The session that it is for, where it is for more than one call and there is one.
    session: Option<String>,
    is_once: bool,
    expires: u64,
    /// Whether other gateways know it.
    #[serde(default)]
    is_shared: bool,
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

/// The decision of an operator about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Approved,
    /// It was approved for one call, and another call has used that.
    UsedByAnother,
    Denied,
    Waiting,
    /// No decision was made in time.
    Expired,
}

/// A change, and the state that it changes.
type Begun<'a> = (Change<'a>, MutexGuard<'a, ApprovalState>);

pub(crate) struct Approvals {
    keys: Arc<StateKeys>,
    state: Mutex<ApprovalState>,
    /// Locked before `state`, and held while the file is written, which `state` is not.
    file: Option<Mutex<SharedFile>>,
    /// Counts decisions, for calls that wait.
    changed: watch::Sender<u64>,
    /// The receiver of decisions.
    events: Option<Arc<Events>>,
    shared: OnceLock<Arc<dyn SharedApprovals>>,
}

impl std::fmt::Debug for Approvals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Approvals")
    }
}

impl Approvals {
    pub(crate) fn open(state_dir: Option<&Path>, keys: Arc<StateKeys>) -> Self {
        let file = state_dir.map(|folder| Mutex::new(SharedFile::new(&folder.join("approvals.json"))));
        let (state, changed, shared) = (Mutex::default(), watch::Sender::new(0), OnceLock::new());
        let opened = Self { keys, state, file, changed, events: None, shared };
        opened.refresh();
        opened
    }

    /// Reports every decision as an event.
    pub(crate) fn reporting_to(self, events: Arc<Events>) -> Self {
        Self { events: Some(events), ..self }
    }

    fn report(&self, subject: &ApprovalSubject, principal: &str, by: &'static str, is_approved: bool) {
        let Some(events) = &self.events else { return };
        let (tool, digest) = (subject.tool.as_str().into(), subject.digest.as_str().into());
        events.emit(What::ApprovalDecided { tool, principal: principal.into(), digest, by, is_approved });
    }

    fn state(&self) -> MutexGuard<'_, ApprovalState> {
        let mut state = self.state.lock();
        let now = now();
        state.pending.retain(|_, one| one.expires > now);
        state.grants.retain(|one| one.expires > now);
        state.used.retain(|_, expires| *expires > now);
        state
    }

    fn tell_others(&self) {
        if let Some(shared) = self.shared.get() {
            shared.changed();
        }
    }

    /// Whether a call was granted by a shared grant. A grant for one call is then used up at all gateways.
    pub(crate) async fn claim(&self, subject: &ApprovalSubject, client: &ClientKey) -> bool {
        let Some(shared) = self.shared.get() else { return false };
        let session = session_of(client);
        let fits = |grant: &Grant| {
            let is_for = grant.session.is_none() || grant.session == session;
            grant.is_to_be_claimed() && grant.subject == *subject && is_for
        };
        let Some(grant) = self.state().grants.iter().find(|grant| fits(grant)).cloned() else { return false };
        let Some(is_ours) = shared.claim(&grant.key()).await else { return false };
        let mut change = self.change();
        let mut state = self.state();
        state.grants.retain(|known| *known != grant);
        change.store(state);
        is_ours
    }

    /// Whether a call was granted. A grant for one call is used up. If that cannot be stored, the grant is not used,
    /// because a restart would repeat it.
    pub(crate) fn take(&self, subject: &ApprovalSubject, client: &ClientKey) -> io::Result<bool> {
        let mut change = self.change();
        let mut state = self.state();
        let session = session_of(client);
        let fits = |grant: &Grant| {
            let is_for = grant.session.is_none() || grant.session == session;
            !grant.is_to_be_claimed() && grant.subject == *subject && is_for
        };
        let Some(found) = state.grants.iter().position(fits) else { return Ok(false) };
        if state.grants[found].is_once {
            let grant = state.grants.remove(found);
            change.stored(state).inspect_err(|_| self.state().grant(grant))?;
        }
        Ok(true)
    }

    /// Grants all equal calls of a session, or of a principal without one, until the grant expires.
    pub(crate) fn grant_session(&self, subject: &ApprovalSubject, client: &ClientKey, expires: Duration) {
        let mut change = self.change();
        let mut state = self.state();
        let expires = now() + expires.as_secs();
        let (subject, session) = (subject.clone(), session_of(client));
        state.grant(Grant { subject, session, is_once: false, expires, is_shared: false });
        change.store(state);
    }

    /// Records what a client has decided.
    pub(crate) fn record(&self, subject: &ApprovalSubject, principal: &str, is_approved: bool) {
        let mut change = self.change();
        let mut state = self.state();
        state.record(None, subject, principal, "client", is_approved);
        change.store(state);
        self.report(subject, principal, "client", is_approved);
    }

    /// Files a call for an operator to decide, or finds it if it was filed before.
    pub(crate) fn file(
        &self,
        wanted: &Wanted,
        client: &ClientKey,
        principal: &str,
    ) -> Result<String, NotFiled> {
        let session = session_of(client).filter(|_| wanted.approval.is_for_session);
        let mut change = self.change();
        let mut state = self.state();
        let is_same = |one: &Pending| one.subject == wanted.subject && one.session == session;
        if let Some((id, _)) = state.pending.iter().find(|(_, one)| is_same(one)) {
            return Ok(id.clone());
        }
        let text = wanted.args.to_string();
        let (bytes, cut) = (text.len(), shown::cut(&text));
        state.has_room(principal, bytes)?;
        let id = random_id();
        let pending = Pending {
            subject: wanted.subject.clone(),
            principal: principal.to_owned(),
            args: wanted.args.clone(),
            bytes,
            cut,
            rule: wanted.rule.clone(),
            since: now(),
            expires: now() + wanted.approval.expires.as_secs(),
            for_session: wanted.approval.is_for_session,
            session,
        };
        state.pending.insert(id.clone(), pending);
        change.store(state);
        drop(change);
        self.tell_others();
        tracing::info!(target: "policy", id, tool = wanted.subject.tool, principal, "a call waits for approval");
        Ok(id)
    }

    /// Decides about a waiting call. `None` if no call with that id waits.
    pub(crate) fn decide(&self, id: &str, is_approved: bool) -> Option<String> {
        let change = self.change();
        let mut state = self.state();
        let pending = state.pending.remove(id)?;
        Some(self.settle((change, state), id, pending, is_approved))
    }

    /// Grants or denies a call that has waited, and returns its tool. The state was not released since the call was
    /// taken from it, so a call that waits sees its decision.
    fn settle(&self, begun: Begun<'_>, id: &str, pending: Pending, is_approved: bool) -> String {
        let (mut change, mut state) = begun;
        if is_approved {
            let (subject, is_once) = (pending.subject.clone(), !pending.for_session);
            let (session, expires) = (pending.session.clone(), pending.expires);
            state.grant(Grant { subject, session, is_once, expires, is_shared: false });
        }
        state.record(Some(id), &pending.subject, &pending.principal, "operator", is_approved);
        change.store(state);
        drop(change);
        self.report(&pending.subject, &pending.principal, "operator", is_approved);
        tracing::info!(target: "policy", id, tool = pending.subject.tool, principal = pending.principal, approved = is_approved, "an operator decided about a call");
        self.changed.send_modify(|count| *count += 1);
        self.tell_others();
        pending.subject.tool
    }

    /// Waits until an operator has decided about a call, for a bounded time.
    pub(crate) async fn wait(
        &self,
        id: &str,
        subject: &ApprovalSubject,
        client: &ClientKey,
        at_most: Duration,
    ) -> Outcome {
        let mut changed = self.changed.subscribe();
        let is_decided = |_: &u64| !self.state().pending.contains_key(id);
        if tokio::time::timeout(at_most, changed.wait_for(is_decided)).await.is_err() {
            return Outcome::Waiting;
        }
        let session = session_of(client);
        let is_for = |grant: &Grant| grant.session.is_none() || grant.session == session;
        let state = self.state();
        let is_granted = state.grants.iter().any(|grant| grant.subject == *subject && is_for(grant));
        let decided = state.decided.iter().find(|one| one.id.as_deref() == Some(id));
        match (is_granted, decided.map(|one| one.approved)) {
            (true, _) => Outcome::Approved,
            (false, Some(true)) => Outcome::UsedByAnother,
            (false, Some(false)) => Outcome::Denied,
            (false, None) => Outcome::Expired,
        }
    }

    /// The sealed state for a client that is asked for an approval.
    pub(crate) fn asked(&self, wanted: &Wanted) -> String {
        let expires = now() + wanted.approval.expires.as_secs();
        let lasts = wanted.approval.session().map(|lasts| lasts.as_secs());
        self.seal(&Carried::Asked { nonce: random_id(), subject: wanted.subject.clone(), lasts, expires })
    }

    /// The state of an upstream, wrapped with the approval of its call.
    /// It ends at `until`, or after `within` if it is the first one.
    pub(crate) fn granted(
        &self,
        subject: &ApprovalSubject,
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

    /// Opens the state that a client carries, if it is ours. `Err` if it is ours but no longer valid.
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

    /// Marks an answer as used. False if it was used before. If that cannot be stored, the answer is not used, because
    /// it could be used again after a restart.
    pub(crate) fn use_once(&self, nonce: &str, expires: u64) -> io::Result<bool> {
        let mut change = self.change();
        let mut state = self.state();
        let is_new = state.used.insert(nonce.to_owned(), expires).is_none();
        if is_new {
            change.stored(state).inspect_err(|_| {
                self.state().used.remove(nonce);
            })?;
        }
        Ok(is_new)
    }
}

impl ApprovalState {
    /// Whether another call of a principal, with this many bytes of arguments, may wait.
    fn has_room(&self, principal: &str, bytes: usize) -> Result<(), NotFiled> {
        if bytes > LARGEST {
            return Err(NotFiled::TooLarge { bytes, most: LARGEST });
        }
        let own = self.pending.values().filter(|one| one.principal == principal);
        let (calls, size) = own.fold((0, bytes), |(calls, size), one| (calls + 1, size + one.bytes));
        let all = self.pending.values().fold(bytes, |size, one| size + one.bytes);
        let has_room = calls < MOST_PENDING_EACH
            && self.pending.len() < MOST_PENDING
            && size <= MOST_BYTES_EACH
            && all <= MOST_BYTES;
        if has_room { Ok(()) } else { Err(NotFiled::TooMany) }
    }

    fn grant(&mut self, grant: Grant) {
        if self.grants.len() >= MOST_GRANTS {
            self.grants.remove(0);
        }
        self.grants.retain(|known| known.subject != grant.subject || known.session != grant.session);
        self.grants.push(grant);
    }

    fn record(
        &mut self,
        id: Option<&str>,
        subject: &ApprovalSubject,
        principal: &str,
        by: &str,
        approved: bool,
    ) {
        let id = id.map(str::to_owned);
        let ApprovalSubject { tool, digest, .. } = subject.clone();
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
