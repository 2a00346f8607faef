//! Copies the audit of this node into a stream of NATS, after it is safe on this machine. The stream itself shows how
//! far that has come: its last record of this gateway carries the number in the audit. Records are sealed with the
//! cluster's key, each for its number; [`read_audit`](crate::read_audit) opens them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishAckFuture;
use async_nats::jetstream::stream::{Config, LastRawMessageErrorKind, Stream};
use bytes::Bytes;
use tokio::time::sleep;
use toolyard_model::Keys;

/// Reads records of the audit: at most so many after this number, each with its number, the oldest first.
pub type AuditRecords = Arc<dyn Fn(i64, usize) -> Result<Vec<(i64, String)>, String> + Send + Sync>;

/// How many records are sent before their acknowledgements are awaited.
const BATCH: usize = 200;
const PAUSE: Duration = Duration::from_secs(1);
/// How long a record is recognised if it is sent twice.
const RECOGNISED: Duration = Duration::from_mins(2);
const KEPT: Duration = Duration::from_hours(30 * 24);
const NUMBER: &str = "Toolyard-Audit-Number";

/// The stream of all audits of a cluster.
pub(crate) fn stream_name(prefix: &str) -> String {
    format!("{prefix}_audit")
}

/// The number of a copied record in the audit of its node.
pub(crate) fn number(headers: &HeaderMap) -> Option<i64> {
    headers.get(NUMBER)?.as_str().parse().ok()
}

fn purpose(subject: &str, number: i64) -> String {
    format!("cluster audit {subject} {number}")
}

/// Nothing if the record was not sealed for this place with the cluster's secret.
pub(crate) fn open(keys: &Keys, subject: &str, number: i64, sealed: &[u8]) -> Option<Vec<u8>> {
    keys.open(&purpose(subject, number), std::str::from_utf8(sealed).ok()?)
}

pub(crate) struct Shipper {
    pub(crate) context: Context,
    pub(crate) prefix: String,
    pub(crate) replicas: usize,
    pub(crate) node: String,
    pub(crate) gateway: String,
    pub(crate) keys: Arc<Keys>,
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
            name: stream_name(&self.prefix),
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
                acks.push(self.send(number, &record).await?);
                last = number;
            }
            for ack in acks {
                ack.await.map_err(|error| error.to_string())?;
            }
        }
    }

    async fn send(&self, number: i64, record: &str) -> Result<PublishAckFuture, String> {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", format!("{}-{number}", self.gateway));
        headers.insert(NUMBER, number.to_string());
        let subject = self.subject();
        let sealed = self.keys.seal(&purpose(&subject, number), record.as_bytes());
        let sent = self.context.publish_with_headers(subject, headers, Bytes::from(sealed));
        sent.await.map_err(|error| error.to_string())
    }

    /// The number of the last record of this gateway in the stream; 0 if there is none.
    async fn last(&self, stream: &Stream) -> Result<i64, String> {
        match stream.get_last_raw_message_by_subject(&self.subject()).await {
            Ok(message) => number(&message.headers)
                .ok_or_else(|| "the last record in the stream has no number".to_owned()),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(0),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_record_is_unreadable_without_the_key_and_opens_only_in_its_place() {
        let keys = Keys::shared(&[7; 32], "a");
        let sealed = keys.seal(&purpose("toolyard.audit.a.x", 3), b"{\"tool\":\"files:read\"}");
        assert!(!sealed.contains("files"), "{sealed}");
        let open = |secret: u8, subject: &str, number: i64| {
            open(&Keys::shared(&[secret; 32], "b"), subject, number, sealed.as_bytes())
        };
        assert_eq!(open(7, "toolyard.audit.a.x", 3).as_deref(), Some(&b"{\"tool\":\"files:read\"}"[..]));
        assert_eq!(open(8, "toolyard.audit.a.x", 3), None);
        assert_eq!(open(7, "toolyard.audit.a.x", 4), None);
        assert_eq!(open(7, "toolyard.audit.b.x", 3), None);
    }
}
