//! Reads the audit: searches, follows and verifies it. Works beside the gateway that writes it, and without one.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, OpenFlags, Row, params_from_iter};
use serde_json::{Value, json};
use toolyard_core::report;

use crate::AuditError;
use crate::entry::micros;
use crate::store::{START, chained};

/// The statuses that are failures.
const FAILURES: &str = "('tool-error', 'protocol-error', 'timeout', 'failed', 'refused')";
/// Records of one call: its first record counts only while there is no last one.
const CALLS: &str = "(what != 'opened' OR NOT EXISTS (SELECT 1 FROM records AS later
    WHERE later.run = records.run AND later.call = records.call AND later.what = 'ended'))";

/// What a check of a record reads: its number, text and hash, and every column that can be searched.
const COLUMNS: &str =
    "id, data, hash, at, what, run, call, upstream, tool, principal, client, status, duration_us";
/// The columns that the text of a record has under the same name.
const TEXTS: [&str; 7] = ["what", "run", "upstream", "tool", "principal", "client", "status"];

/// What to look for. Empty fields match everything.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// A part of the canonical id.
    pub tool: Option<String>,
    pub upstream: Option<String>,
    pub principal: Option<String>,
    /// A part of the name of the client program.
    pub client: Option<String>,
    /// A status, or `error` for all failures.
    pub status: Option<String>,
    /// `2h`, `7d` or a date.
    pub since: Option<String>,
    pub until: Option<String>,
    /// Only records before this one.
    pub before: Option<i64>,
    /// Only records after this one, the oldest first.
    pub after: Option<i64>,
    /// How many; all if not given.
    pub limit: Option<usize>,
}

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The newest first, unless `after` is given. Each has its `id`.
    pub records: Vec<Value>,
    /// How many fit in all.
    pub total: u64,
}

/// The result of a check of the whole chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    pub records: u64,
    /// How many were removed because of their age or size.
    pub removed: u64,
    /// The hash of the last record, to be noted elsewhere.
    pub last: String,
    /// The first record that does not fit, with the reason.
    pub broken: Option<(i64, &'static str)>,
}

impl Verified {
    /// The outcome for people.
    pub fn message(&self) -> String {
        let Self { records, removed, last, broken } = self;
        match broken {
            Some((id, why)) => format!("record {id} was changed: {why}"),
            None if *removed > 0 => format!(
                "{records} records are as they were written, after {removed} that were removed by age or size; last hash {last}"
            ),
            None => format!("{records} records are as they were written; last hash {last}"),
        }
    }
}

/// An audit that is read.
#[derive(Debug)]
pub struct Reader(Connection);

