//! A stored task: its state is stored before clients see it, so that a program that dies at any moment leaves
//! nothing lost and nothing that was never true.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::watch;
use toolyard_model::{ClientKey, Origin, Principal, PrincipalId, Scope};
use toolyard_proto::CallError;

use super::past::question;
use super::{Outcome, State, Task, TaskSnapshot};
use crate::tasks::kept::KeptTasks;
use crate::tasks::store::{TaskRecord, TaskState, TaskStore, TaskStoreError};

/// The store of a task, and its owner.
pub(in crate::tasks) struct Lasting {
    store: Arc<dyn TaskStore>,
    owner: String,
    client: ClientKey,
    tool: String,
    /// The call that a resumed run needs.
    call: Option<Value>,
    /// The newest version that is stored.
    saved: watch::Sender<Option<u64>>,
    /// Of the set, which lives longer than the task.
    scope: Scope,
    _running: RunningHere,
}

impl Lasting {
    pub(in crate::tasks) fn new(
        id: &str,
        store: Arc<dyn TaskStore>,
        origin: &Origin,
        owner: String,
        tool: &str,
        call: Option<Value>,
        scope: Scope,
    ) -> Self {
        Self {
            store,
            owner,
            client: origin.client.clone(),
            tool: tool.to_owned(),
            call,
            saved: watch::Sender::new(None),
            scope,
            _running: RunningHere::new(id),
        }
    }

    pub(super) fn is_of(&self, origin: &Origin) -> bool {
        owners_of(origin).contains(&self.owner)
    }

    /// A client that does not prove its user lists only what it started itself.
    pub(super) fn is_listed_for(&self, origin: &Origin) -> bool {
        self.is_of(origin) && (is_proven(origin) || self.client == origin.client)
    }
}

/// The owners whose tasks a client may ask about; the first owns those that the client starts. A local client
/// that proves its user also sees what unproven local clients have started, and not the other way round.
pub(in crate::tasks) fn owners_of(origin: &Origin) -> Vec<String> {
    match origin.principal.id() {
        PrincipalId::Local if origin.is_proven => vec!["local".into(), "unproven".into()],
        PrincipalId::Local => vec!["unproven".into()],
        _ => vec![key(&origin.principal)],
    }
}

fn is_proven(origin: &Origin) -> bool {
    origin.is_proven || *origin.principal.id() != PrincipalId::Local
}

/// Two principals never have the same key.
fn key(principal: &Principal) -> String {
    match principal.id() {
        PrincipalId::Local => "local".into(),
        PrincipalId::Token(name) => format!("token:{name}"),
        PrincipalId::App(id) => format!("app:{id}"),
        PrincipalId::OAuth { issuer, subject } => format!("oauth:{issuer} {subject}"),
        PrincipalId::Delegate { parent, run } => format!("{}/{run}", key(parent)),
        PrincipalId::Gateway => "gateway".into(),
    }
}

impl Task {
    /// Stores the task before its client learns of it, and from then on after each change.
    pub(super) async fn store_first(self: &Arc<Self>, kept: &Arc<KeptTasks>) -> Result<(), CallError> {
        let Some(lasting) = &self.lasting else { return Ok(()) };
        lasting.save(self).await.map_err(|error| CallError::unavailable(error.to_string()))?;
        self.keep_stored(kept);
        Ok(())
    }

    /// Stores each change until the task has ended; the store answers for it afterwards.
    pub(in crate::tasks) fn keep_stored(self: &Arc<Self>, kept: &Arc<KeptTasks>) {
        let (task, kept) = (self.clone(), kept.clone());
        self.scope.spawn(async move {
            let Some(lasting) = &task.lasting else { return };
            loop {
                let saved = *lasting.saved.borrow();
                if let Some(saved) = saved {
                    task.changed_since(saved).await;
                }
                match lasting.save(&task).await {
                    Ok(snapshot) => task.announce(&snapshot),
                    Err(error) => lasting.failed(&task, &error),
                }
                if task.is_over() && lasting.is_current(&task) {
                    kept.release(task.id());
                    task.scope.cancel();
                    return;
                }
            }
        });
    }

