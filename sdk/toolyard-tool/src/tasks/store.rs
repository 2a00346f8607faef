//! The store of tasks that survive their process. The SDK has a store in memory; a hosting program may have one on
//! disk.

use std::collections::HashMap;
use std::time::SystemTime;

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_model::BoxFuture;

/// How many tasks an owner may have in a store in memory; the oldest that has ended makes room.
const MOST_PER_OWNER: usize = 1000;

/// A task as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRecord {
    /// Unguessable.
    pub id: String,
    /// The principal that it belongs to.
    pub owner: String,
    /// The tool that runs as this task.
    pub tool: String,
    /// Its state.
    pub state: TaskState,
    /// A sentence for people.
    pub message: Option<String>,
    /// The result or the error, once it has ended.
    pub outcome: Option<Value>,
    /// Its questions: the open ones, and those whose answers a resumed run needs.
    pub questions: Vec<TaskQuestion>,
    /// The input of a resumed run; `None` if the tool cannot be run again.
    pub call: Option<Value>,
    /// When it was made.
    pub created: SystemTime,
    /// When it last changed.
    pub updated: SystemTime,
    /// When it is forgotten.
    pub expires: Option<SystemTime>,
}

/// A question of a stored task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskQuestion {
    /// The key that the answer comes back under.
    pub key: String,
    /// The method of the protocol.
    pub method: String,
    /// Its parameters.
    #[serde(default)]
    pub params: Option<Value>,
    /// The answer, once there is one.
    #[serde(default)]
    pub answer: Option<Value>,
}

/// The state of a stored task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It runs.
    Working,
    /// It waits for an answer of its owner.
    InputRequired,
    /// The task has a result.
    Completed,
    /// The task has an error.
    Failed,
    /// Its owner has cancelled it.
    Cancelled,
}

impl TaskState {
    /// Whether the task has ended.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Why a store failed.
#[derive(Debug, thiserror::Error)]
#[error("the task store failed: {0}")]
pub struct TaskStoreError(pub String);

/// Stores tasks. Each write is complete or has no effect.
pub trait TaskStore: Send + Sync + 'static {
    /// Adds a task, or replaces the one of this id.
    fn put(&self, task: TaskRecord) -> BoxFuture<Result<(), TaskStoreError>>;

    /// The task of this id, if it belongs to this owner.
    fn get(&self, owner: &str, id: &str) -> BoxFuture<Result<Option<TaskRecord>, TaskStoreError>>;

    /// The tasks of an owner, the newest first.
    fn list(&self, owner: &str) -> BoxFuture<Result<Vec<TaskRecord>, TaskStoreError>>;

    /// Forgets a task.
    fn remove(&self, owner: &str, id: &str) -> BoxFuture<Result<(), TaskStoreError>>;

    /// The tasks of all owners that have not ended.
    fn unfinished(&self) -> BoxFuture<Result<Vec<TaskRecord>, TaskStoreError>>;

    /// Whether anything was ever stored. Asking creates nothing.
    fn exists(&self) -> bool;

    /// Whether this program may end or resume tasks that it does not run: no other program may be using the store.
    fn may_adopt(&self) -> BoxFuture<bool>;
}

/// A store in memory, which ends with the program.
///
/// ```
/// use std::time::SystemTime;
/// use toolyard_tool::host::{MemoryTasks, TaskRecord, TaskState, TaskStore};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryTasks::default();
/// let task = TaskRecord {
///     id: "t1".into(), owner: "ann".into(), tool: "index".into(), state: TaskState::Working,
///     message: None, outcome: None, questions: Vec::new(), call: None,
///     created: SystemTime::now(), updated: SystemTime::now(), expires: None,
/// };
/// store.put(task.clone()).await?;
/// assert_eq!(store.get("ann", "t1").await?, Some(task));
/// assert_eq!(store.get("bob", "t1").await?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct MemoryTasks(Mutex<HashMap<String, TaskRecord>>);

