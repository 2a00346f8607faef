//! One row for each request to a model: who asked, what it took, what it cost. Neither prompts nor answers are kept.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, params};
use schemars::JsonSchema;
use serde::Serialize;
use toolyard_tool::{Host, ToolError};

use crate::conversation::Usage;

/// Rows that are kept; the oldest are removed first.
const MOST_ROWS: i64 = 1_000_000;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS requests (
        id INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        tool TEXT NOT NULL,
        provider TEXT NOT NULL,
        model TEXT NOT NULL,
        principal TEXT NOT NULL,
        agent_type TEXT,
        task_id TEXT,
        session_id TEXT,
        status TEXT NOT NULL,
        duration_ms INTEGER NOT NULL,
        input_tokens INTEGER,
        cached_tokens INTEGER,
        output_tokens INTEGER,
        cost REAL,
        priced TEXT
    );
    CREATE INDEX IF NOT EXISTS requests_by_session ON requests (session_id);
";

/// The rows of [`Requests`]. The name of a run begins with that of the principal it works for.
const WANTED: &str = "(?1 IS NULL OR session_id = ?1) AND (?2 IS NULL OR at >= ?2)
    AND (?3 IS NULL OR principal = ?3 OR substr(principal, 1, length(?3) + 1) = ?3 || '/')";

/// Which requests a report is about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Requests<'a> {
    /// Those of this principal and of its runs; of all if there is none.
    pub(crate) principal: Option<&'a str>,
    pub(crate) session: Option<&'a str>,
    /// In seconds since 1970.
    pub(crate) since: Option<i64>,
}

/// One request that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) tool: &'static str,
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) principal: String,
    pub(crate) agent_type: Option<String>,
    pub(crate) task_id: Option<String>,
    pub(crate) session_id: Option<String>,
    /// `ok`, `cancelled`, or what went wrong in a word.
    pub(crate) status: String,
    pub(crate) duration: Duration,
    pub(crate) usage: Option<Usage>,
    pub(crate) cost: Option<f64>,
    pub(crate) priced: Option<String>,
}

/// The rows, in a file of the pack's state folder; in memory if there is no such folder.
#[derive(Clone, Debug)]
pub(crate) struct Ledger(Arc<Mutex<Connection>>);

impl Ledger {
    pub(crate) fn open(host: &Host) -> Result<Self, ToolError> {
        let connection = match host.state() {
            Ok(folder) => Connection::open(folder.join("usage.sqlite"))?,
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => Connection::open_in_memory()?,
            Err(error) => return Err(error.into()),
        };
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.execute_batch(SCHEMA)?;
        connection.execute(
            "DELETE FROM requests WHERE id <= (SELECT max(id) FROM requests) - ?1",
            params![MOST_ROWS],
        )?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    /// Writes a row on a thread for blocking work.
    pub(crate) async fn record(&self, row: Row) {
        let ledger = self.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || ledger.write(&row)).await {
            tracing::warn!(target: "models", %error, "could not record the usage of a model");
        }
    }

