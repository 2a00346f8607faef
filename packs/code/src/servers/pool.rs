//! The pool: one process for each server and project, started by the first request and shared by all clients.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;
use toolyard_tool::{Changes, Host, ToolError};

use super::find::{Finder, Found};
use super::known::Server;
use super::run::{End, Running, Start, Use, run};
use crate::project::Project;

/// How long a request waits for a server to start.
const STARTING: Duration = Duration::from_secs(40);
/// A server that fails is started again after 1, 2, 4 … seconds; staying up for 10 s resets this.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const STABLE: Duration = Duration::from_secs(10);
/// A request waits for the next start if it is this near; else it fails with the reason.
const PATIENCE: Duration = Duration::from_secs(5);

/// What bounds the servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// A server that was not used for this long is stopped.
    pub(crate) idle: Duration,
    /// A server that uses more memory is stopped.
    pub(crate) memory_mb: u64,
    /// Servers that run at once.
    pub(crate) most: usize,
}

/// All servers of the user's projects. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    host: Host,
    servers: Vec<Arc<Server>>,
    limits: Limits,
    finder: Finder,
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    server: String,
    root: PathBuf,
}

#[derive(Debug)]
struct Slot {
    state: watch::Sender<State>,
    use_: Arc<Use>,
}

#[derive(Clone, Debug)]
enum State {
    Stopped,
    Starting,
    Running(Arc<Running>),
    Failed { reason: String, failures: u32, again: Instant },
}

/// How one server of one project is.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) server: String,
    pub(crate) root: PathBuf,
    pub(crate) state: &'static str,
    pub(crate) pid: Option<u32>,
    pub(crate) pending: usize,
    pub(crate) note: Option<String>,
}

impl Pool {
    pub(crate) fn new(host: Host, servers: Vec<Server>, limits: Limits) -> Self {
        let servers = servers.into_iter().map(Arc::new).collect();
        let (finder, slots) = (Finder::default(), Mutex::default());
        Self(Arc::new(Inner { host, servers, limits, finder, slots }))
    }

    pub(crate) fn servers(&self) -> &[Arc<Server>] {
        &self.0.servers
    }

    /// The servers that know the language of a file.
    pub(crate) fn for_file(&self, path: &Path) -> impl Iterator<Item = &Arc<Server>> {
        self.0.servers.iter().filter(move |server| server.language(path).is_some())
    }

    /// The program of a server in a project, or why it cannot be used.
    pub(crate) async fn find(&self, server: &Server, root: Option<&Path>) -> Result<Found, String> {
        let is_trusted = root.is_some_and(|root| self.0.host.trusts(root));
        if let Some(root) = root.filter(|_| server.runs_project_code && !is_trusted) {
            return Err(format!(
                "it runs code of the project, which you have not trusted: run `toolyard trust {}`",
                root.display()
            ));
        }
        self.0.finder.find(&self.0.host, server, root.filter(|_| is_trusted)).await
    }

    /// The warm server of a project; started if it does not run.
    pub(crate) async fn running(
        &self,
        server: &Arc<Server>,
        project: &Project,
        changes: &Changes,
    ) -> Result<Arc<Running>, ToolError> {
        let key = Key { server: server.name.clone(), root: project.root().to_owned() };
        let slot = self.slot(&key);
        slot.use_.touch();
        let by = Instant::now() + STARTING;
        let mut states = slot.state.subscribe();
        let mut has_waited = false;
        loop {
            let state = states.borrow_and_update().clone();
            match state {
                State::Running(running) if running.session.client().closed().is_none() => {
                    return Ok(running);
                }
                State::Running(_) | State::Starting => {
                    has_waited = true;
                    let waited = tokio::time::timeout_at(by, states.changed()).await;
                    waited
                        .map_err(|_| not_started(&key, "it did not start in time"))?
                        .map_err(|_| gone(&key))?;
                }
                State::Failed { reason, again, .. } if again > Instant::now() => {
                    if has_waited || again > Instant::now() + PATIENCE {
                        let seconds = (again - Instant::now()).as_secs() + 1;
                        return Err(not_started(&key, &reason).hint(format!("try again in {seconds} s")));
                    }
                    tokio::time::sleep_until(again).await;
                }
                State::Stopped | State::Failed { .. } => {
                    let found = self.find(server, Some(project.root())).await;
                    let found = found.map_err(|why| {
                        not_started(&key, &why).hint(format!("to install it: {}", server.install))
                    })?;
                    self.start(&slot, server, project, found, changes);
                }
            }
        }
    }

