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
use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use tokio::time::sleep;
use toolyard_model::Keys;

/// Reads records of the audit after a number, up to a count: each with its number, the oldest first.
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
        let mut last = self.start(&stream).await?;
        loop {
            self.shipped.store(last, Ordering::Relaxed);
            let batch = self.read(last, BATCH).await?;
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

    async fn read(&self, after: i64, most: usize) -> Result<Vec<(i64, String)>, String> {
        let records = self.records.clone();
        let read = tokio::task::spawn_blocking(move || records(after, most)).await;
        read.map_err(|error| error.to_string())?
    }

    async fn send(&self, number: i64, record: &str) -> Result<PublishAckFuture, String> {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", format!("{}-{number}-{}", self.gateway, short_digest(record)));
        headers.insert(NUMBER, number.to_string());
        let subject = self.subject();
        let sealed = self.keys.seal(&purpose(&subject, number), record.as_bytes());
        let sent = self.context.publish_with_headers(subject, headers, Bytes::from(sealed));
        sent.await.map_err(|error| error.to_string())
    }

    /// The number of the record after which copying continues.
    async fn start(&self, stream: &Stream) -> Result<i64, String> {
        let Some(copied) = self.last(stream).await? else { return Ok(0) };
        let here = self.read(copied.number - 1, 1).await?;
        let start = resume(&copied, here.first());
        if start < copied.number {
            tracing::warn!(target: "cluster", copied = copied.number, "the audit of this node does not have the last record that was copied: all of its records are copied");
        }
        Ok(start)
    }

    /// The last record of this gateway in the stream.
    async fn last(&self, stream: &Stream) -> Result<Option<Copied>, String> {
        let subject = self.subject();
        match stream.get_last_raw_message_by_subject(&subject).await {
            Ok(message) => {
                let number = number(&message.headers).ok_or("the last record in the stream has no number")?;
                let record = open(&self.keys, &subject, number, &message.payload);
                Ok(Some(Copied { number, hash: record.as_deref().and_then(hash) }))
            }
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// A record that the stream has.
struct Copied {
    number: i64,
    /// Nothing if it cannot be opened.
    hash: Option<String>,
}

/// After which record to go on, given the first record here from the number that was copied last. An audit that does not
/// have this record began again, or lost its end when the machine failed: its numbers are used a second time.
fn resume(copied: &Copied, here: Option<&(i64, String)>) -> i64 {
    match here {
        // The record was removed here because of its age, or for room.
        Some((number, _)) if *number > copied.number => copied.number,
        Some((_, record)) if copied.hash.is_none() || hash(record.as_bytes()) == copied.hash => copied.number,
        _ => 0,
    }
}

/// The hash that the chain of the audit has at a record.
fn hash(record: &[u8]) -> Option<String> {
    let record: Value = serde_json::from_slice(record).ok()?;
    record["hash"].as_str().map(str::to_owned)
}

/// Distinguishes records with the same number.
fn short_digest(record: &str) -> String {
    HEXLOWER.encode(&digest(&SHA256, record.as_bytes()).as_ref()[..8])
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

    #[test]
    fn copying_goes_on_after_the_last_record_unless_the_audit_began_again() {
        let copied = |hash: Option<&str>| Copied { number: 7, hash: hash.map(str::to_owned) };
        let here = |number: i64, hash: &str| Some((number, format!("{{\"hash\":\"{hash}\"}}")));
        for (copied, here, start) in [
            (copied(Some("x")), here(7, "x"), 7),
            (copied(Some("x")), here(9, "y"), 7),
            (copied(None), here(7, "y"), 7),
            // The numbers here began again, and are smaller or belong to other records.
            (copied(Some("x")), None, 0),
            (copied(Some("x")), here(7, "y"), 0),
        ] {
            assert_eq!(resume(&copied, here.as_ref()), start, "{here:?}");
        }
    }

    #[test]
    fn different_records_with_the_same_number_are_distinguished() {
        assert_ne!(short_digest("{\"id\":1,\"hash\":\"x\"}"), short_digest("{\"id\":1,\"hash\":\"y\"}"));
    }
}
