//! The runs of agents as rows, and their output as files. Both outlive the gateway.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Host, ToolError};

use crate::run::worktree::Worktree;

/// The most output of a run that is kept.
const MOST_OUTPUT: u64 = 16 << 20;
/// The age from which the file of a gateway that has ended is removed.
const OLD_LOCK: Duration = Duration::from_mins(10);
/// The age in seconds at which a run that has ended is removed.
const OLD_RUN: i64 = 30 * 86_400;
/// The most of a result that a row holds.
const MOST_RESULT: usize = 1 << 20;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS runs (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, agent_type TEXT NOT NULL, prompt TEXT NOT NULL, description TEXT,
        model TEXT, timeout INTEGER NOT NULL, folder TEXT NOT NULL, status TEXT NOT NULL, created INTEGER NOT NULL,
        ended INTEGER, result TEXT, error TEXT, worktree TEXT, cost REAL
    );
    CREATE TABLE IF NOT EXISTS trees (run TEXT PRIMARY KEY, root TEXT NOT NULL, cost REAL);
    CREATE INDEX IF NOT EXISTS runs_of_tree ON trees (root);
    CREATE TABLE IF NOT EXISTS parents (run TEXT NOT NULL, principal TEXT NOT NULL, PRIMARY KEY (run, principal));
    CREATE TABLE IF NOT EXISTS gateways (run TEXT PRIMARY KEY, gateway TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS worktrees (
        run TEXT PRIMARY KEY, owner TEXT NOT NULL, project TEXT NOT NULL, folder TEXT NOT NULL, dir TEXT, head TEXT NOT NULL
    );
";
/// Whether a run belongs to a principal: its own, or one that its agents have started.
const BELONGS: &str = "(owner = ?1 OR EXISTS (SELECT 1 FROM parents WHERE run = id AND principal = ?1))";
const COLUMNS: &str = "id, owner, agent_type, prompt, description, model, timeout, folder, status, created, ended, \
                       result, error, worktree, cost";

/// Where a run is.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Running,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    fn read(text: &str) -> Self {
        match text {
            "running" => Self::Running,
            "completed" => Self::Completed,
            "cancelled" => Self::Cancelled,
            _ => Self::Failed,
        }
    }
}

/// One run of an agent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Run {
    pub(crate) id: String,
    #[serde(skip)]
    pub(crate) owner: String,
    pub(crate) agent_type: String,
    #[serde(skip)]
    pub(crate) prompt: String,
    pub(crate) description: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) timeout: u64,
    /// The project that it works on.
    pub(crate) folder: String,
    pub(crate) status: Status,
    /// Seconds since 1970.
    pub(crate) created: i64,
    pub(crate) ended: Option<i64>,
    pub(crate) result: Option<String>,
    pub(crate) error: Option<String>,
    /// Where its changes are, if it made any.
    pub(crate) worktree: Option<String>,
    /// What it cost, as the agent reported it or by the prices of its type; missing if that is not known.
    pub(crate) cost: Option<f64>,
}

#[derive(Debug)]
pub(crate) struct Store {
    connection: Mutex<Connection>,
    folder: PathBuf,
    /// The name of this gateway, which holds the lock on the file of this name.
    gateway: String,
    _lock: File,
}

