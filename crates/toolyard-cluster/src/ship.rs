//! Copies the audit of this node into a stream of NATS, after it is safe on this machine. The stream itself shows how
//! far that has come: its last message of this gateway carries the number that its last record has in the audit. A
//! message has several records, one per line, sealed with the cluster's key for that number;
//! [`read_audit`](crate::read_audit) opens them.
//!
//! A message names the one before it, and NATS refuses it if that is not the last one of this gateway. So a message that
//! is lost leaves no gap, and one that arrives late or twice leaves no record twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, LastRawMessageErrorKind, Stream};
use bytes::Bytes;
use serde_json::Value;
use tokio::time::sleep;
use toolyard_model::Keys;

/// Reads records of the audit after a number, up to a count: each with its number, the oldest first.
pub type AuditRecords = Arc<dyn Fn(i64, usize) -> Result<Vec<(i64, String)>, String> + Send + Sync>;

/// The most records of one message, and their bytes unless a single record has more. NATS accepts a megabyte, and
/// sealing adds a third.
const MOST_RECORDS: usize = 200;
const MOST_BYTES: usize = 256 * 1024;
const PAUSE: Duration = Duration::from_secs(1);
const KEPT: Duration = Duration::from_hours(30 * 24);
const NUMBER: &str = "Toolyard-Audit-Number";

/// The stream of all audits of a cluster.
pub(crate) fn stream_name(prefix: &str) -> String {
    format!("{prefix}_audit")
}

/// The number that the last record of a message has in the audit of its node.
pub(crate) fn number(headers: &HeaderMap) -> Option<i64> {
    headers.get(NUMBER)?.as_str().parse().ok()
}

fn purpose(subject: &str, number: i64) -> String {
    format!("cluster audit {subject} {number}")
}

/// The records of a message, one per line. Nothing if they were not sealed for this place with the cluster's secret.
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
            max_age: KEPT,
            ..Config::default()
        });
        let stream = stream.await.map_err(|error| error.to_string())?;
        let mut place = self.start(&stream).await?;
        loop {
            self.shipped.store(place.number, Ordering::Relaxed);
            match first_of(self.read(place.number, MOST_RECORDS).await?) {
                Some((last, records)) => place = self.send(last, &records, place.sequence).await?,
                None => sleep(PAUSE).await,
            }
        }
    }

    async fn read(&self, after: i64, most: usize) -> Result<Vec<(i64, String)>, String> {
        let records = self.records.clone();
        let read = tokio::task::spawn_blocking(move || records(after, most)).await;
        read.map_err(|error| error.to_string())?
    }

    /// Sends the records up to this number in one message, unless the stream has another message after `before`.
    async fn send(&self, last: i64, records: &str, before: u64) -> Result<Place, String> {
        let subject = self.subject();
        let sealed = self.keys.seal(&purpose(&subject, last), records.as_bytes());
        let message = PublishMessage::build()
            .header(NUMBER, last.to_string())
            .expected_last_subject_sequence(before)
            .payload(Bytes::from(sealed));
        let sent = self.context.send_publish(subject, message).await.map_err(|error| error.to_string())?;
        let taken = sent.await.map_err(|error| error.to_string())?;
        Ok(Place { number: last, sequence: taken.sequence })
    }

    /// Where copying continues.
    async fn start(&self, stream: &Stream) -> Result<Place, String> {
        let Some(copied) = self.last(stream).await? else { return Ok(Place::default()) };
        let here = self.read(copied.place.number - 1, 1).await?;
        let number = resume(&copied, here.first());
        if number < copied.place.number {
            tracing::warn!(target: "cluster", copied = copied.place.number, "the audit of this node does not have the last record that was copied: all of its records are copied");
        }
        Ok(Place { number, ..copied.place })
    }

    /// The last message of this gateway in the stream, as the leader of the stream has it.
    async fn last(&self, stream: &Stream) -> Result<Option<Copied>, String> {
        let subject = self.subject();
        match stream.get_last_raw_message_by_subject(&subject).await {
            Ok(message) => {
                let number = number(&message.headers).ok_or("the last record in the stream has no number")?;
                let records = open(&self.keys, &subject, number, &message.payload);
                let place = Place { number, sequence: message.sequence };
                Ok(Some(Copied { place, hash: records.as_deref().and_then(last_hash) }))
            }
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// How far the stream has come with this gateway.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// The last record that it has, by its number in the audit.
    number: i64,
    /// The last message in the stream; 0 if there is none.
    sequence: u64,
}

/// The end of what the stream has.
struct Copied {
    place: Place,
    /// The hash of the last record. Nothing if it cannot be opened.
    hash: Option<String>,
}

/// The first of these records, as many as fit into one message, and the number of the last one of them.
fn first_of(records: Vec<(i64, String)>) -> Option<(i64, String)> {
    let mut records = records.into_iter();
    let (mut last, mut lines) = records.next()?;
    for (number, record) in records {
        if lines.len() + record.len() >= MOST_BYTES {
            break;
        }
        lines.push('\n');
        lines.push_str(&record);
        last = number;
    }
    Some((last, lines))
}

/// After which record to go on, given the first record here from the number that was copied last. An audit that does not
/// have this record began again, or lost its end when the machine failed: its numbers are used a second time.
fn resume(copied: &Copied, here: Option<&(i64, String)>) -> i64 {
    let last = copied.place.number;
    match here {
        // The record was removed here because of its age, or for room.
        Some((number, _)) if *number > last => last,
        Some((_, record)) if copied.hash.is_none() || last_hash(record.as_bytes()) == copied.hash => last,
        _ => 0,
    }
}

/// The hash that the chain of the audit has at the last of these records.
fn last_hash(records: &[u8]) -> Option<String> {
    let last = records.rsplit(|byte| *byte == b'\n').next()?;
    let record: Value = serde_json::from_slice(last).ok()?;
    record["hash"].as_str().map(str::to_owned)
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
        let place = Place { number: 7, sequence: 3 };
        let copied = |hash: Option<&str>| Copied { place, hash: hash.map(str::to_owned) };
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
    fn a_message_has_as_many_records_as_fit_and_one_at_least() {
        let record = |number: i64, bytes: usize| (number, "x".repeat(bytes));
        assert_eq!(first_of(Vec::new()), None);
        assert_eq!(first_of(vec![record(4, 2), record(5, 1)]), Some((5, "xx\nx".to_owned())));
        for (sizes, last) in [([MOST_BYTES - 10, 9], 2), ([MOST_BYTES - 10, 10], 1), ([MOST_BYTES * 2, 1], 1)]
        {
            let (number, lines) = first_of(vec![record(1, sizes[0]), record(2, sizes[1])]).unwrap();
            let count = i64::try_from(lines.lines().count()).unwrap();
            assert_eq!((number, count), (last, last), "{sizes:?}");
        }
    }

    #[test]
    fn the_last_of_several_records_shows_where_copying_continues() {
        assert_eq!(last_hash(b"{\"hash\":\"x\"}\n{\"hash\":\"y\"}").as_deref(), Some("y"));
    }
}
