//! Stored tasks that no program runs any more: they are resumed if their tool can be run again, and otherwise marked as
//! failed, with the reason.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolyard_model::{Answer, BoxFuture, ClientKey, Origin, Owner, Peer, Principal, Request, View};
use toolyard_proto::error::code::INTERNAL;
use toolyard_proto::{CallError, Id, Method, Raw, Revision};

use super::store::{TaskRecord, TaskState, TaskStoreError};
use super::task::{Lasting, NewTask, Outcome, Stage, Task, TaskSnapshot, ask_of, is_running_here};
use super::{Found, Past, Shared};
use crate::Context;
use crate::context::Surroundings;
use crate::handler::run_tool;
use crate::item::tool::Tool;
use crate::set::Offer;

/// Why a task that was interrupted has failed.
const LOST: &str = "the gateway was stopped while the task was running";

/// Runs tools of the set again.
pub(crate) struct TaskRunner {
    pub(crate) offer: Arc<Offer>,
    pub(crate) set: Weak<Surroundings>,
}

impl TaskRunner {
    fn resumable(&self, name: &str) -> Option<Arc<Tool>> {
        self.offer.items().tool(name).filter(|tool| tool.resume && tool.keep.is_some()).cloned()
    }

    fn run(&self, tool: Arc<Tool>, request: &Request, task: &Arc<Task>) -> BoxFuture<Answer> {
        let Some(set) = self.set.upgrade() else { return Box::pin(async { Err(CallError::cancelled()) }) };
        let arguments = request.params.member("arguments");
        Box::pin(run_tool(tool, arguments, Context::in_task(request, task, set), None))
    }
}

/// The input of a run after a restart: the call, and the capabilities that its client declared.
#[derive(Serialize, Deserialize)]
struct StoredCall {
    params: Value,
    view: String,
    revision: String,
    capabilities: Value,
    client: Option<Value>,
    is_proven: bool,
    folder: Option<String>,
}

/// The call as it is stored.
pub(super) fn stored_call(request: &Request) -> Option<Value> {
    let origin = &request.origin;
    let call = StoredCall {
        params: request.params.as_raw().without(&["_meta", "requestState"]).read().ok()?,
        view: origin.view.to_string(),
        revision: origin.revision.as_str().to_owned(),
        capabilities: origin.capabilities.read().ok()?,
        client: origin.client_info.as_ref().and_then(|info| info.read().ok()),
        is_proven: origin.is_proven,
        folder: origin.folder.as_ref().map(|folder| folder.display().to_string()),
    };
    serde_json::to_value(call).ok()
}

impl StoredCall {
    /// The request again, for this principal.
    fn request(self, principal: Principal, client: ClientKey) -> Option<Request> {
        let (view, revision) = (View::parse(&self.view)?, Revision::parse(&self.revision)?);
        let folder = self.folder.map(|folder| Path::new(&folder).into());
        let origin = Origin::new(view, principal, client, revision)
            .with_capabilities(self.capabilities.into())
            .with_client_info(self.client.map(Raw::from))
            .with_place(self.is_proven, folder);
        Some(Request::new(Arc::new(origin), Id::number(0), Method::TOOLS_CALL, Raw::from(self.params)))
    }
}

impl Shared {
    /// Takes over all tasks that an earlier program left unfinished. Those of principals that have to prove who
    /// they are wait until their owner asks: their rights are not known before.
    pub(super) async fn adopt_all(self: Arc<Self>) {
        let Some(store) = self.stored().filter(|store| store.exists()) else { return };
        if !store.may_adopt().await {
            return;
        }
        let unfinished = match store.unfinished().await {
            Ok(unfinished) => unfinished,
            Err(error) => return tracing::error!(%error, "could not look for interrupted tasks"),
        };
        for record in unfinished {
            if let Err(error) = self.adopt(record, None).await {
                tracing::error!(%error, "could not take over an interrupted task");
            }
        }
    }