    /// The same without waiting for it, for what cannot wait.
    pub(crate) fn record_later(&self, row: Row) {
        let ledger = self.clone();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || ledger.write(&row))),
            // The runtime has ended, so this delays no task.
            Err(_) => ledger.write(&row),
        }
    }

    /// A row that cannot be written is logged, since the answer is there.
    fn write(&self, row: &Row) {
        if let Err(error) = self.insert(row) {
            tracing::warn!(target: "models", %error, "could not record the usage of a model");
        }
    }

    fn insert(&self, row: &Row) -> rusqlite::Result<()> {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let count =
            |of: fn(Usage) -> u64| row.usage.map(|usage| i64::try_from(of(usage)).unwrap_or(i64::MAX));
        self.connection().execute(
            "INSERT INTO requests (at, tool, provider, model, principal, agent_type, task_id, session_id, status,
                 duration_ms, input_tokens, cached_tokens, output_tokens, cost, priced)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            params![
                i64::try_from(at).unwrap_or(i64::MAX),
                row.tool,
                row.provider,
                row.model,
                row.principal,
                row.agent_type,
                row.task_id,
                row.session_id,
                row.status,
                i64::try_from(row.duration.as_millis()).unwrap_or(i64::MAX),
                count(|usage| usage.input_tokens),
                count(|usage| usage.cached_tokens),
                count(|usage| usage.output_tokens),
                row.cost,
                row.priced,
            ],
        )?;
        Ok(())
    }

    /// The sums by agent, session and model.
    pub(crate) fn report(&self, of: Requests<'_>) -> Result<Report, ToolError> {
        let by = |column: &str| self.sums(column, of);
        let by_agent = by("coalesce(agent_type, '')")?;
        let by_session = by("coalesce(session_id, '')")?;
        let by_model = by("provider || '/' || model")?;
        let total = by("'total'")?.into_iter().next().unwrap_or_else(|| Sum::none("total"));
        let prices = self.prices(of)?;
        Ok(Report { total, by_agent, by_session, by_model, prices })
    }

    fn sums(&self, column: &str, of: Requests<'_>) -> Result<Vec<Sum>, ToolError> {
        let connection = self.connection();
        let mut statement = connection.prepare(&format!(
            "SELECT {column}, count(*), sum(status NOT IN ('ok', 'cancelled')), coalesce(sum(input_tokens), 0),
                 coalesce(sum(cached_tokens), 0), coalesce(sum(output_tokens), 0), sum(cost),
                 sum(cost IS NULL AND (status IN ('ok', 'cancelled') OR input_tokens IS NOT NULL)),
                 sum(status = 'cancelled')
             FROM requests WHERE {WANTED}
             GROUP BY 1 ORDER BY 7 DESC, 2 DESC, 1"
        ))?;
        let rows = statement.query_map(params![of.session, of.since, of.principal], |row| {
            Ok(Sum {
                name: row.get(0)?,
                requests: row.get(1)?,
                failed: row.get(2)?,
                input_tokens: row.get(3)?,
                cached_tokens: row.get(4)?,
                output_tokens: row.get(5)?,
                cost: row.get(6)?,
                without_price: row.get(7)?,
                cancelled: row.get(8)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn prices(&self, of: Requests<'_>) -> Result<Vec<String>, ToolError> {
        let connection = self.connection();
        let mut statement = connection.prepare(&format!(
            "SELECT DISTINCT provider || '/' || model || ': ' || coalesce(priced, 'no date') FROM requests
             WHERE cost IS NOT NULL AND {WANTED} ORDER BY 1",
        ))?;
        let rows = statement.query_map(params![of.session, of.since, of.principal], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.0.lock()
    }
}

/// What requests to models took.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Report {
    pub(crate) total: Sum,
    pub(crate) by_agent: Vec<Sum>,
    pub(crate) by_session: Vec<Sum>,
    pub(crate) by_model: Vec<Sum>,
    /// The day of the prices that were used, by model.
    pub(crate) prices: Vec<String>,
}

/// A sum over requests.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Sum {
    /// The agent type, session or model; empty if a request named none.
    pub(crate) name: String,
    pub(crate) requests: i64,
    /// How many of them failed.
    pub(crate) failed: i64,
    /// How many of them were cancelled, by the client or because their time was up.
    pub(crate) cancelled: i64,
    pub(crate) input_tokens: i64,
    pub(crate) cached_tokens: i64,
    pub(crate) output_tokens: i64,
    /// The cost of the requests whose price is known; nothing if none is.
    pub(crate) cost: Option<f64>,
    /// How many answers, whole or broken off, have no known cost.
    pub(crate) without_price: i64,
}

impl Sum {
    fn none(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            requests: 0,
            failed: 0,
            cancelled: 0,
            input_tokens: 0,
            cached_tokens: 0,
            output_tokens: 0,
            cost: None,
            without_price: 0,
        }
    }
}
