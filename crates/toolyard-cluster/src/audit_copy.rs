//! Reads the copies of the audits that nodes have put into NATS, for a person who knows the cluster's key.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::push::OrderedConfig;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::{ErrorCode, Message};
use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::time::timeout;
use toolyard_model::Keys;

use crate::shared::Problem;
use crate::ship;
use crate::store::{NatsSettings, Store, StoreError};

/// How long NATS may take to answer, or to send the next record that it has.
const PATIENCE: Duration = Duration::from_secs(10);

/// A record of an audit, and where it is from.
#[derive(Clone, Debug, PartialEq)]
pub struct CopiedRecord {
    pub node: String,
    /// Nothing for a message that was not sealed with the key of this cluster.
    pub record: Option<Value>,
}

/// Why the copies cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AuditCopyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("NATS at {servers} does not answer: {reason}")]
    Silent { servers: String, reason: String },
    #[error("no node has copied its audit into NATS: there is no stream `{0}`")]
    Missing(String),
    #[error("cannot read the stream `{stream}`: {reason}")]
    Read { stream: String, reason: String },
}

/// Passes all copies to `show`, the oldest first; with `follow` also those that come later. Ends when `show` returns
/// false.
pub async fn read_audit(
    settings: NatsSettings,
    secret: &[u8],
    follow: bool,
    mut show: impl FnMut(CopiedRecord) -> bool,
) -> Result<(), AuditCopyError> {
    let keys = Arc::new(Keys::shared(secret, ""));
    let name = ship::stream_name(&settings.prefix);
    let store = connect(settings, keys.clone()).await?;
    let failed = |reason: String| AuditCopyError::Read { stream: name.clone(), reason };
    let stream = store.context().get_stream(&name).await.map_err(|error| match error.kind() {
        GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
            AuditCopyError::Missing(name.clone())
        }
        _ => failed(error.to_string()),
    })?;
    let mut left = stream.cached_info().state.messages;
    let config = OrderedConfig { deliver_subject: store.client().new_inbox(), ..OrderedConfig::default() };
    let consumer = stream.create_consumer(config).await.map_err(|error| failed(error.to_string()))?;
    let mut messages = consumer.messages().await.map_err(|error| failed(error.to_string()))?;
    while left > 0 || follow {
        let next = messages.next();
        let next = if follow { next.await } else { timeout(PATIENCE, next).await.unwrap_or_default() };
        let message = next.ok_or_else(|| failed("it ended before its last record".to_owned()))?;
        let message = message.map_err(|error| failed(error.to_string()))?;
        left = message.info().map_or(0, |info| info.pending);
        if !opened(&keys, &message).into_iter().all(&mut show) {
            break;
        }
    }
    Ok(())
}

async fn connect(settings: NatsSettings, keys: Arc<Keys>) -> Result<Store, AuditCopyError> {
    let (servers, problem) = (settings.servers.join(", "), Problem::default());
    let store = Store::connect(settings, "audit", keys, problem.clone()).await?;
    while !store.is_connected() {
        if timeout(PATIENCE, store.connected.notified()).await.is_err() {
            let reason = problem.get().unwrap_or_else(|| "no connection could be made".to_owned());
            return Err(AuditCopyError::Silent { servers, reason });
        }
    }
    Ok(store)
}

/// The records of a message; one that is nothing if it was not sealed with the key of this cluster.
fn opened(keys: &Keys, message: &Message) -> Vec<CopiedRecord> {
    let node = message.subject.split('.').rev().nth(1).unwrap_or_default().to_owned();
    let number = message.headers.as_ref().and_then(ship::number);
    let opened = number.and_then(|number| ship::open(keys, &message.subject, number, &message.payload));
    let Some(lines) = opened else { return vec![CopiedRecord { node, record: None }] };
    let record = |line: &[u8]| CopiedRecord { node: node.clone(), record: serde_json::from_slice(line).ok() };
    lines.split(|byte| *byte == b'\n').map(record).collect()
}