    /// A task in the form in which it is stored; other tasks as they are.
    pub(in crate::tasks) async fn stored_snapshot(&self) -> Result<TaskSnapshot, CallError> {
        let Some(lasting) = &self.lasting else { return Ok(self.snapshot()) };
        let (snapshot, version) = {
            let state = self.state();
            (self.snapshot_of(&state), self.version())
        };
        let mut saved = lasting.saved.subscribe();
        let stored = saved.wait_for(|saved| saved.is_some_and(|saved| saved >= version));
        tokio::select! {
            biased;
            _ = stored => Ok(snapshot),
            () = self.scope.ended() => Err(CallError::unavailable("the gateway stops, and the task with it")),
        }
    }

    /// Removes a stored task that was never announced to its client.
    pub(super) fn remove_stored(&self) {
        let Some(lasting) = &self.lasting else { return };
        if lasting.saved.borrow().is_none() {
            return;
        }
        let removing = lasting.store.remove(&lasting.owner, &self.id);
        lasting.scope.spawn(async {
            if let Err(error) = removing.await {
                tracing::warn!(%error, "could not remove a task");
            }
        });
    }

    fn record(&self, lasting: &Lasting, state: &State) -> TaskRecord {
        let (task_state, outcome) = match &state.outcome {
            None if state.questions.is_empty() && state.past.open().next().is_none() => {
                (TaskState::Working, None)
            }
            None => (TaskState::InputRequired, None),
            Some(Outcome::Result(result)) => (TaskState::Completed, result.read().ok()),
            Some(Outcome::Error(error)) => (TaskState::Failed, error.to_raw().read().ok()),
            Some(Outcome::Cancelled) => (TaskState::Cancelled, None),
        };
        let open = state.past.open().map(|(key, ask)| question(&key, &ask));
        let own = state.questions.iter().map(|one| question(&one.key, &one.ask));
        let questions = match task_state {
            TaskState::Working | TaskState::InputRequired => {
                state.past.answers().iter().cloned().chain(open).chain(own).collect()
            }
            _ => Vec::new(),
        };
        TaskRecord {
            id: self.id.clone(),
            owner: lasting.owner.clone(),
            tool: lasting.tool.clone(),
            state: task_state,
            message: state.message.clone(),
            outcome,
            questions,
            call: lasting.call.clone().filter(|_| !task_state.has_ended()),
            created: self.created,
            updated: state.updated,
            expires: Some(self.created + self.kept_for),
        }
    }
}

impl Lasting {
    /// Stores the current state, and returns what clients may see now.
    async fn save(&self, task: &Task) -> Result<TaskSnapshot, TaskStoreError> {
        let (record, snapshot, version) = {
            let state = task.state();
            (task.record(self, &state), task.snapshot_of(&state), task.version())
        };
        self.store.put(record).await?;
        self.saved.send_replace(Some(version));
        Ok(snapshot)
    }

    /// The task continues in memory, and clients see that it is not stored.
    fn failed(&self, task: &Task, error: &TaskStoreError) {
        tracing::error!(task = %task.id, %error, "could not store a task");
        let version = {
            let mut state = task.state();
            state.message = Some(format!("this status will be lost with the gateway: {error}"));
            task.version()
        };
        self.saved.send_replace(Some(version));
    }

    fn is_current(&self, task: &Task) -> bool {
        self.saved.borrow().is_some_and(|saved| saved >= task.version())
    }
}

/// The tasks that this process runs, in any set: another set must not treat them as interrupted.
static RUNNING: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);

struct RunningHere(String);

impl RunningHere {
    fn new(id: &str) -> Self {
        running().insert(id.to_owned());
        Self(id.to_owned())
    }
}

impl Drop for RunningHere {
    fn drop(&mut self) {
        running().remove(&self.0);
    }
}

pub(in crate::tasks) fn is_running_here(id: &str) -> bool {
    running().contains(id)
}

fn running() -> MutexGuard<'static, HashSet<String>> {
    RUNNING.lock()
}

impl std::fmt::Debug for Lasting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lasting")
            .field("owner", &self.owner)
            .field("tool", &self.tool)
            .finish_non_exhaustive()
    }
}