impl Reader {
    pub fn open(path: &Path) -> Result<Self, AuditError> {
        if !path.exists() {
            return Err(AuditError::Missing(path.to_owned()));
        }
        let failed = |source| AuditError::Open { path: path.to_owned(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        connection.busy_timeout(Duration::from_secs(5)).map_err(failed)?;
        Ok(Self(connection))
    }

    pub fn search(&self, query: &Query) -> Result<Found, AuditError> {
        let (mut clauses, mut values) = (vec![CALLS.to_owned()], Vec::new());
        self.restrict(query, &mut clauses, &mut values)?;
        let matching = clauses.join(" AND ");
        let count = format!("SELECT count(*) FROM records WHERE {matching}");
        let total: i64 = self.0.query_row(&count, params_from_iter(&values), |row| row.get(0))?;
        let records = self.page(query)?;
        Ok(Found { records, total: u64::try_from(total).unwrap_or(0) })
    }

    /// Records as they were written, after this number, the oldest first. Each has its number and the hash that the
    /// chain has there.
    pub fn after(&self, number: i64, most: usize) -> Result<Vec<(i64, String)>, AuditError> {
        let sql = "SELECT id, data, hash FROM records WHERE id > ?1 ORDER BY id LIMIT ?2";
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut statement = self.0.prepare_cached(sql)?;
        let rows = statement.query_map([number, most], |row| {
            let (id, data, hash): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let mut record = with_id(id, &data);
            record["hash"] = json!(hash);
            Ok((id, record.to_string()))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The records of a search, and a way to read those that are written later. None of them is counted.
    pub fn follow(&self, query: &Query) -> Result<(Vec<Value>, Follow<'_>), AuditError> {
        let newest = self.newest()?;
        let records = self.page(&Query { before: Some(newest + 1), ..query.clone() })?;
        Ok((records, Follow { reader: self, query: Query { limit: None, ..query.clone() }, read: newest }))
    }

    /// The records alone.
    pub(crate) fn page(&self, query: &Query) -> Result<Vec<Value>, AuditError> {
        let (mut clauses, mut values) = (vec![CALLS.to_owned()], Vec::new());
        self.restrict(query, &mut clauses, &mut values)?;
        clauses.extend(query.before.map(|before| format!("id < {before}")));
        clauses.extend(query.after.map(|after| format!("id > {after}")));
        let order = if query.after.is_some() { "ASC" } else { "DESC" };
        let limit = query.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(-1));
        let sql = format!(
            "SELECT id, data FROM records WHERE {} ORDER BY id {order} LIMIT {limit}",
            clauses.join(" AND ")
        );
        let mut statement = self.0.prepare(&sql)?;
        let rows = statement.query_map(params_from_iter(&values), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })?;
        Ok(rows.map(|row| row.map(|(id, data)| with_id(id, &data))).collect::<Result<_, _>>()?)
    }

    /// The smallest id among the newest `limit` records of a query, or among all of them without a limit.
    pub(crate) fn first_of(&self, query: &Query) -> Result<i64, AuditError> {
        let Some(limit) = query.limit else { return Ok(0) };
        let (mut clauses, mut values) = (vec![CALLS.to_owned()], Vec::new());
        self.restrict(query, &mut clauses, &mut values)?;
        clauses.extend(query.before.map(|before| format!("id < {before}")));
        let newest =
            format!("SELECT id FROM records WHERE {} ORDER BY id DESC LIMIT {limit}", clauses.join(" AND "));
        let sql = format!("SELECT coalesce(min(id), 0) FROM ({newest})");
        Ok(self.0.query_row(&sql, params_from_iter(&values), |row| row.get(0))?)
    }

    fn restrict(
        &self,
        query: &Query,
        clauses: &mut Vec<String>,
        values: &mut Vec<SqlValue>,
    ) -> Result<(), AuditError> {
        let mut add = |clause: &str, value: SqlValue| {
            values.push(value);
            clauses.push(clause.replace('?', &format!("?{}", values.len())));
        };
        let part = |text: &str| format!("%{}%", text.replace(['%', '_'], "")).into();
        if let Some(tool) = &query.tool {
            add("(tool LIKE ? )", part(tool));
        }
        if let Some(client) = &query.client {
            add("client LIKE ?", part(client));
        }
        if let Some(upstream) = &query.upstream {
            add("upstream = ?", upstream.clone().into());
        }
        if let Some(principal) = &query.principal {
            add("principal = ?", principal.clone().into());
        }
        if let Some(since) = &query.since {
            add("at >= ?", self.time(since)?.into());
        }
        if let Some(until) = &query.until {
            add("at < ?", self.time(until)?.into());
        }
        match query.status.as_deref() {
            None => {}
            Some("error") => clauses.push(format!("status IN {FAILURES}")),
            Some(status) => add("status = ?", status.to_owned().into()),
        }
        Ok(())
    }

    /// A moment: so long ago, or a date as SQLite reads it.
    fn time(&self, text: &str) -> Result<i64, AuditError> {
        let wrong = || AuditError::Time(text.to_owned());
        if let Some(seconds) = ago(text) {
            let then = SystemTime::now().checked_sub(Duration::from_secs(seconds)).ok_or_else(wrong)?;
            return Ok(micros(then));
        }
        let seconds: Option<i64> =
            self.0.query_row("SELECT unixepoch(?1)", [text], |row| row.get(0)).map_err(|_| wrong())?;
        seconds.map(|seconds| seconds * 1_000_000).ok_or_else(wrong)
    }

    /// The id of the newest record.
    pub fn newest(&self) -> Result<i64, AuditError> {
        Ok(self.0.query_row("SELECT coalesce(max(id), 0) FROM records", [], |row| row.get(0))?)
    }

    /// Checks every record against its hash, and each of its columns against what was recorded.
    pub fn verify(&self) -> Result<Verified, AuditError> {
        // A transaction, so that records that are removed in the meantime are still seen.
        let state = self.0.unchecked_transaction()?;
        let (anchor, removed): (String, i64) =
            state.query_row("SELECT anchor, removed FROM chain", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut last = if removed == 0 { START.to_owned() } else { anchor };
        let (mut records, mut number) = (0, removed);
        let mut statement = state.prepare(&format!("SELECT {COLUMNS} FROM records ORDER BY id"))?;
        let mut rows = statement.query([])?;
        let mut broken = None;
        while let Some(row) = rows.next()? {
            let (id, data, hash): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            (records, number) = (records + 1, number + 1);
            if id != number || chained(&last, &data) != hash {
                broken = Some((id, "its number or hash does not match, or a record before it is missing"));
                break;
            }
            if !agrees(&data, row)? {
                broken = Some((id, "its searchable fields differ from what was recorded"));
                break;
            }
            last = hash;
        }
        Ok(Verified { records, removed: u64::try_from(removed).unwrap_or(0), last, broken })
    }
}

/// Reads the records of a search as they are written, each of them once.
#[derive(Debug)]
pub struct Follow<'a> {
    reader: &'a Reader,
    query: Query,
    /// The number of the last record that was read, whether it fits or not.
    read: i64,
}

impl Follow<'_> {
    /// The records since the last time, the oldest first.
    pub fn new_records(&mut self) -> Result<Vec<Value>, AuditError> {
        let newest = self.reader.newest()?;
        if newest == self.read {
            return Ok(Vec::new());
        }
        let new = Query { after: Some(self.read), before: Some(newest + 1), ..self.query.clone() };
        let records = self.reader.page(&new)?;
        self.read = newest;
        Ok(records)
    }
}

/// Whether the columns of a record have what its text has. Times are compared as the text has them: to the millisecond,
/// and durations to the microsecond.
fn agrees(data: &str, row: &Row<'_>) -> rusqlite::Result<bool> {
    let record: Value = serde_json::from_str(data).unwrap_or_default();
    for field in TEXTS {
        let column: Option<String> = row.get(field)?;
        if record[field].as_str() != column.as_deref() {
            return Ok(false);
        }
    }
    let (call, at, duration): (Option<i64>, i64, i64) =
        (row.get("call")?, row.get("at")?, row.get("duration_us")?);
    let at = UNIX_EPOCH + Duration::from_micros(u64::try_from(at).unwrap_or(0));
    // Records of earlier versions have the whole microseconds, so they may have one less than the rounded text.
    let recorded = record["durationMs"].as_f64().unwrap_or(0.0) * 1_000.0;
    let difference = recorded - Duration::from_micros(duration.unsigned_abs()).as_secs_f64() * 1_000_000.0;
    Ok(record["call"].as_i64() == call
        && record["at"].as_str() == Some(&*report::at(at))
        && duration >= 0
        && (-0.5..1.5).contains(&difference))
}

fn with_id(id: i64, data: &str) -> Value {
    let read = serde_json::from_str(data).ok().filter(Value::is_object);
    let mut record = read.unwrap_or_else(|| json!({ "damaged": data }));
    record["id"] = json!(id);
    record
}

/// Seconds of `30m`, `2h` or `7d`.
fn ago(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    number.checked_mul(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Durability;
    use crate::store::Store;

    #[test]
    fn each_record_is_followed_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(crate::FILE);
        drop(Store::open(&path, Durability::Normal).unwrap());
        let writer = Connection::open(&path).unwrap();
        let write = |tool: &str| {
            let sql = "INSERT INTO records (at, what, run, tool, principal, client, status, duration_us, data, hash)
                VALUES (1, 'ended', 'r', ?1, 'ann', 'c', 'ok', 1, '{}', '')";
            writer.execute(sql, [tool]).unwrap();
        };
        let ids = |records: Vec<Value>| -> Vec<i64> {
            records.iter().map(|record| record["id"].as_i64().unwrap()).collect()
        };
        let reader = Reader::open(&path).unwrap();
        let query = Query { tool: Some("a".into()), limit: Some(2), ..Query::default() };
        for tool in ["a", "a", "b", "a"] {
            write(tool);
        }
        let (found, mut follow) = reader.follow(&query).unwrap();
        assert_eq!(ids(found), [4, 2], "the newest two");
        assert!(follow.new_records().unwrap().is_empty());
        for tool in ["a", "b", "a", "a"] {
            write(tool);
        }
        assert_eq!(ids(follow.new_records().unwrap()), [5, 7, 8], "all that are new");
        write("b");
        assert!(follow.new_records().unwrap().is_empty());
        write("a");
        assert_eq!(ids(follow.new_records().unwrap()), [10]);
    }

    #[test]
    fn a_record_that_is_not_an_object_is_shown_as_damaged() {
        for data in ["[1]", "7", "null", "{"] {
            assert_eq!(with_id(3, data), json!({ "damaged": data, "id": 3 }));
        }
        assert_eq!(with_id(3, r#"{"a":1}"#), json!({ "a": 1, "id": 3 }));
    }
}