pub(crate) fn now() -> i64 {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

impl Store {
    /// Opens the rows. A run that was under way when its gateway ended has failed: its program ended as well. Several
    /// gateways may use one state directory, each with its own runs.
    pub(crate) fn open(host: &Host) -> Result<Self, ToolError> {
        let folder = host.state()?;
        std::fs::create_dir_all(folder.join("runs"))?;
        let connection = Connection::open(folder.join("agents.sqlite"))?;
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.execute_batch(SCHEMA)?;
        let gateway = crate::agents::random()?;
        std::fs::create_dir_all(folder.join("gateways"))?;
        let lock = lock(&folder.join("gateways").join(&gateway))?;
        let lock = lock.ok_or_else(|| ToolError::new("another gateway holds the lock of this one"))?;
        let store = Self { connection: Mutex::new(connection), folder, gateway, _lock: lock };
        store.end_lost()?;
        store.remove_old_locks();
        store.remove_old_runs()?;
        Ok(store)
    }

    /// Removes the files of gateways that have ended. A young one may be about to be locked.
    fn remove_old_locks(&self) {
        let Ok(files) = std::fs::read_dir(self.folder.join("gateways")) else { return };
        for file in files.flatten().filter(|file| file.file_name() != self.gateway.as_str()) {
            let age = file.metadata().ok().and_then(|about| about.modified().ok()?.elapsed().ok());
            let is_free = || lock(&file.path()).is_ok_and(|lock| lock.is_some());
            if age.is_some_and(|age| age > OLD_LOCK) && is_free() {
                let _ = std::fs::remove_file(file.path());
            }
        }
    }

    /// Removes runs that ended long ago, with their output. Worktrees with changes stay.
    fn remove_old_runs(&self) -> Result<(), ToolError> {
        let before = now() - OLD_RUN;
        let ids = {
            let connection = self.lock();
            let mut old =
                connection.prepare("SELECT id FROM runs WHERE status != 'running' AND ended < ?1")?;
            old.query_map(params![before], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?
        };
        for id in &ids {
            self.remove(id)?;
        }
        let without_runs = "DELETE FROM trees WHERE NOT EXISTS (SELECT 1 FROM runs WHERE id IN (run, root))";
        self.lock().execute(without_runs, [])?;
        Ok(())
    }

    /// Ends the runs of gateways that have ended themselves.
    fn end_lost(&self) -> Result<(), ToolError> {
        let connection = self.lock();
        let mut statement = connection.prepare(
            "SELECT DISTINCT coalesce(gateway, '') FROM runs LEFT JOIN gateways ON run = id WHERE status = 'running'",
        )?;
        let gateways = statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
        for gateway in gateways.iter().filter(|gateway| **gateway != self.gateway) {
            let path = self.folder.join("gateways").join(gateway);
            // A run of a gateway before this version has no name of it.
            if !gateway.is_empty() {
                if lock(&path)?.is_none() {
                    continue;
                }
                let _ = std::fs::remove_file(&path);
            }
            connection.execute(
                "UPDATE runs SET status = 'failed', error = 'the gateway was restarted', ended = ?1
                 WHERE status = 'running'
                 AND coalesce((SELECT gateway FROM gateways WHERE run = id), '') = ?2",
                params![now(), gateway],
            )?;
        }
        Ok(())
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a run with its gateway, at once: to other gateways, a run without one is lost. `parents` are the principals
    /// on whose behalf its owner acts, and `root` is the outermost run that it belongs to.
    pub(crate) fn insert(&self, run: &Run, parents: &[String], root: Option<&str>) -> Result<(), ToolError> {
        let mut connection = self.lock();
        let transaction = connection.transaction()?;
        let own = "INSERT INTO gateways (run, gateway) VALUES (?1, ?2)";
        transaction.execute(own, params![run.id, self.gateway])?;
        if let Some(root) = root {
            transaction.execute("INSERT INTO trees (run, root) VALUES (?1, ?2)", params![run.id, root])?;
        }
        for parent in parents {
            let one = "INSERT INTO parents (run, principal) VALUES (?1, ?2)";
            transaction.execute(one, params![run.id, parent])?;
        }
        transaction.execute(
            "INSERT INTO runs (id, owner, agent_type, prompt, description, model, timeout, folder, status, created)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                run.id,
                run.owner,
                run.agent_type,
                run.prompt,
                run.description,
                run.model,
                i64::try_from(run.timeout).unwrap_or(i64::MAX),
                run.folder,
                run.status.as_str(),
                run.created
            ],
        )?;
        transaction.commit()?;
        Ok(())
    }

    /// Records where a run works, or corrects it.
    pub(crate) fn record_worktree(&self, worktree: &Worktree) -> Result<(), ToolError> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        self.lock().execute(
            "INSERT OR REPLACE INTO worktrees (run, owner, project, folder, dir, head) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                worktree.run,
                worktree.owner,
                text(&worktree.project),
                text(&worktree.folder),
                worktree.dir.as_deref().map(text),
                worktree.head
            ],
        )?;
        Ok(())
    }

    pub(crate) fn forget_worktree(&self, run: &str) -> Result<(), ToolError> {
        let connection = self.lock();
        connection.execute("DELETE FROM worktrees WHERE run = ?1", params![run])?;
        connection.execute("UPDATE runs SET worktree = NULL WHERE id = ?1", params![run])?;
        Ok(())
    }

    pub(crate) fn name_worktree(&self, run: &str, folder: &Path) -> Result<(), ToolError> {
        let folder = folder.to_string_lossy();
        self.lock().execute("UPDATE runs SET worktree = ?2 WHERE id = ?1", params![run, folder])?;
        Ok(())
    }

    /// The worktrees of runs that have ended or were removed: of all owners, or only the removed runs of one.
    pub(crate) fn worktrees_left(&self, removed_of: Option<&str>) -> Result<Vec<Worktree>, ToolError> {
        let connection = self.lock();
        let sql = "SELECT run, owner, project, folder, dir, head FROM worktrees
            WHERE CASE WHEN ?1 IS NULL
                THEN NOT EXISTS (SELECT 1 FROM runs WHERE id = run AND status = 'running')
                ELSE owner = ?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE id = run) END";
        let mut statement = connection.prepare(sql)?;
        let rows = statement.query_map(params![removed_of], |row| {
            Ok(Worktree {
                run: row.get(0)?,
                owner: row.get(1)?,
                project: row.get::<_, String>(2)?.into(),
                folder: row.get::<_, String>(3)?.into(),
                dir: row.get::<_, Option<String>>(4)?.map(PathBuf::from),
                head: row.get(5)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The number of runs below a run, and their cost so far.
    pub(crate) fn spent(&self, root: &str) -> Result<Spent, ToolError> {
        let connection = self.lock();
        let number = |sql: &str| -> Result<usize, ToolError> {
            let number: i64 = connection.query_row(sql, params![root], |row| row.get(0))?;
            Ok(usize::try_from(number).unwrap_or(usize::MAX))
        };
        // An agent can remove its runs, and not what they have cost.
        let cost = "SELECT total(cost) FROM trees WHERE root = ?1";
        Ok(Spent {
            runs: number("SELECT count(*) FROM trees WHERE root = ?1")?,
            cost: connection.query_row(cost, params![root], |row| row.get(0))?,
            unknown: number(
                "SELECT count(*) FROM trees WHERE root = ?1 AND cost IS NULL
                 AND NOT EXISTS (SELECT 1 FROM runs WHERE id = run AND status = 'running')",
            )?,
        })
    }

    /// The type of a run of any owner.
    pub(crate) fn type_of(&self, id: &str) -> Result<Option<String>, ToolError> {
        let sql = "SELECT agent_type FROM runs WHERE id = ?1";
        Ok(self.lock().query_row(sql, params![id], |row| row.get(0)).optional()?)
    }

    /// Ends a run, once: a run that has ended stays as it is.
    pub(crate) fn end(&self, id: &str, status: Status, end: &End) -> Result<(), ToolError> {
        let cut = |text: &Option<String>| text.as_ref().map(|text| shortened(text, MOST_RESULT));
        self.lock().execute(
            "UPDATE runs SET status = ?2, ended = ?3, result = ?4, error = ?5, worktree = ?6, cost = ?7
             WHERE id = ?1 AND status = 'running'",
            params![id, status.as_str(), now(), cut(&end.result), cut(&end.error), end.worktree, end.cost],
        )?;
        self.lock().execute("UPDATE trees SET cost = ?2 WHERE run = ?1", params![id, end.cost])?;
        Ok(())
    }

    /// A run of this principal, or of an agent below it.
    pub(crate) fn get(&self, owner: &str, id: &str) -> Result<Run, ToolError> {
        let found = self.find(owner, id)?;
        let found = match found {
            // Its gateway may be gone, unless it is this one.
            Some(run) if run.status == Status::Running && !self.is_own(id)? => {
                self.end_lost()?;
                self.find(owner, id)?
            }
            found => found,
        };
        found.ok_or_else(|| {
            ToolError::not_found(format!("no agent `{id}`")).hint("`agent_list` lists your agents")
        })
    }

    fn find(&self, owner: &str, id: &str) -> Result<Option<Run>, ToolError> {
        let sql = format!("SELECT {COLUMNS} FROM runs WHERE {BELONGS} AND id = ?2");
        Ok(self.lock().query_row(&sql, params![owner, id], read).optional()?)
    }

    /// Whether a run is one of this gateway.
    pub(crate) fn is_own(&self, id: &str) -> Result<bool, ToolError> {
        let sql = "SELECT count(*) FROM gateways WHERE run = ?1 AND gateway = ?2";
        Ok(self.lock().query_row(sql, params![id, self.gateway], |row| row.get::<_, i64>(0))? > 0)
    }

    /// The runs of this principal and of the agents below it, newest first.
    pub(crate) fn list(&self, owner: &str, limit: usize) -> Result<Vec<Run>, ToolError> {
        self.end_lost()?;
        let connection = self.lock();
        let sql =
            format!("SELECT {COLUMNS} FROM runs WHERE {BELONGS} ORDER BY created DESC, rowid DESC LIMIT ?2");
        let mut statement = connection.prepare(&sql)?;
        let rows = statement.query_map(params![owner, i64::try_from(limit).unwrap_or(i64::MAX)], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Removes a run with its output.
    pub(crate) fn remove(&self, id: &str) -> Result<(), ToolError> {
        self.lock().execute("DELETE FROM runs WHERE id = ?1", params![id])?;
        self.lock().execute("DELETE FROM gateways WHERE run = ?1", params![id])?;
        self.lock().execute("DELETE FROM parents WHERE run = ?1", params![id])?;
        // A run that was never started has no output.
        let _ = std::fs::remove_file(self.output_path(id));
        Ok(())
    }

    fn output_path(&self, id: &str) -> PathBuf {
        self.folder.join("runs").join(format!("{id}.log"))
    }

    pub(crate) fn output(&self, id: &str) -> std::io::Result<Output> {
        let path = self.output_path(id);
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let written = file.metadata()?.len();
        Ok(Output { file, written, seen: Box::new(|_| ()) })
    }

    /// The last lines of the output.
    pub(crate) fn tail(&self, id: &str, lines: usize) -> Vec<String> {
        let text = read_end(&self.output_path(id), 256 << 10).unwrap_or_default();
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].iter().map(|line| (*line).to_owned()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock()
    }
}

/// The number and cost of the runs below one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) runs: usize,
    pub(crate) cost: f64,
    /// Runs that have ended at a cost that is not known.
    pub(crate) unknown: usize,
}

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct End {
    pub(crate) result: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) worktree: Option<String>,
    pub(crate) cost: Option<f64>,
}

/// The output of a run, appended line by line up to a limit.
pub(crate) struct Output {
    file: File,
    written: u64,
    /// Gets each line, also those beyond the limit.
    seen: Box<dyn Fn(&str) + Send>,
}

impl Output {
    /// Also gives each line to this function.
    pub(crate) fn seen_by(mut self, seen: impl Fn(&str) + Send + 'static) -> Self {
        self.seen = Box::new(seen);
        self
    }

    pub(crate) fn line(&mut self, line: &str) {
        (self.seen)(line);
        let bytes = line.len() as u64 + 1;
        if self.written + bytes > MOST_OUTPUT {
            return;
        }
        self.written += bytes;
        if let Err(error) = writeln!(self.file, "{line}") {
            tracing::warn!(target: "agents", %error, "could not write the output of an agent");
            self.written = MOST_OUTPUT;
        }
    }
}

/// The file, locked, unless another program holds it. It is free again when this program ends, however it ends.
fn lock(path: &Path) -> Result<Option<File>, ToolError> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    Ok(file.try_lock().is_ok().then_some(file))
}

fn read_end(path: &Path, most: u64) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Run> {
    let status: String = row.get(8)?;
    let timeout: i64 = row.get(6)?;
    Ok(Run {
        id: row.get(0)?,
        owner: row.get(1)?,
        agent_type: row.get(2)?,
        prompt: row.get(3)?,
        description: row.get(4)?,
        model: row.get(5)?,
        timeout: u64::try_from(timeout).unwrap_or_default(),
        folder: row.get(7)?,
        status: Status::read(&status),
        created: row.get(9)?,
        ended: row.get(10)?,
        result: row.get(11)?,
        error: row.get(12)?,
        worktree: row.get(13)?,
        cost: row.get(14)?,
    })
}

/// The beginning of a text.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(most)])
}
