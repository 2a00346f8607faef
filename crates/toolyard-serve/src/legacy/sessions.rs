//! The legacy HTTP sessions: found by an unguessable id, bound to the principal that opened them, ended when
//! they are idle.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use toolyard_model::{ClientKey, Principal, Scope, View};

use super::remember::{Remember, RestoredSession};
use super::replay::Streams;
use super::session::ClientSession;
use crate::admit::Admitted;

pub(crate) struct HttpSession {
    pub(crate) id: Arc<str>,
    pub(crate) session: Arc<ClientSession>,
    pub(crate) streams: Arc<Streams>,
    touched: Mutex<Instant>,
    /// Whether the session was opened before this process, so that the events that its client knows are lost.
    pub(crate) is_restored: bool,
}

impl HttpSession {
    pub(crate) fn new(
        id: Arc<str>,
        session: Arc<ClientSession>,
        streams: Arc<Streams>,
        is_restored: bool,
    ) -> Arc<Self> {
        Arc::new(Self { id, session, streams, touched: Mutex::new(Instant::now()), is_restored })
    }

    fn touch(&self) {
        *self.touched.lock() = Instant::now();
    }

    fn is_busy(&self) -> bool {
        !self.session.calls.is_empty() || self.streams.is_watched()
    }

    /// How long it has not been used.
    fn idle(&self) -> Duration {
        if self.is_busy() {
            self.touch();
        }
        self.touched.lock().elapsed()
    }

    fn end(&self) {
        self.session.end();
        self.streams.close();
    }
}

pub(crate) struct Sessions(Arc<Table>);

struct Table {
    limit: usize,
    idle: Duration,
    scope: Scope,
    remember: Option<Remember>,
    turn: Mutex<()>,
    state: Mutex<SessionsState>,
}

/// Open and stored sessions change only together: one change at a time.
pub(crate) struct Turn<'a>(#[expect(dead_code, reason = "held, not looked at")] MutexGuard<'a, ()>);

#[derive(Default)]
struct SessionsState {
    open: HashMap<Arc<str>, Arc<HttpSession>>,
    swept: bool,
}

impl Sessions {
    pub(crate) fn new(limit: usize, idle: Duration, folder: Option<PathBuf>, scope: Scope) -> Self {
        let remember = folder.and_then(|folder| Remember::open(folder, idle));
        Self(Arc::new(Table {
            limit,
            idle,
            scope,
            remember,
            turn: Mutex::default(),
            state: Mutex::default(),
        }))
    }

    /// Held while a session is opened, opened again or ended for good.
    pub(crate) fn turn(&self) -> Turn<'_> {
        self.0.turn()
    }

    /// Runs `f` on a thread for blocking work if sessions are stored in files, which may be slow;
    /// `None` if it panicked.
    pub(crate) async fn apart<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        self.0.apart(f).await
    }

    /// Whether this can be the id of an earlier session.
    pub(crate) fn may_restore(&self, id: &str) -> bool {
        self.0.remember.is_some() && name_of(id).is_some()
    }

    /// Whether a lookup is worth the lock: unknown ids must not delay other clients.
    pub(crate) fn is_remembered(&self, id: &str) -> bool {
        self.0.remember.as_ref().is_some_and(|remember| remember.has(id))
    }

    /// The state of a session before this process, if there was one.
    pub(crate) fn restore(&self, id: &str, view: &View, admitted: &Admitted) -> Option<RestoredSession> {
        self.0.remember.as_ref()?.restore(id, view, admitted)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.state().open.len()
    }

    /// The scope for the tasks of a new session.
    pub(crate) fn scope(&self) -> Scope {
        self.0.scope.child()
    }

    /// Returns whether there was room. If there is none, the session that was idle longest is removed.
    pub(crate) fn add(&self, session: Arc<HttpSession>, turn: &Turn<'_>) -> bool {
        if self.len() >= self.0.limit && !self.0.make_room(turn) {
            return false;
        }
        if let Some(remember) = &self.0.remember {
            remember.save(&session.id, &session.session);
            session.session.scope.spawn(save_changes(Arc::downgrade(&self.0), session.clone()));
        }
        let mut state = self.0.state();
        state.open.insert(session.id.clone(), session);
        if !std::mem::replace(&mut state.swept, true) {
            self.0.scope.spawn(sweep(Arc::downgrade(&self.0)));
        }
        true
    }

    /// A session is visible only to the principal that opened it, in the view in which it was opened.
    pub(crate) fn find(&self, id: &str, view: &View, principal: &Principal) -> Option<Arc<HttpSession>> {
        let found = self.0.state().open.get(id).cloned()?;
        let origin = &found.session.origin;
        // With other roles the session must be opened again, so that a revoked role has no effect.
        let is_theirs = origin.principal == *principal && origin.principal.roles() == principal.roles();
        if origin.view != *view || !is_theirs {
            return None;
        }
        found.touch();
        Some(found)
    }

    /// Whether there is a session of this id, of any principal.
    pub(crate) fn is_open(&self, id: &str) -> bool {
        self.0.state().open.contains_key(id)
    }

    pub(crate) async fn end(&self, session: Arc<HttpSession>) {
        let table = self.0.clone();
        self.apart(move || table.end(&session.id)).await;
    }

    /// Whether any of them has a call under way.
    pub(crate) fn have_calls(&self) -> bool {
        self.0.state().open.values().any(|session| !session.session.calls.is_empty())
    }

    pub(crate) async fn end_all(&self) {
        let table = self.0.clone();
        self.apart(move || table.end_all()).await;
    }
}

