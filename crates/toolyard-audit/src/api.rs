//! The audit in the control API.

use std::path::Path;
use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Value, json};
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
/// How many records one answer lists, and an export has at most.
const MOST: usize = 500;
const MOST_EXPORTED: usize = 100_000;

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
        route("/audit/export", "The same as JSON lines.", |path, query| {
            let limit = query.limit.unwrap_or(MOST_EXPORTED).min(MOST_EXPORTED);
            let found = Reader::open(path)?.search(&Query { limit: Some(limit), ..query.clone() })?;
            let lines: Vec<String> = found.records.iter().rev().map(Value::to_string).collect();
            Ok(ControlResponse::text("application/x-ndjson", lines.join("\n") + "\n"))
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