    fn slot(&self, key: &Key) -> Arc<Slot> {
        let mut slots = self.slots();
        slots
            .entry(key.clone())
            .or_insert_with(|| {
                Arc::new(Slot { state: watch::Sender::new(State::Stopped), use_: Arc::default() })
            })
            .clone()
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Key, Arc<Slot>>> {
        self.0.slots.lock()
    }

    /// Starts a server, unless another request just has.
    fn start(
        &self,
        slot: &Arc<Slot>,
        server: &Arc<Server>,
        project: &Project,
        found: Found,
        changes: &Changes,
    ) {
        let mut failures = 0;
        let is_first = slot.state.send_if_modified(|state| {
            failures = match state {
                State::Stopped => 0,
                State::Failed { failures, again, .. } if *again <= Instant::now() => *failures,
                _ => return false,
            };
            *state = State::Starting;
            true
        });
        if !is_first {
            return;
        }
        self.make_room(slot);
        let start = Start {
            host: self.0.host.clone(),
            server: server.clone(),
            found,
            project: project.clone(),
            limits: self.0.limits,
            use_: slot.use_.clone(),
            changes: changes.clone(),
        };
        let slot = slot.clone();
        self.0.host.spawn(&format!("language server {}", server.name), supervise(slot, start, failures));
    }

    /// Stops the server that was used least recently if there are too many.
    fn make_room(&self, newest: &Arc<Slot>) {
        let slots = self.slots();
        let is_up = |slot: &&Arc<Slot>| matches!(*slot.state.borrow(), State::Running(_) | State::Starting);
        if slots.values().filter(is_up).count() <= self.0.limits.most {
            return;
        }
        let others = slots.values().filter(is_up).filter(|slot| !Arc::ptr_eq(slot, newest));
        if let Some(oldest) = others.min_by_key(|slot| slot.use_.last()) {
            oldest.use_.stop.notify_one();
        }
    }

    /// How the servers are that were used. Nothing is asked of them.
    pub(crate) fn statuses(&self) -> Vec<Status> {
        let mut statuses: Vec<Status> = self.slots().iter().map(|(key, slot)| status(key, slot)).collect();
        statuses.sort_by(|a, b| (&a.server, &a.root).cmp(&(&b.server, &b.root)));
        statuses
    }
}

fn status(key: &Key, slot: &Slot) -> Status {
    let state = slot.state.borrow().clone();
    let (name, pid, pending, note) = match state {
        State::Stopped => ("stopped", None, 0, None),
        State::Starting => ("starting", None, 0, None),
        State::Running(running) => {
            let pending = running.session.client().pending();
            let loading = running.session.loading();
            (if loading.is_some() { "loading" } else { "running" }, Some(running.pid), pending, loading)
        }
        State::Failed { reason, .. } => ("failed", None, 0, Some(reason)),
    };
    Status { server: key.server.clone(), root: key.root.clone(), state: name, pid, pending, note }
}

/// Runs a server once and records how it ended.
async fn supervise(slot: Arc<Slot>, start: Start, failures: u32) {
    let (name, began) = (start.server.name.clone(), Instant::now());
    let ready = slot.clone();
    let end = run(start, move |running| {
        ready.state.send_replace(State::Running(running));
    })
    .await;
    let reason = match end {
        End::Unused => {
            slot.state.send_replace(State::Stopped);
            return;
        }
        End::Memory(used) => format!("it used {used} MB of memory and was stopped"),
        End::Crashed(reason) => reason,
    };
    let failures = if began.elapsed() >= STABLE { 1 } else { failures + 1 };
    let pause = (FIRST_PAUSE * 2_u32.saturating_pow(failures - 1)).min(LONGEST_PAUSE);
    tracing::warn!(target: "code", server = %name, %reason, "a language server ended");
    slot.state.send_replace(State::Failed { reason, failures, again: Instant::now() + pause });
}

fn not_started(key: &Key, why: &str) -> ToolError {
    ToolError::new(format!("cannot use the language server `{}`: {why}", key.server))
}

fn gone(key: &Key) -> ToolError {
    not_started(key, "the pack is stopping")
}
