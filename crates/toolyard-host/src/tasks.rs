//! Tasks in SQLite: they outlive the client that started them and the gateway that ran them.
//!
//! There is one file for each pack and config set. It is opened when the first task is stored, so that a pack that is
//! only listed creates none. A lock beside it is held by the program that runs the tasks: others may read them.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use toolyard_model::BoxFuture;
use toolyard_tool::host::{TaskRecord, TaskState, TaskStore, TaskStoreError};

use crate::system;

/// How many tasks one owner may have; the oldest that has ended makes room.
const MOST_PER_OWNER: i64 = 1000;
/// How long another gateway may hold the file.
const PATIENCE: Duration = Duration::from_secs(5);
const FILE: &str = "tasks.sqlite";
const LOCK: &str = "tasks.lock";
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS tasks (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        tool TEXT NOT NULL,
        state TEXT NOT NULL,
        message TEXT,
        outcome TEXT,
        questions TEXT NOT NULL,
        call TEXT,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        expires INTEGER
    ) STRICT;
    CREATE INDEX IF NOT EXISTS tasks_of_owner ON tasks (owner, created);";
const COLUMNS: &str = "id, owner, tool, state, message, outcome, questions, call, created, updated, expires";

type Stored<T> = Result<T, TaskStoreError>;

/// The tasks of one pack. All its tool sets share them.
#[derive(Clone)]
pub(crate) struct SqliteTasks(Arc<SharedTasks>);

struct SharedTasks {
    /// The folder of the pack; nothing where the gateway keeps no state.
    folder: Option<PathBuf>,
    open: Mutex<Option<Open>>,
}

struct Open {
    connection: Connection,
    /// Held by the one program that runs the tasks.
    lock: Option<File>,
}

impl SqliteTasks {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self(Arc::new(SharedTasks { folder, open: Mutex::default() }))
    }

    /// Writes only if this program runs the tasks.
    fn writing<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> BoxFuture<Stored<T>> {
        let shared = self.0.clone();
        let work = move || {
            if !shared.runs_tasks()? {
                return Err(TaskStoreError(
                    "another gateway of this config runs the tasks of this pack".into(),
                ));
            }
            shared.with(work)
        };
        on_thread(work)
    }

    fn reading<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> BoxFuture<Stored<T>> {
        let shared = self.0.clone();
        on_thread(move || shared.with(work))
    }
}

/// Files are read and written on a thread for blocking work.
fn on_thread<T: Send + 'static>(work: impl FnOnce() -> Stored<T> + Send + 'static) -> BoxFuture<Stored<T>> {
    Box::pin(async move {
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|error| Err(TaskStoreError(error.to_string())))
    })
}

impl SharedTasks {
    fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Stored<T> {
        let mut open = self.lock();
        let open = match &mut *open {
            Some(open) => open,
            closed => closed.insert(Open { connection: self.connect()?, lock: None }),
        };
        work(&open.connection).map_err(|error| self.failed(&error))
    }

    /// Takes the lock if it is free. It is free again when this program ends, however it ends.
    fn runs_tasks(&self) -> Stored<bool> {
        self.with(|_| Ok(()))?;
        let mut open = self.lock();
        let Some(open) = &mut *open else { return Ok(false) };
        if open.lock.is_none() {
            let path = self.folder()?.join(LOCK);
            let explain = |error: std::io::Error| TaskStoreError(format!("{}: {error}", path.display()));
            let file =
                File::options().create(true).truncate(false).write(true).open(&path).map_err(explain)?;
            open.lock = file.try_lock().is_ok().then_some(file);
        }
        Ok(open.lock.is_some())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock()
    }

    fn folder(&self) -> Stored<&PathBuf> {
        let none = || TaskStoreError("the gateway keeps no state: use --state-dir".into());
        self.folder.as_ref().ok_or_else(none)
    }

    fn connect(&self) -> Stored<Connection> {
        let folder = self.folder()?;
        system::create_folder(folder)
            .map_err(|error| TaskStoreError(format!("create {}: {error}", folder.display())))?;
        let open = || {
            let connection = Connection::open(folder.join(FILE))?;
            connection.busy_timeout(PATIENCE)?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            // Each write is on the disk before it is reported.
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.execute_batch(SCHEMA)?;
            Ok(connection)
        };
        open().map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &rusqlite::Error) -> TaskStoreError {
        let folder = self.folder.clone().unwrap_or_default();
        TaskStoreError(format!("{}: {error}", folder.join(FILE).display()))
    }
}

impl TaskStore for SqliteTasks {
    fn put(&self, task: TaskRecord) -> BoxFuture<Stored<()>> {
        let putting = self.writing(move |connection| put(connection, &task));
        Box::pin(async { putting.await?.then_some(()).ok_or_else(full) })
    }