    /// Takes over a task that no program runs any more, for a client of its owner or for all of them.
    pub(super) async fn adopt(
        self: &Arc<Self>,
        record: TaskRecord,
        asker: Option<&Origin>,
    ) -> Result<Found, CallError> {
        let Some(store) = self.stored() else { return Ok(Found::stored(record)) };
        let _alone = self.adopting.lock().await;
        if let Some(task) = self.kept.all(|task| task.id() == record.id).pop() {
            return Ok(Found::Live(task));
        }
        if is_running_here(&record.id) || !store.may_adopt().await {
            return Ok(Found::stored(record));
        }
        // It may have ended since it was read.
        let read = store.get(&record.owner, &record.id).await.map_err(|error| unavailable(&error))?;
        let record = match read {
            Some(record) if !record.state.has_ended() => record,
            Some(record) => return Ok(Found::stored(record)),
            None => return Err(CallError::invalid_params(format!("unknown task: {}", record.id))),
        };
        let Some(tool) = self.runner.resumable(&record.tool) else { return self.fail(record).await };
        let (principal, client) = match (asker, record.owner.as_str()) {
            (Some(asker), _) => (asker.principal.clone(), asker.client.clone()),
            (None, "local" | "unproven") => (Principal::local(), ClientKey::Gateway),
            (None, _) => return Ok(Found::stored(record)),
        };
        let call = record.call.clone().and_then(|call| serde_json::from_value::<StoredCall>(call).ok());
        match call.and_then(|call| call.request(principal, client)) {
            Some(request) => self.resume(record, tool, &request).map(Found::Live),
            None => self.fail(record).await,
        }
    }

    fn resume(&self, record: TaskRecord, tool: Arc<Tool>, request: &Request) -> Result<Arc<Task>, CallError> {
        let Some(store) = self.stored() else { return Err(CallError::cancelled()) };
        let origin = &request.origin;
        let TaskRecord { id, owner, questions, call, created, .. } = record;
        tracing::info!(task = %id, tool = tool.name, "resumed an interrupted task");
        let lasting = Lasting::new(&id, store.clone(), origin, owner, tool.name, call, self.scope.clone());
        let task = Task::new(NewTask {
            id,
            stage: Stage::Task,
            call: Peer::none(),
            owner: Owner::Principal(origin.principal.clone()),
            created,
            kept_for: kept_for(created, record.expires),
            scope: self.scope.child(),
            changes: self.changes.clone(),
            lasting: Some(lasting),
            past: Past::of(questions),
        });
        self.kept.add(&task)?;
        task.run(self.runner.run(tool, request, &task));
        task.keep_stored(&self.kept);
        Ok(task)
    }

    async fn fail(&self, record: TaskRecord) -> Result<Found, CallError> {
        let failed = TaskRecord {
            state: TaskState::Failed,
            message: Some(LOST.into()),
            outcome: Some(json!({ "code": INTERNAL, "message": LOST })),
            questions: Vec::new(),
            call: None,
            updated: SystemTime::now(),
            ..record
        };
        if let Some(store) = self.stored() {
            store.put(failed.clone()).await.map_err(|error| unavailable(&error))?;
        }
        Ok(Found::stored(failed))
    }
}

impl Found {
    pub(super) fn stored(record: TaskRecord) -> Self {
        let outcome = match record.state {
            TaskState::Working | TaskState::InputRequired => None,
            TaskState::Completed => Some(Outcome::Result(record.outcome.unwrap_or_default().into())),
            TaskState::Failed => {
                Some(Outcome::Error(CallError::reported(record.outcome.unwrap_or_default().into())))
            }
            TaskState::Cancelled => Some(Outcome::Cancelled),
        };
        let open = record.questions.iter().filter(|one| one.answer.is_none());
        Self::Stored(Box::new(TaskSnapshot {
            questions: open.map(|one| (one.key.clone(), ask_of(one))).collect(),
            id: record.id,
            created: record.created,
            kept_for: kept_for(record.created, record.expires),
            outcome,
            message: record.message,
            updated: record.updated,
        }))
    }
}

fn kept_for(created: SystemTime, expires: Option<SystemTime>) -> Duration {
    expires.and_then(|expires| expires.duration_since(created).ok()).unwrap_or_default()
}

pub(super) fn unavailable(error: &TaskStoreError) -> CallError {
    CallError::unavailable(error.to_string())
}

impl std::fmt::Debug for TaskRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TaskRunner")
    }
}
