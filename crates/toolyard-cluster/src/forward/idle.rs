//! Connections to other nodes that wait for the next request that is passed on.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::ownership::Member;

/// How many wait for each node.
const MOST: usize = 16;
/// How long a connection is used. One that was made through NATS must be closed at some time.
const LONGEST: Duration = Duration::from_secs(30);

/// A connection that can take a request.
pub(crate) struct Kept {
    pub(crate) sender: SendRequest<Full<Bytes>>,
    /// When it was made.
    pub(crate) since: Instant,
}

impl Kept {
    fn is_good(&self) -> bool {
        !self.sender.is_closed() && self.since.elapsed() < LONGEST
    }
}

/// The connections that wait, by node.
#[derive(Default)]
pub(crate) struct Idle(Mutex<HashMap<Member, Vec<Kept>>>);

impl Idle {
    /// The one that was used last.
    pub(crate) fn take(&self, node: &Member) -> Option<Kept> {
        let mut all = self.0.lock();
        let waiting = all.get_mut(node)?;
        waiting.retain(Kept::is_good);
        waiting.pop()
    }

    pub(crate) fn put(&self, node: Member, kept: Kept) {
        let mut all = self.0.lock();
        all.values_mut().for_each(|waiting| waiting.retain(Kept::is_good));
        all.retain(|_, waiting| !waiting.is_empty());
        let waiting = all.entry(node).or_default();
        if waiting.len() < MOST && kept.is_good() {
            waiting.push(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;

    use super::*;

    /// A connection, and what must be kept for it to stay open.
    async fn connected() -> (Kept, impl Send) {
        let (near, far) = tokio::io::duplex(1024);
        let (sender, connection) = http1::handshake(TokioIo::new(near)).await.unwrap();
        (Kept { sender, since: Instant::now() }, (connection, far))
    }

    fn node(name: &str) -> Member {
        Member { node: name.into(), epoch: "1".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn open_connections_are_used_again_for_half_a_minute_by_their_node() {
        let idle = Idle::default();
        let mut open = Vec::new();
        for _ in 0..MOST + 5 {
            let (kept, rest) = connected().await;
            idle.put(node("a"), kept);
            open.push(rest);
        }
        assert!(idle.take(&node("b")).is_none());
        assert!(idle.take(&node("a")).is_some());
        let waiting = idle.0.lock()[&node("a")].len();
        assert_eq!(waiting, MOST - 1, "one was taken, and no more than {MOST} are kept");
        tokio::time::advance(LONGEST).await;
        assert!(idle.take(&node("a")).is_none());
    }

    #[tokio::test]
    async fn a_connection_that_was_closed_is_not_used() {
        let idle = Idle::default();
        let (kept, rest) = connected().await;
        idle.put(node("a"), kept);
        drop(rest);
        assert!(idle.take(&node("a")).is_none());
    }
}