impl MemoryTasks {
    /// The tasks that have not expired.
    fn tasks(&self) -> MutexGuard<'_, HashMap<String, TaskRecord>> {
        let mut tasks = self.0.lock();
        let now = SystemTime::now();
        tasks.retain(|_, task| task.expires.is_none_or(|expires| expires > now));
        tasks
    }

    fn put_now(&self, task: TaskRecord) -> Result<(), TaskStoreError> {
        let mut tasks = self.tasks();
        let own = tasks.values().filter(|other| other.owner == task.owner);
        if !tasks.contains_key(&task.id) && own.clone().count() >= MOST_PER_OWNER {
            let oldest = own.filter(|other| other.state.has_ended()).min_by_key(|other| other.created);
            let Some(oldest) = oldest.map(|oldest| oldest.id.clone()) else {
                return Err(TaskStoreError(format!("{MOST_PER_OWNER} tasks of one owner are running")));
            };
            tasks.remove(&oldest);
        }
        tasks.insert(task.id.clone(), task);
        Ok(())
    }
}

impl TaskStore for MemoryTasks {
    fn put(&self, task: TaskRecord) -> BoxFuture<Result<(), TaskStoreError>> {
        Box::pin(std::future::ready(self.put_now(task)))
    }

    fn get(&self, owner: &str, id: &str) -> BoxFuture<Result<Option<TaskRecord>, TaskStoreError>> {
        let found = self.tasks().get(id).filter(|task| task.owner == owner).cloned();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn list(&self, owner: &str) -> BoxFuture<Result<Vec<TaskRecord>, TaskStoreError>> {
        let mut found: Vec<TaskRecord> =
            self.tasks().values().filter(|task| task.owner == owner).cloned().collect();
        found.sort_by_key(|task| std::cmp::Reverse(task.created));
        Box::pin(std::future::ready(Ok(found)))
    }

    fn remove(&self, owner: &str, id: &str) -> BoxFuture<Result<(), TaskStoreError>> {
        let mut tasks = self.tasks();
        if tasks.get(id).is_some_and(|task| task.owner == owner) {
            tasks.remove(id);
        }
        drop(tasks);
        Box::pin(std::future::ready(Ok(())))
    }

    fn unfinished(&self) -> BoxFuture<Result<Vec<TaskRecord>, TaskStoreError>> {
        let found = self.tasks().values().filter(|task| !task.state.has_ended()).cloned().collect();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn exists(&self) -> bool {
        !self.tasks().is_empty()
    }

    fn may_adopt(&self) -> BoxFuture<bool> {
        Box::pin(std::future::ready(true))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn task(id: usize, state: TaskState) -> TaskRecord {
        TaskRecord {
            id: id.to_string(),
            owner: "ann".into(),
            tool: "index".into(),
            state,
            message: None,
            outcome: None,
            questions: Vec::new(),
            call: None,
            created: SystemTime::UNIX_EPOCH + Duration::from_secs(id as u64),
            updated: SystemTime::UNIX_EPOCH,
            expires: None,
        }
    }

    #[tokio::test]
    async fn an_owner_has_a_bounded_number_of_tasks_and_ended_ones_make_room() {
        let store = MemoryTasks::default();
        for id in 0..MOST_PER_OWNER {
            let state = if id == 7 { TaskState::Completed } else { TaskState::Working };
            store.put(task(id, state)).await.unwrap();
        }
        store.put(task(5000, TaskState::Working)).await.unwrap();
        assert_eq!(store.get("ann", "7").await.unwrap(), None);
        assert!(store.put(task(5001, TaskState::Working)).await.is_err());
        store.put(task(5000, TaskState::Failed)).await.unwrap();
        assert_eq!(store.list("ann").await.unwrap()[0].id, "5000");
    }

    #[tokio::test]
    async fn a_task_that_has_expired_is_forgotten() {
        let store = MemoryTasks::default();
        let expired = TaskRecord { expires: Some(SystemTime::UNIX_EPOCH), ..task(1, TaskState::Completed) };
        store.put(expired).await.unwrap();
        assert_eq!(store.list("ann").await.unwrap(), []);
        store.put(task(2, TaskState::Working)).await.unwrap();
        store.remove("bob", "2").await.unwrap();
        assert!(store.get("ann", "2").await.unwrap().is_some());
        store.remove("ann", "2").await.unwrap();
        assert!(store.get("ann", "2").await.unwrap().is_none());
    }
}
