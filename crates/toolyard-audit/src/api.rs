//! The audit in the control API.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use http::{Method, StatusCode};
use serde_json::json;
use toolyard_core::{Answered, Route, Who};
use toolyard_model::{ControlRequest, ControlResponse};

use crate::{AuditError, Query, Reader};

const SEARCH: &[(&str, &str)] = &[
    ("tool", "A part of the id."),
    ("upstream", "The id of the upstream."),
    ("principal", "The name of the principal."),
    ("client", "A part of the name of the client program."),
    ("status", "A status, or `error` for every failure."),
    ("since", "30m, 2h, 7d or a date."),
    ("until", "A time, as for since."),
    ("before", "Only records with a smaller id."),
    ("limit", "How many."),
];
/// How many records one answer lists, and an export has in memory.
const MOST: usize = 500;

/// The routes that search, export and verify the audit at `path`.
pub fn routes(path: &Path) -> Vec<Route> {
    let path: Arc<Path> = path.into();
    let route =
        |at: &'static str, summary, answer: fn(&Path, &Query) -> Result<ControlResponse, AuditError>| {
            let path = path.clone();
            Route::new(Method::GET, at, Who::Operator, summary, move |_, request, _| {
                let (path, query) = (path.clone(), query(request));
                Box::pin(async move { blocking(move || answer(&path, &query)).await })
            })
        };
    vec![
        route("/audit", "Recorded calls, the newest first.", |path, query| {
            let limit = query.limit.unwrap_or(MOST).min(MOST);
            let found = Reader::open(path)?.search(&Query { limit: Some(limit), ..query.clone() })?;
            Ok(ControlResponse::json(&json!({ "records": found.records, "total": found.total })))
        })
        .with_query(SEARCH),
        route("/audit/export", "The same as JSON lines, the oldest first.", |path, query| {
            let reader = Reader::open(path)?;
            let (first, end) = (reader.first_of(query)?, reader.newest()? + 1);
            let before = query.before.map_or(end, |before| before.min(end));
            let range = Query { after: Some(first - 1), before: Some(before), ..query.clone() };
            let parts = export(path.into(), range, MOST);
            Ok(ControlResponse::Parts { content_type: "application/x-ndjson", parts })
        })
        .with_query(SEARCH),
        route("/audit/verify", "Check that no record was changed.", |path, _| {
            let verified = Reader::open(path)?.verify()?;
            let message = verified.message();
            let broken = verified.broken.map(|(id, why)| json!({ "id": id, "why": why }));
            Ok(ControlResponse::json(&json!({
                "records": verified.records, "removed": verified.removed, "last": verified.last,
                "broken": broken, "message": message,
            })))
        }),
    ]
}

/// Records as lines, in the order of their ids, read a page at a time as the client takes them.
fn export(path: Arc<Path>, range: Query, page: usize) -> BoxStream<'static, Result<Bytes, String>> {
    let pages = stream::unfold(Some(range), move |range| {
        let path = path.clone();
        async move {
            let range = range?;
            let read = tokio::task::spawn_blocking(move || {
                let records = Reader::open(&path)?.page(&Query { limit: Some(page), ..range.clone() })?;
                Ok::<_, AuditError>((records, range))
            });
            match read.await {
                Ok(Ok((records, _))) if records.is_empty() => None,
                Ok(Ok((records, range))) => {
                    let last = records.last().and_then(|record| record["id"].as_i64());
                    let lines: Vec<String> = records.iter().map(ToString::to_string).collect();
                    Some((
                        Ok((lines.join("\n") + "\n").into()),
                        last.map(|last| Query { after: Some(last), ..range }),
                    ))
                }
                Ok(Err(error)) => Some((Err(error.to_string()), None)),
                Err(error) => Some((Err(error.to_string()), None)),
            }
        }
    });
    pages.boxed()
}

fn query(request: &ControlRequest) -> Query {
    let text = |name: &str| request.parameter(name).filter(|value| !value.is_empty());
    Query {
        tool: text("tool"),
        upstream: text("upstream"),
        principal: text("principal"),
        client: text("client"),
        status: text("status"),
        since: text("since"),
        until: text("until"),
        before: text("before").and_then(|id| id.parse().ok()),
        after: None,
        limit: text("limit").and_then(|limit| limit.parse().ok()),
    }
}

async fn blocking(answer: impl FnOnce() -> Result<ControlResponse, AuditError> + Send + 'static) -> Answered {
    let answered = tokio::task::spawn_blocking(answer).await;
    match answered {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error @ AuditError::Time(_))) => {
            Err(ControlResponse::error(StatusCode::BAD_REQUEST, "bad_parameter", &error.to_string()))
        }
        Ok(Err(error)) => Err(internal(&error.to_string())),
        Err(error) => Err(internal(&error.to_string())),
    }
}

fn internal(message: &str) -> ControlResponse {
    ControlResponse::error(StatusCode::INTERNAL_SERVER_ERROR, "failed", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Durability;
    use crate::store::Store;

    #[tokio::test]
    async fn an_export_is_read_a_page_at_a_time_and_has_every_record_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(crate::FILE);
        drop(Store::open(&path, Durability::Normal).unwrap());
        let connection = rusqlite::Connection::open(&path).unwrap();
        let sql =
            "INSERT INTO records (at, what, run, call, principal, client, status, duration_us, data, hash)
            VALUES (1, 'closed', 'r', ?1, 'ann', 'c', 'ok', 1, '{}', '')";
        for call in 0..25 {
            connection.execute(sql, [call]).unwrap();
        }
        let exported = async |range: Query| {
            let pages: Vec<_> = export(path.as_path().into(), range, 10).collect().await;
            let pages: Vec<String> =
                pages.into_iter().map(|page| String::from_utf8(page.unwrap().to_vec()).unwrap()).collect();
            let id =
                |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_i64().unwrap();
            (pages.len(), pages.concat().lines().map(id).collect::<Vec<_>>())
        };
        let all = Query { after: Some(0), ..Query::default() };
        assert_eq!(exported(all.clone()).await, (3, (1..=25).collect()));
        let reader = Reader::open(&path).unwrap();
        let first = reader.first_of(&Query { limit: Some(4), ..Query::default() }).unwrap();
        assert_eq!(exported(Query { after: Some(first - 1), ..all.clone() }).await, (1, (22..=25).collect()));
        assert_eq!(exported(Query { before: Some(3), ..all }).await, (1, vec![1, 2]));
    }
}
