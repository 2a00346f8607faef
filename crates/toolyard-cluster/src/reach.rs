//! How this node reaches another: by a direct connection, or through NATS where that is not possible.

use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use toolyard_link::http::Duplex;

use crate::record::NodeRecord;
use crate::tls::Identity;
use crate::tunnel::Tunnels;

/// How long a direct connection may take to be accepted.
const DIRECT: Duration = Duration::from_secs(3);
/// How long a node that could not be reached directly is reached through NATS without another attempt.
const NOT_DIRECT: Duration = Duration::from_secs(30);

/// The ways to other nodes, by their names.
#[derive(Default)]
pub(crate) struct Ways {
    pub(crate) tunnels: OnceLock<Tunnels>,
    known: Mutex<BTreeMap<String, Way>>,
}

/// The result of the last attempt to connect to a node.
#[derive(Clone, Debug)]
struct Way {
    /// Nothing if it failed.
    by: Option<By>,
    took: Duration,
    /// Why there is no direct connection.
    error: Option<String>,
    at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Direct,
    Nats,
}

impl Ways {
    /// A connection on which both nodes have proven their keys. An error of the kind `ConnectionRefused` means that
    /// the process has ended.
    pub(crate) async fn reach(&self, node: &NodeRecord, identity: &Identity) -> io::Result<Box<dyn Duplex>> {
        let start = Instant::now();
        let direct = match &node.address {
            Some(address) if !self.is_known_to_fail(&node.member.node) => {
                direct(address, &node.key, identity).await
            }
            Some(_) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "it could not be reached directly before"))
            }
            None => Err(io::Error::new(io::ErrorKind::Unsupported, "it has no `listen` in [cluster]")),
        };
        let (result, by, error) = match direct {
            Ok(stream) => (Ok(stream), Some(By::Direct), None),
            Err(error) => {
                let text = error.to_string();
                match self.through_nats(&node.key, identity).await {
                    Ok(stream) => (Ok(stream), Some(By::Nats), Some(text)),
                    Err(through) => (Err(worst(error, &through)), None, Some(text)),
                }
            }
        };
        let way = Way { by, took: start.elapsed(), error, at: start };
        self.known().insert(node.member.node.clone(), way);
        result
    }

    async fn through_nats(&self, key: &[u8], identity: &Identity) -> io::Result<Box<dyn Duplex>> {
        let tunnels = self.tunnels.get().ok_or_else(|| io::Error::other("NATS is not connected"))?;
        let stream = tunnels.open(key).await?;
        Ok(Box::new(identity.connect(stream, key).await?))
    }

    fn is_known_to_fail(&self, node: &str) -> bool {
        let known = self.known();
        known.get(node).is_some_and(|way| way.by == Some(By::Nats) && way.at.elapsed() < NOT_DIRECT)
    }

    /// The last connection to a node, for reports.
    pub(crate) fn to_json(&self, node: &str) -> Value {
        let known = self.known();
        let Some(way) = known.get(node) else { return Value::Null };
        let by = match way.by {
            Some(By::Direct) => "direct",
            Some(By::Nats) => "nats",
            None => "none",
        };
        json!({
            "by": by,
            "connectMs": u64::try_from(way.took.as_millis()).unwrap_or_default(),
            "error": way.error,
        })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Way>> {
        self.known.lock()
    }
}

async fn direct(address: &str, key: &[u8], identity: &Identity) -> io::Result<Box<dyn Duplex>> {
    let stream = timeout(DIRECT, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    Ok(Box::new(identity.connect(stream, key).await?))
}

/// The process has ended only if neither way finds it.
fn worst(direct: io::Error, through: &io::Error) -> io::Error {
    let refused = io::ErrorKind::ConnectionRefused;
    let is_gone = |error: &io::Error| error.kind() == refused;
    match (is_gone(&direct), is_gone(through)) {
        // Without NATS the direct connection decides.
        (_, true) | (true, false) => io::Error::new(refused, direct),
        (false, false) => io::Error::new(direct.kind(), format!("{direct}; through NATS: {through}")),
    }
}
