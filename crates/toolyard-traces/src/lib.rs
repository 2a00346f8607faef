//! Calls as spans of distributed traces, exported by OTLP over HTTP.
//!
//! A call has a span of kind `server`, whose parent is the span in `_meta` of the client's request, and a span of kind
//! `client` for each time that it is sent to an upstream. The upstream finds the latter in `_meta`, so that client,
//! gateway and upstream are in one trace.
//!
//! No call waits for the export: spans that find no room in the queue are dropped and counted.

mod export;
mod finished;
mod otlp;
mod sink;

use std::fmt;

use http::{HeaderMap, Uri};

pub use sink::Traces;

/// The receiver of traces, and which calls are traced.
#[derive(Clone, PartialEq)]
pub struct TracesOptions {
    /// The whole URL, such as `http://127.0.0.1:4318/v1/traces`.
    pub endpoint: Uri,
    pub headers: HeaderMap,
    /// The share of calls without a caller's trace that begin one.
    pub sample: f64,
    /// The name of this gateway in traces.
    pub service: String,
}

/// Headers may hold secrets.
impl fmt::Debug for TracesOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracesOptions").field("host", &self.endpoint.host()).finish_non_exhaustive()
    }
}
