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
        let too_many = surplus(&transaction, options.max_bytes)?.min(limit);
        if too_many > 0 {
            let first = "SELECT max(id) FROM (SELECT id FROM records ORDER BY id LIMIT ?1)";
            up_to = up_to.max(transaction.query_row(first, [too_many], |row| row.get(0))?);
        }
        let removed = match up_to {
            None => 0,
            Some(up_to) => remove(&transaction, up_to)?,
        };
        let is_large = used_bytes(&transaction)? > options.max_bytes;
        transaction.commit()?;
        Ok(removed >= REMOVED_AT_ONCE || (removed > 0 && is_large))
    }
}

/// How many records to remove so that the others take 90 % of the limit, estimated by their average size. Zero if they
/// are within the limit.
fn surplus(connection: &Connection, max_bytes: u64) -> rusqlite::Result<i64> {
    let used = used_bytes(connection)?;
    if used <= max_bytes {
        return Ok(0);
    }
    let count: i64 = connection.query_row("SELECT count(*) FROM records", [], |row| row.get(0))?;
    let excess = u128::from(used - max_bytes / 10 * 9);
    let share = u128::from(count.unsigned_abs()) * excess / u128::from(used.max(1));
    Ok(i64::try_from(share).unwrap_or(i64::MAX).max(1))
}

/// What the records take, without pages that are free again.
fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = pragma("page_count")? - pragma("freelist_count")?;
    Ok(u64::try_from(pages * pragma("page_size")?).unwrap_or(0))
}

/// Removes records, and sets the anchor of the chain to the hash of the last one.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::What;
    use crate::{FILE, Reader};

    const DAY: Duration = Duration::from_hours(24);

    struct Kept {
        store: Store,
        folder: tempfile::TempDir,
    }

    impl Kept {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::open(&folder.path().join(FILE), Durability::Normal).unwrap();
            Self { store, folder }
        }

        /// Writes one record for each of these moments.
        fn write(&mut self, moments: impl Iterator<Item = SystemTime>, options: &AuditOptions) {
            let entries: Vec<Entry> = moments.map(|at| Entry::example(What::Ended, at)).collect();
            self.store.write(&entries, "run", options).unwrap();
        }

        fn prune_all(&mut self, now: SystemTime, options: &AuditOptions) {
            while self.store.prune(now, options).unwrap() {}
        }

        /// How many records there are and how many were removed, if the chain is whole.
        fn verified(&self) -> (u64, u64) {
            let verified = Reader::open(&self.folder.path().join(FILE)).unwrap().verify().unwrap();
            assert_eq!(verified.broken, None);
            (verified.records, verified.removed)
        }
    }

    #[test]
    fn records_that_are_too_old_are_removed_and_the_rest_verifies_before_and_after_new_ones() {
        let (mut kept, options) = (Kept::new(), AuditOptions { keep: 7 * DAY, ..AuditOptions::default() });
        let now = SystemTime::now();
        kept.write((0..10).rev().map(|days| now - days * DAY), &options);
        kept.prune_all(now, &options);
        // Those of 9 and 8 days ago are older than 7 days; the one of exactly 7 days ago is not.
        assert_eq!(kept.verified(), (8, 2));
        kept.write(std::iter::once(now), &options);
        assert_eq!(kept.verified(), (9, 2));
    }

    #[test]
    fn a_change_of_any_column_of_a_record_is_found() {
        let changes = [
            "id = id + 1",
            "at = at + 1000",
            "what = 'opened'",
            "run = 'other'",
            "call = 7",
            "upstream = 'other'",
            "upstream = NULL",
            "tool = 'notes:remove'",
            "principal = 'bob'",
            "client = 'other'",
            "status = 'cancelled'",
            "duration_us = duration_us + 1000",
            "duration_us = -duration_us",
            "data = replace(data, 'ann', 'bob')",
            "hash = upper(hash)",
        ];
        let columns = SCHEMA.lines().take_while(|line| *line != ");").skip(2);
        let names: Vec<&str> = columns.map(|line| line.trim().split(' ').next().unwrap()).collect();
        assert_eq!(names.len(), 13, "{names:?}");
        for name in names {
            assert!(
                changes.iter().any(|change| change.starts_with(&format!("{name} = "))),
                "`{name}` is tried"
            );
        }
        for change in changes {
            let mut kept = Kept::new();
            kept.write((0..3).map(|_| SystemTime::now()), &AuditOptions::default());
            assert_eq!(kept.verified(), (3, 0));
            // The last record, so that no number of another one is taken.
            let sql = format!("UPDATE records SET {change} WHERE id = 3");
            assert_eq!(kept.store.connection.execute(&sql, []).unwrap(), 1);
            let verified = Reader::open(&kept.folder.path().join(FILE)).unwrap().verify().unwrap();
            assert!(verified.broken.is_some(), "`{change}` is found");
        }
    }

    #[test]
    fn an_audit_of_which_every_record_was_removed_goes_on_with_the_same_chain() {
        let (mut kept, options) = (Kept::new(), AuditOptions { keep: DAY, ..AuditOptions::default() });
        let now = SystemTime::now();
        kept.write([now - 3 * DAY, now - 2 * DAY].into_iter(), &options);
        kept.prune_all(now, &options);
        assert_eq!(kept.verified(), (0, 2));
        let path = kept.folder.path().join(FILE);
        kept.store = Store::open(&path, Durability::Normal).unwrap();
        kept.write(std::iter::once(now), &options);
        assert_eq!(kept.verified(), (1, 2));
    }

    #[test]
    fn only_as_many_of_the_oldest_records_are_removed_as_take_too_much_room() {
        let options = AuditOptions { max_bytes: 512 * 1024, ..AuditOptions::default() };
        let mut kept = Kept::new();
        kept.write((0..2_000).map(|_| SystemTime::now()), &options);
        let before = used_bytes(&kept.store.connection).unwrap();
        assert!(before > options.max_bytes, "{before} bytes are not too much");
        kept.prune_all(SystemTime::now(), &options);
        let after = used_bytes(&kept.store.connection).unwrap();
        assert!(after <= options.max_bytes, "{after} bytes are still too much");
        assert!(after >= options.max_bytes / 2, "{after} bytes are left, and more had room");
        let (records, removed) = kept.verified();
        assert_eq!(records + removed, 2_000);
        let first: i64 =
            kept.store.connection.query_row("SELECT min(id) FROM records", [], |row| row.get(0)).unwrap();
        assert_eq!(u64::try_from(first).unwrap(), removed + 1, "the oldest are removed");
    }
}