impl Table {
    async fn apart<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        match self.remember {
            Some(_) => tokio::task::spawn_blocking(f).await.ok(),
            None => Some(f()),
        }
    }

    fn end(&self, id: &str) {
        let turn = self.turn();
        let session = self.state().open.get(id).cloned();
        if let Some(session) = session {
            self.forget(&session, &turn);
        }
    }

    fn end_all(&self) {
        let _turn = self.turn();
        let all: Vec<_> = self.state().open.drain().collect();
        for (id, session) in all {
            if let Some(remember) = &self.remember {
                remember.save(&id, &session.session);
            }
            session.end();
        }
    }

    /// Ends a session for good. Meanwhile no request finds it stored but not open.
    fn forget(&self, session: &HttpSession, _: &Turn<'_>) {
        if let Some(remember) = &self.remember {
            remember.forget(&session.id);
        }
        self.state().open.remove(&session.id);
        session.end();
    }

    /// Remembers an open session as it is now.
    fn save(&self, session: &Arc<HttpSession>) {
        let _turn = self.turn();
        let is_open = self.state().open.get(&session.id).is_some_and(|open| Arc::ptr_eq(open, session));
        if let Some(remember) = self.remember.as_ref().filter(|_| is_open) {
            remember.save(&session.id, &session.session);
        }
    }

    fn turn(&self) -> Turn<'_> {
        Turn(self.turn.lock())
    }

    fn state(&self) -> MutexGuard<'_, SessionsState> {
        self.state.lock()
    }

    fn make_room(&self, turn: &Turn<'_>) -> bool {
        let all: Vec<_> = self.state().open.values().cloned().collect();
        let idlest =
            all.into_iter().filter(|session| !session.is_busy()).max_by_key(|session| session.idle());
        let Some(idlest) = idlest else { return false };
        self.forget(&idlest, turn);
        true
    }

    fn end_idle(&self) {
        let all: Vec<_> = self.state().open.values().cloned().collect();
        for session in all {
            if session.idle() >= self.idle {
                self.forget(&session, &self.turn());
            } else if let Some(remember) = &self.remember {
                remember.used(&session.id, session.idle());
            }
        }
    }
}

/// Stores what a client changes in its session, so that it is not lost when this process is killed.
async fn save_changes(table: Weak<Table>, session: Arc<HttpSession>) {
    loop {
        session.session.changed.notified().await;
        let Some(table) = table.upgrade() else { return };
        let saving = table.clone();
        let session = session.clone();
        // A session that has ended by then is not saved.
        table.apart(move || saving.save(&session)).await;
    }
}

/// Ends idle sessions now and then, for as long as there is a table.
async fn sweep(table: Weak<Table>) {
    while let Some(pause) = table.upgrade().map(|table| table.idle / 8) {
        tokio::time::sleep(pause.clamp(Duration::from_secs(1), Duration::from_mins(1))).await;
        if let Some(table) = table.upgrade() {
            let ending = table.clone();
            table.apart(move || ending.end_idle()).await;
        }
    }
}

const ID_BYTES: usize = 24;

/// A fresh session id (192 bits), and the internal name of the session: a reader of the name, which is in logs,
/// cannot use the session.
pub(crate) fn mint() -> Option<(Arc<str>, ClientKey)> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).ok()?;
    let name = HEXLOWER.encode(&Sha256::digest(bytes)[..8]);
    Some((BASE64URL_NOPAD.encode(&bytes).into(), ClientKey::Session(name.into())))
}

/// The internal name for an existing session id. What follows a dot is for other nodes.
pub(crate) fn name_of(id: &str) -> Option<ClientKey> {
    let id = id.split_once('.').map_or(id, |(id, _)| id);
    let bytes: [u8; ID_BYTES] = BASE64URL_NOPAD.decode(id.as_bytes()).ok()?.try_into().ok()?;
    Some(ClientKey::Session(HEXLOWER.encode(&Sha256::digest(bytes)[..8]).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_possible_id_has_a_name() {
        let (id, name) = mint().unwrap();
        assert_eq!(name_of(&id), Some(name));
        for id in ["", "x", "AAAA", &id[1..], &format!("{id}AAAA"), "../../../../../../../../../etc"] {
            assert_eq!(name_of(id), None, "{id}");
        }
    }
}