    fn get(&self, owner: &str, id: &str) -> BoxFuture<Stored<Option<TaskRecord>>> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.reading(move |connection| {
            let query = format!("SELECT {COLUMNS} FROM tasks WHERE owner = ?1 AND id = ?2 AND {FRESH} ?3");
            connection.query_row(&query, params![owner, id, now()], read).optional()
        })
    }

    fn list(&self, owner: &str) -> BoxFuture<Stored<Vec<TaskRecord>>> {
        let owner = owner.to_owned();
        self.reading(move |connection| {
            let query = format!(
                "SELECT {COLUMNS} FROM tasks WHERE owner = ?1 AND {FRESH} ?2 ORDER BY created DESC, id"
            );
            connection.prepare(&query)?.query_map(params![owner, now()], read)?.collect()
        })
    }

    fn remove(&self, owner: &str, id: &str) -> BoxFuture<Stored<()>> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.writing(move |connection| {
            connection.execute("DELETE FROM tasks WHERE owner = ?1 AND id = ?2", params![owner, id])?;
            Ok(())
        })
    }

    fn unfinished(&self) -> BoxFuture<Stored<Vec<TaskRecord>>> {
        self.reading(|connection| {
            let query = format!(
                "SELECT {COLUMNS} FROM tasks WHERE state IN ('working', 'input_required') AND {FRESH} ?1
                    ORDER BY created"
            );
            connection.prepare(&query)?.query_map(params![now()], read)?.collect()
        })
    }

    fn exists(&self) -> bool {
        self.0.folder.as_ref().is_some_and(|folder| folder.join(FILE).exists())
    }

    fn may_adopt(&self) -> BoxFuture<bool> {
        let shared = self.0.clone();
        let looking = on_thread(move || shared.runs_tasks());
        Box::pin(async { looking.await.unwrap_or(false) })
    }
}

fn full() -> TaskStoreError {
    TaskStoreError(format!("{MOST_PER_OWNER} tasks of one owner are running"))
}

/// False if the owner has too many tasks that run.
fn put(connection: &Connection, task: &TaskRecord) -> rusqlite::Result<bool> {
    let transaction = connection.unchecked_transaction()?;
    forget_expired(&transaction)?;
    let others = "SELECT count(*) FROM tasks WHERE owner = ?1 AND id <> ?2";
    let others: i64 = transaction.query_row(others, params![task.owner, task.id], |row| row.get(0))?;
    if others >= MOST_PER_OWNER {
        let oldest = "DELETE FROM tasks WHERE id = (SELECT id FROM tasks WHERE owner = ?1 AND id <> ?2 AND
            state NOT IN ('working', 'input_required') ORDER BY created LIMIT 1)";
        if transaction.execute(oldest, params![task.owner, task.id])? == 0 {
            return Ok(false);
        }
    }
    // An id of another owner is never taken over.
    let written = transaction.execute(
        "INSERT INTO tasks (id, owner, tool, state, message, outcome, questions, call, created, updated, expires)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
            ON CONFLICT (id) DO UPDATE SET state = ?4, message = ?5, outcome = ?6, questions = ?7, call = ?8,
            updated = ?10, expires = ?11 WHERE owner = ?2",
        params![
            task.id,
            task.owner,
            task.tool,
            state_name(task.state),
            task.message,
            task.outcome.as_ref().map(ToString::to_string),
            serde_json::to_string(&task.questions).unwrap_or_else(|_| "[]".into()),
            task.call.as_ref().map(ToString::to_string),
            millis(task.created),
            millis(task.updated),
            task.expires.map(millis),
        ],
    )?;
    transaction.commit()?;
    Ok(written == 1)
}

/// Expired tasks are removed with the next write.
const FRESH: &str = "coalesce(expires, 9e18) >";

fn now() -> i64 {
    millis(SystemTime::now())
}

fn forget_expired(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM tasks WHERE expires <= ?1", params![now()])?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<TaskRecord> {
    let (state, outcome): (String, Option<String>) = (row.get("state")?, row.get("outcome")?);
    let (questions, call): (String, Option<String>) = (row.get("questions")?, row.get("call")?);
    Ok(TaskRecord {
        id: row.get("id")?,
        owner: row.get("owner")?,
        tool: row.get("tool")?,
        state: state_of(&state),
        message: row.get("message")?,
        outcome: outcome.and_then(|outcome| serde_json::from_str(&outcome).ok()),
        questions: serde_json::from_str(&questions).unwrap_or_default(),
        call: call.and_then(|call| serde_json::from_str(&call).ok()),
        created: time(row.get("created")?),
        updated: time(row.get("updated")?),
        expires: row.get::<_, Option<i64>>("expires")?.map(time),
    })
}

