//! Copies the audit of this node into a stream of NATS, after it is safe on this machine. The stream itself shows how
//! far that has come: its last record of this gateway carries the number in the audit.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::stream::{Config, LastRawMessageErrorKind, Stream};
use bytes::Bytes;
use tokio::time::sleep;

/// Reads records of the audit: at most so many after this number, each with its number, the oldest first.
pub type AuditRecords = Arc<dyn Fn(i64, usize) -> Result<Vec<(i64, String)>, String> + Send + Sync>;

/// How many records are sent before their acknowledgements are awaited.
const BATCH: usize = 200;
const PAUSE: Duration = Duration::from_secs(1);
/// How long a record is recognised if it is sent twice.
const RECOGNISED: Duration = Duration::from_mins(2);
const KEPT: Duration = Duration::from_hours(30 * 24);
const NUMBER: &str = "Toolyard-Audit-Number";

pub(crate) struct Shipper {
    pub(crate) context: Context,
    pub(crate) prefix: String,
    pub(crate) replicas: usize,
    pub(crate) node: String,
    pub(crate) gateway: String,
    pub(crate) records: AuditRecords,
    /// The last record that the stream has.
    pub(crate) shipped: Arc<AtomicI64>,
}

impl Shipper {
    /// Runs until it is dropped. Whatever fails is tried again, from where the stream is.
    pub(crate) async fn run(self) {
        loop {
            if let Err(error) = self.ship().await {
                tracing::debug!(target: "cluster", error, "the audit was not copied; trying again");
            }
            sleep(PAUSE).await;
        }
    }

    fn subject(&self) -> String {
        format!("{}.audit.{}.{}", self.prefix, self.node, self.gateway)
    }

    async fn ship(&self) -> Result<(), String> {
        let stream = self.context.get_or_create_stream(Config {
            name: format!("{}_audit", self.prefix),
            subjects: vec![format!("{}.audit.>", self.prefix)],
            num_replicas: self.replicas,
            duplicate_window: RECOGNISED,
            max_age: KEPT,
            ..Config::default()
        });
        let stream = stream.await.map_err(|error| error.to_string())?;
        let mut last = self.last(&stream).await?;
        loop {
            self.shipped.store(last, Ordering::Relaxed);
            let records = self.records.clone();
            let batch = tokio::task::spawn_blocking(move || records(last, BATCH)).await;
            let batch = batch.map_err(|error| error.to_string())??;
            if batch.is_empty() {
                sleep(PAUSE).await;
                continue;
            }
            let mut acks = Vec::with_capacity(batch.len());
            for (number, record) in batch {
                acks.push(self.send(number, record).await?);
                last = number;
            }
            for ack in acks {
                ack.await.map_err(|error| error.to_string())?;
            }
        }
    }

    async fn send(&self, number: i64, record: String) -> Result<PublishAckFuture, String> {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", format!("{}-{number}", self.gateway));
        headers.insert(NUMBER, number.to_string());
        let sent = self.context.publish_with_headers(self.subject(), headers, Bytes::from(record));
        sent.await.map_err(|error| error.to_string())
    }

    /// The number of the last record of this gateway in the stream; 0 if there is none.
    async fn last(&self, stream: &Stream) -> Result<i64, String> {
        match stream.get_last_raw_message_by_subject(&self.subject()).await {
            Ok(message) => {
                let number = message.headers.get(NUMBER).map(ToString::to_string).unwrap_or_default();
                number.parse().map_err(|_| "the last record in the stream has no number".to_owned())
            }
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(0),
            Err(error) => Err(error.to_string()),
        }
    }
}
