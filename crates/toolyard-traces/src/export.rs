//! Sends spans in batches. If the receiver cannot be reached, a batch is sent again after growing pauses; calls never
//! wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use toolyard_link::http::post_once;

use crate::TracesOptions;
use crate::finished::Finished;
use crate::otlp::{self, Resource};

/// The maximum number of calls in one request.
const BATCH: usize = 512;
/// How long the first call of a batch waits for others.
const GATHER: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_secs(10);
const LARGEST_ANSWER: usize = 64 * 1024;
const ATTEMPTS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) exported: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

pub(crate) struct Exporter {
    endpoint: Uri,
    headers: HeaderMap,
    service: String,
    /// The id of this run.
    instance: String,
    queue: mpsc::Receiver<Finished>,
    counts: Arc<Counts>,
    /// Whether the last batch could not be delivered, which is logged once.
    is_failing: bool,
}

impl Exporter {
    pub(crate) fn new(options: TracesOptions, queue: mpsc::Receiver<Finished>, counts: Arc<Counts>) -> Self {
        let TracesOptions { endpoint, mut headers, service, .. } = options;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let mut instance = [0; 8];
        // Without randomness two runs look the same in the traces.
        let _ = getrandom::fill(&mut instance);
        let instance = HEXLOWER.encode(&instance);
        Self { endpoint, headers, service, instance, queue, counts, is_failing: false }
    }

    pub(crate) async fn run(mut self) {
        while let Some(batch) = self.next_batch().await {
            let count = batch.len() as u64;
            let resource = Resource { service: &self.service, instance: &self.instance };
            let body = Bytes::from(otlp::request(&resource, &batch));
            drop(batch);
            let delivered = self.deliver(body).await;
            self.report(delivered, count);
        }
    }

    /// The calls that end within `GATHER`, up to the size of a batch. `None` when the queue is closed.
    async fn next_batch(&mut self) -> Option<Vec<Finished>> {
        let mut batch = vec![self.queue.recv().await?];
        let until = Instant::now() + GATHER;
        while batch.len() < BATCH {
            match timeout_at(until, self.queue.recv()).await {
                Ok(Some(finished)) => batch.push(finished),
                Ok(None) | Err(_) => break,
            }
        }
        Some(batch)
    }

    async fn deliver(&self, body: Bytes) -> Result<(), String> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let failed = match self.post(body.clone()).await {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            // When the gateway ends, nothing is waited for.
            if attempt == ATTEMPTS || !failed.may_pass || self.queue.is_closed() {
                return Err(failed.why);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        Ok(())
    }

    async fn post(&self, body: Bytes) -> Result<(), Failed> {
        let posted =
            post_once(self.endpoint.clone(), self.headers.clone(), body, LARGEST_ANSWER, ANSWER).await;
        match posted {
            Ok((status, _)) if status.is_success() => Ok(()),
            Ok((status, _)) => Err(Failed {
                why: format!("it answered with status {}", status.as_u16()),
                may_pass: matches!(
                    status,
                    StatusCode::TOO_MANY_REQUESTS
                        | StatusCode::BAD_GATEWAY
                        | StatusCode::SERVICE_UNAVAILABLE
                        | StatusCode::GATEWAY_TIMEOUT
                ),
            }),
            Err(why) => Err(Failed { why, may_pass: true }),
        }
    }

    fn report(&mut self, delivered: Result<(), String>, count: u64) {
        let counter = if delivered.is_ok() { &self.counts.exported } else { &self.counts.dropped };
        counter.fetch_add(count, Ordering::Relaxed);
        let was_failing = std::mem::replace(&mut self.is_failing, delivered.is_err());
        match delivered {
            Ok(()) if was_failing => tracing::info!("traces are exported again"),
            Err(error) if !was_failing => {
                let receiver = self.endpoint.authority().map(ToString::to_string).unwrap_or_default();
                tracing::warn!(receiver, %error, "traces could not be exported; check `endpoint` in [traces]");
            }
            _ => {}
        }
    }
}

struct Failed {
    why: String,
    /// Whether the same request may succeed later.
    may_pass: bool,
}