fn state_name(state: TaskState) -> &'static str {
    match state {
        TaskState::Working => "working",
        TaskState::InputRequired => "input_required",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Cancelled => "cancelled",
    }
}

fn state_of(name: &str) -> TaskState {
    match name {
        "working" => TaskState::Working,
        "input_required" => TaskState::InputRequired,
        "completed" => TaskState::Completed,
        "cancelled" => TaskState::Cancelled,
        _ => TaskState::Failed,
    }
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn time(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolyard_tool::host::TaskQuestion;

    use super::*;

    fn task(id: &str, owner: &str, state: TaskState) -> TaskRecord {
        TaskRecord {
            id: id.into(),
            owner: owner.into(),
            tool: "index".into(),
            state,
            message: Some("half".into()),
            outcome: None,
            questions: vec![],
            call: Some(json!({ "arguments": {} })),
            created: time(1_000),
            updated: time(1_000),
            expires: None,
        }
    }

    #[tokio::test]
    async fn a_task_survives_the_gateway_with_its_questions() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("packs/agents");
        let store = SqliteTasks::new(Some(folder.clone()));
        assert!(!store.exists() && !folder.exists(), "making a store creates nothing");
        let question = TaskQuestion {
            key: "name".into(),
            method: "elicitation/create".into(),
            params: Some(json!({ "message": "Who?" })),
            answer: None,
        };
        let asking = TaskRecord { questions: vec![question], ..task("a", "ann", TaskState::InputRequired) };
        let done =
            TaskRecord { outcome: Some(json!({ "content": [] })), ..task("b", "ann", TaskState::Completed) };
        store.put(asking.clone()).await.unwrap();
        store.put(done.clone()).await.unwrap();
        drop(store);
        let store = SqliteTasks::new(Some(folder));
        assert!(store.exists());
        assert_eq!(store.get("ann", "b").await.unwrap(), Some(done));
        assert_eq!(store.unfinished().await.unwrap(), [asking]);
    }

    #[tokio::test]
    async fn one_program_runs_the_tasks_and_others_read_them() {
        let place = tempfile::tempdir().unwrap();
        let [first, second] = [0, 1].map(|_| SqliteTasks::new(Some(place.path().to_owned())));
        let working = task("a", "ann", TaskState::Working);
        first.put(working.clone()).await.unwrap();
        assert!(first.may_adopt().await && !second.may_adopt().await);
        assert_eq!(second.get("ann", "a").await.unwrap(), Some(working.clone()));
        let refused = second.put(task("b", "ann", TaskState::Working)).await.unwrap_err();
        assert!(refused.to_string().contains("another gateway"), "{refused}");
        drop(first);
        assert!(second.may_adopt().await);
        second.put(task("b", "ann", TaskState::Working)).await.unwrap();
    }

    #[tokio::test]
    async fn a_task_belongs_to_its_owner_and_expires() {
        let place = tempfile::tempdir().unwrap();
        let store = SqliteTasks::new(Some(place.path().to_owned()));
        store.put(task("a", "ann", TaskState::Working)).await.unwrap();
        assert_eq!(store.get("bob", "a").await.unwrap(), None);
        assert_eq!(store.list("bob").await.unwrap(), []);
        store.remove("bob", "a").await.unwrap();
        assert!(store.put(task("a", "bob", TaskState::Completed)).await.is_err(), "an id is not taken over");
        assert_eq!(store.get("ann", "a").await.unwrap().unwrap().state, TaskState::Working);
        let expired = TaskRecord { expires: Some(time(2_000)), ..task("a", "ann", TaskState::Completed) };
        store.put(expired).await.unwrap();
        assert_eq!(store.list("ann").await.unwrap(), []);
    }

    #[test]
    fn an_owner_has_a_bounded_number_of_tasks_and_ended_ones_make_room() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(SCHEMA).unwrap();
        for number in 0..MOST_PER_OWNER {
            let state = if number == 7 { TaskState::Completed } else { TaskState::Working };
            assert!(put(&connection, &task(&number.to_string(), "ann", state)).unwrap());
        }
        assert!(put(&connection, &task("new", "ann", TaskState::Working)).unwrap());
        assert!(!put(&connection, &task("more", "ann", TaskState::Working)).unwrap());
        assert!(put(&connection, &task("new", "ann", TaskState::Failed)).unwrap(), "a known task can change");
        assert!(put(&connection, &task("other", "bob", TaskState::Working)).unwrap());
    }

    #[tokio::test]
    async fn without_a_folder_the_reason_is_reported() {
        let error = SqliteTasks::new(None).list("ann").await.unwrap_err();
        assert!(error.to_string().contains("use --state-dir"), "{error}");
    }
}
