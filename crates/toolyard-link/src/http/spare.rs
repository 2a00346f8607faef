//! A second credential of an upstream. When the server refuses the first one because of too many requests, requests
//! carry the second for a time, and then the first again.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, Response};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tokio::time::Instant;
use toolyard_proto::Raw;

/// In `_meta` of an answer: what replaced what was asked for, and why.
const FALLBACK_KEY: &str = "dev.toolyard/fallback";

/// The headers of the second credential, and until when they are used. Shared by all connections to the upstream.
pub struct Spare {
    headers: HeaderMap,
    cool_down: Duration,
    until: Mutex<Option<Instant>>,
}

impl Spare {
    /// These headers replace those of the same name for `cool_down` after a refusal.
    pub fn new(headers: HeaderMap, cool_down: Duration) -> Self {
        Self { headers, cool_down, until: Mutex::default() }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.until().is_some_and(|until| Instant::now() < until)
    }

    /// The server has refused the first credential. A refusal during the cool-down does not lengthen it.
    pub(crate) fn begin(&self) {
        let mut until = self.until();
        let now = Instant::now();
        if until.is_none_or(|until| until <= now) {
            *until = Some(now + self.cool_down);
        }
    }

    /// The headers of a request with the second credential in place of the first.
    pub(crate) fn put_into(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
    }

    fn until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.until.lock()
    }
}

/// The values are secrets.
impl fmt::Debug for Spare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.keys().collect();
        f.debug_struct("Spare")
            .field("headers", &names)
            .field("cool_down", &self.cool_down)
            .finish_non_exhaustive()
    }
}

/// Marks the response to a request with the second credential.
#[derive(Clone, Copy)]
struct BySpare;

pub(crate) fn mark<T>(response: &mut Response<T>) {
    response.extensions_mut().insert(BySpare);
}

pub(crate) fn is_marked<T>(response: &Response<T>) -> bool {
    response.extensions().get::<BySpare>().is_some()
}

/// The result with a note that the second credential was used.
pub(crate) fn stated(result: &Raw, upstream: &str) -> Raw {
    let because = format!("upstream `{upstream}` refused the first credential because of too many requests");
    let note = Raw::from(json!({ "credential": "spare", "because": because }));
    result.with_path(&["_meta", FALLBACK_KEY], &note)
}
