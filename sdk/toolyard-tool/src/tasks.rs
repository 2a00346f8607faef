//! Calls that take long: the client gets a task, at once or when its first questions are answered, and comes
//! back for the result. Tasks are bounded in number and time. Most are in memory and belong to the client that
//! started them; those of tools with `keep` are stored, belong to its principal and outlive the program.

mod adopt;
mod kept;
mod task;
mod time;
mod wire;
pub(crate) mod store;

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use toolyard_model::{Answer, AnswerBody, BoxFuture, ClientKey, Origin, Owner, Peer, Request, Scope};
use toolyard_proto::modern::LIST_TASKS;
use toolyard_proto::{CallError, Raw};

use crate::changes::Changes;
use crate::item::tool::{TaskUse, Tool};
use crate::random;
use adopt::{stored_call, unavailable};
use kept::KeptTasks;
use store::{MemoryTasks, TaskStore};
use task::{Lasting, NewTask, Past, TaskSnapshot, owners_of};

pub(crate) use adopt::TaskRunner;
pub(crate) use task::{Stage, Task};
pub(crate) use wire::declare;

/// How long a task and its result are kept, unless the tool or the client asks for another time.
const KEPT: Duration = Duration::from_hours(1);
/// How often clients should look.
const POLL: Duration = Duration::from_millis(500);
/// How long the last changes of tasks may take to be stored when the set ends.
const LAST_CHANGES: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Tasks(Arc<Shared>);

struct Shared {
    scope: Scope,
    changes: Changes,
    kept: Arc<KeptTasks>,
    /// The host's store; in memory without one.
    store: OnceLock<Arc<dyn TaskStore>>,
    runner: TaskRunner,
    /// One interrupted task at a time is taken over.
    adopting: tokio::sync::Mutex<()>,
}

/// A task that a client may ask about.
enum Found {
    Live(Arc<Task>),
    /// The task has ended, or another program runs it.
    Stored(Box<TaskSnapshot>),
}

impl Tasks {
    /// The scope ends with the tasks.
    pub(crate) fn new(scope: Scope, changes: Changes, runner: TaskRunner) -> Self {
        Self(Arc::new(Shared {
            scope,
            changes,
            kept: Arc::default(),
            store: OnceLock::new(),
            runner,
            adopting: tokio::sync::Mutex::default(),
        }))
    }

    /// Stores tasks that last here.
    pub(crate) fn store_in(&self, store: &Arc<dyn TaskStore>) {
        let _ = self.0.store.set(store.clone());
    }

    /// Takes over tasks that an earlier program left unfinished. Does nothing if nothing was ever stored.
    pub(crate) fn adopt(&self) {
        let is_any = self.0.store.get().is_some_and(|store| store.exists());
        if is_any && !self.0.scope.is_ended() {
            self.0.scope.spawn(self.0.clone().adopt_all());
        }
    }

    /// Starts a task and returns it, or returns the questions that it asks before it becomes a task. `run` gets the
    /// task, which sends its notifications to the `call` at first and later to the clients that ask about it.
    pub(crate) fn start<F>(
        &self,
        request: &Request,
        call: Peer,
        stage: Stage,
        tool: &Tool,
        run: impl FnOnce(&Arc<Task>) -> F,
    ) -> Result<BoxFuture<Answer>, CallError>
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let shared = &self.0;
        if shared.scope.is_ended() {
            return Err(CallError::cancelled());
        }
        let task = Task::new(shared.making(request, call, stage, tool));
        match stage {
            Stage::Task => shared.kept.add(&task)?,
            Stage::Call | Stage::Asking => shared.kept.check_room(task.owner())?,
        }
        task.run(run(&task));
        let started = wire::started(request, &task);
        Ok(Box::pin(task::answer(task, shared.kept.clone(), started)))
    }

    /// Answers a request about tasks; `None` if it is not one of ours.
    pub(crate) fn answer(&self, request: &Request, peer: Peer) -> Option<BoxFuture<Answer>> {
        let (shared, origin) = (self.0.clone(), request.origin.clone());
        let allowed = wire::allowed(request);
        let answering: BoxFuture<Answer> = match request.method.as_str() {
            "tasks/list" | "tasks/result" if !wire::knows_lists(request) => return None,
            "tasks/list" | LIST_TASKS => Box::pin(async move {
                let tasks = shared.list(&origin).await?;
                Ok(AnswerBody::ours(wire::list(&origin, &tasks)))
            }),
            method @ ("tasks/get" | "tasks/update" | "tasks/cancel" | "tasks/result") => {
                let about = TaskRequest {
                    what: match method {
                        "tasks/get" => What::Get,
                        "tasks/update" => What::Update(request.params.member("inputResponses")),
                        "tasks/cancel" => What::Cancel,
                        _ => What::Result(peer),
                    },
                    id: request.params.member("taskId").and_then(|id| id.as_string()).unwrap_or_default(),
                    origin,
                };
                Box::pin(async move { about.answer(&shared).await })
            }
            _ => return None,
        };
        Some(match allowed {
            Ok(()) => answering,
            Err(error) => Box::pin(async { Err(error) }),
        })
    }

    /// Whether there is such a task under way and the client may ask about it.
    pub(crate) fn is_of(&self, id: &str, origin: &Origin) -> bool {
        self.0.kept.find(id, origin).is_some()
    }

    /// A client has disconnected, and no other can come back for its tasks.
    pub(crate) fn client_ended(&self, client: &ClientKey) {
        self.0.kept.forget_of(&Owner::Client(client.clone()));
    }

    /// Ends all tasks. Stored ones are interrupted once their last changes are stored.
    pub(crate) async fn end(&self) {
        let storing = async {
            for task in self.0.kept.all(|_| true) {
                let _ = task.stored_snapshot().await;
            }
        };
        if tokio::time::timeout(LAST_CHANGES, storing).await.is_err() {
            tracing::warn!("the last changes of tasks could not be stored in time");
        }
        self.0.kept.forget_all();
        self.0.scope.end().await;
    }
}

