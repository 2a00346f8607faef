//! The database: its table, the chain of hashes, and what is removed.

use std::path::Path;
use std::time::{Duration, SystemTime};

use data_encoding::HEXLOWER;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use sha2::{Digest, Sha256};

use crate::entry::{Entry, micros};
use crate::{AuditError, AuditOptions, Durability};

/// The hash before the first record.
pub(crate) const START: &str = "";

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS records (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    what TEXT NOT NULL,
    run TEXT NOT NULL,
    call INTEGER,
    upstream TEXT,
    tool TEXT,
    principal TEXT NOT NULL,
    client TEXT NOT NULL,
    status TEXT NOT NULL,
    duration_us INTEGER NOT NULL,
    data TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS records_at ON records (at);
CREATE INDEX IF NOT EXISTS records_call ON records (run, call, what);
CREATE INDEX IF NOT EXISTS records_upstream ON records (upstream, at);
CREATE INDEX IF NOT EXISTS records_tool ON records (tool, at);
CREATE INDEX IF NOT EXISTS records_principal ON records (principal, at);
CREATE INDEX IF NOT EXISTS records_status ON records (status, at);
CREATE TABLE IF NOT EXISTS chain (one INTEGER PRIMARY KEY CHECK (one = 1), anchor TEXT NOT NULL, removed INTEGER NOT NULL);
INSERT OR IGNORE INTO chain VALUES (1, '', 0);
";

/// How many records one pass removes at most, so that writing is not held up for long.
const REMOVED_AT_ONCE: usize = 5_000;

pub(crate) struct Store {
    connection: Connection,
    /// The hash of the last record.
    last: String,
}

impl Store {
    pub(crate) fn open(path: &Path, durability: Durability) -> Result<Self, AuditError> {
        let failed = |source| AuditError::Open { path: path.to_owned(), source };
        let connection = Connection::open(path).map_err(failed)?;
        Self::prepare(connection, durability).map_err(failed)
    }

    fn prepare(connection: Connection, durability: Durability) -> rusqlite::Result<Self> {
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = if durability == Durability::Full { "FULL" } else { "NORMAL" };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.execute_batch(SCHEMA)?;
        let last = connection
            .query_row("SELECT hash FROM records ORDER BY id DESC LIMIT 1", [], |row| row.get(0))
            .optional()?;
        let anchor = || connection.query_row("SELECT anchor FROM chain", [], |row| row.get(0));
        let last = last.map_or_else(anchor, Ok)?;
        Ok(Self { connection, last })
    }

    /// Writes all of them, or none.
    pub(crate) fn write(
        &mut self,
        entries: &[Entry],
        run: &str,
        options: &AuditOptions,
    ) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        let mut last = self.last.clone();
        for entry in entries {
            last = insert(&transaction, entry, run, options, &last)?;
        }
        transaction.commit()?;
        self.last = last;
        Ok(())
    }

    /// Removes what is too old or too much. Returns whether there is more to remove.
    pub(crate) fn prune(&mut self, now: SystemTime, options: &AuditOptions) -> rusqlite::Result<bool> {
        let oldest = now.checked_sub(options.keep).map_or(0, micros);
        let transaction = self.connection.transaction()?;
        let too_old = "SELECT max(id) FROM (SELECT id FROM records WHERE at < ?1 ORDER BY id LIMIT ?2)";
        let limit = i64::try_from(REMOVED_AT_ONCE).unwrap_or(i64::MAX);
        let mut up_to: Option<i64> =
            transaction.query_row(too_old, params![oldest, limit], |row| row.get(0))?;
        if used_bytes(&transaction)? > options.max_bytes {
            let first = "SELECT max(id) FROM (SELECT id FROM records ORDER BY id LIMIT ?1)";
            up_to = up_to.max(transaction.query_row(first, [limit], |row| row.get(0))?);
        }
        let removed = match up_to {
            None => 0,
            Some(up_to) => remove(&transaction, up_to)?,
        };
        transaction.commit()?;
        Ok(removed >= REMOVED_AT_ONCE)
    }
}

/// What the records take, without pages that are free again.
fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = pragma("page_count")? - pragma("freelist_count")?;
    Ok(u64::try_from(pages * pragma("page_size")?).unwrap_or(0))
}

/// The chain goes on from the last record that is removed.
fn remove(transaction: &Transaction<'_>, up_to: i64) -> rusqlite::Result<usize> {
    let anchor: String =
        transaction.query_row("SELECT hash FROM records WHERE id = ?1", [up_to], |row| row.get(0))?;
    let removed = transaction.execute("DELETE FROM records WHERE id <= ?1", [up_to])?;
    let count = i64::try_from(removed).unwrap_or(i64::MAX);
    transaction.execute("UPDATE chain SET anchor = ?1, removed = removed + ?2", params![anchor, count])?;
    Ok(removed)
}

fn insert(
    transaction: &Transaction<'_>,
    entry: &Entry,
    run: &str,
    options: &AuditOptions,
    last: &str,
) -> rusqlite::Result<String> {
    let data = entry.to_json(run, options.payloads).to_string();
    let hash = chained(last, &data);
    let sql = "INSERT INTO records (at, what, run, call, upstream, tool, principal, client, status, duration_us, data, hash)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    transaction.prepare_cached(sql)?.execute(params![
        entry.at(),
        entry.what.as_str(),
        run,
        entry.call().and_then(|call| i64::try_from(call).ok()),
        entry.upstream(),
        entry.tool(),
        entry.principal(),
        entry.client(),
        entry.status(),
        entry.duration_us(),
        data,
        hash,
    ])?;
    Ok(hash)
}

/// The hash of a record: over the hash before it and its own text.
pub(crate) fn chained(last: &str, data: &str) -> String {
    HEXLOWER.encode(&Sha256::new().chain_update(last).chain_update("\n").chain_update(data).finalize())
}