impl Shared {
    fn making(&self, request: &Request, call: Peer, stage: Stage, tool: &Tool) -> NewTask {
        let (id, origin) = (random::token(), &request.origin);
        let longest = tool.keep.unwrap_or(KEPT);
        let lasting = tool.keep.map(|_| {
            let owner = owners_of(origin).swap_remove(0);
            let call = tool.resume.then(|| stored_call(request)).flatten();
            Lasting::new(&id, self.store().clone(), origin, owner, tool.name, call, self.scope.clone())
        });
        let owner = match lasting {
            Some(_) => Owner::Principal(origin.principal.clone()),
            None => Owner::of(origin),
        };
        NewTask {
            id,
            stage,
            call,
            owner,
            created: SystemTime::now(),
            kept_for: wire::kept_for(request).unwrap_or(longest).min(longest),
            scope: self.scope.child(),
            changes: self.changes.clone(),
            lasting,
            past: if tool.resume { Past::of(Vec::new()) } else { Past::default() },
        }
    }

    fn store(&self) -> &Arc<dyn TaskStore> {
        self.store.get_or_init(|| Arc::new(MemoryTasks::default()))
    }

    /// The store, if one was given or anything is in it.
    fn stored(&self) -> Option<&Arc<dyn TaskStore>> {
        self.store.get()
    }

    /// The task of this id. A task of another owner is reported as unknown.
    async fn find(self: &Arc<Self>, id: &str, origin: &Origin) -> Result<Found, CallError> {
        if let Some(task) = self.kept.find(id, origin) {
            return Ok(Found::Live(task));
        }
        if let Some(store) = self.stored().filter(|store| store.exists()) {
            for owner in owners_of(origin) {
                match store.get(&owner, id).await.map_err(|error| unavailable(&error))? {
                    Some(record) if record.state.has_ended() => return Ok(Found::stored(record)),
                    Some(record) => return self.adopt(record, Some(origin)).await,
                    None => {}
                }
            }
        }
        Err(CallError::invalid_params(format!("unknown task: {id}")))
    }

    /// The tasks that this client may list, the oldest first.
    async fn list(self: &Arc<Self>, origin: &Origin) -> Result<Vec<TaskSnapshot>, CallError> {
        let mut tasks = Vec::new();
        for task in self.kept.of(origin) {
            tasks.push(task.stored_snapshot().await?);
        }
        if let Some(store) = self.stored().filter(|store| store.exists()) {
            // A client that does not prove its user knows only the ids of its own tasks.
            for owner in owners_of(origin).into_iter().filter(|owner| owner != "unproven" || origin.is_proven)
            {
                for record in store.list(&owner).await.map_err(|error| unavailable(&error))? {
                    if tasks.iter().all(|task| task.id != record.id)
                        && let Found::Stored(snapshot) = Found::stored(record)
                    {
                        tasks.push(*snapshot);
                    }
                }
            }
        }
        tasks.sort_by_key(|task| task.created);
        Ok(tasks)
    }
}

/// A request about one task.
struct TaskRequest {
    what: What,
    id: String,
    origin: Arc<Origin>,
}

enum What {
    Get,
    Update(Option<Raw>),
    Cancel,
    Result(Peer),
}

impl TaskRequest {
    async fn answer(self, shared: &Arc<Shared>) -> Answer {
        let found = shared.find(&self.id, &self.origin).await?;
        let origin = &self.origin;
        let result = match (self.what, found) {
            (What::Get, Found::Live(task)) => wire::details(origin, &task.stored_snapshot().await?),
            (What::Get, Found::Stored(snapshot)) => wire::details(origin, &snapshot),
            (What::Update(answers), Found::Live(task)) => {
                task.take_answers(answers.as_ref());
                task.stored_snapshot().await?;
                Raw::empty_object()
            }
            (What::Update(_), Found::Stored(_)) => Raw::empty_object(),
            (What::Cancel, Found::Live(task)) => {
                let was_running = task.cancel();
                wire::cancelled(origin, &task.stored_snapshot().await?, was_running)?
            }
            (What::Cancel, Found::Stored(snapshot)) => wire::cancelled(origin, &snapshot, false)?,
            (What::Result(peer), Found::Live(task)) => return wire::result(task, peer).await,
            (What::Result(_), Found::Stored(snapshot)) => return wire::outcome_of(*snapshot),
        };
        Ok(AnswerBody::ours(result))
    }
}

/// The form of the task that this call would become; an error if it must become one and cannot.
pub(crate) fn first_stage(request: &Request, tool: &Tool) -> Result<Option<Stage>, CallError> {
    let is_task = tool.task != TaskUse::Never && wire::wants_task(request);
    let can_ask_first = request.origin.revision.has_result_stamps();
    match tool.task {
        TaskUse::Required if !is_task => Err(wire::needs_tasks(request)),
        _ if !is_task => Ok(None),
        _ if tool.asks_first && can_ask_first => Ok(Some(Stage::Call)),
        _ => Ok(Some(Stage::Task)),
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.scope.cancel();
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").field("kept", &self.kept).finish_non_exhaustive()
    }
}
