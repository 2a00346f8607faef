//! Refused requests in the log: one line per client, kind and minute, with the number of refusals since the last line.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

const PAUSE: Duration = Duration::from_mins(1);
/// The maximum number of clients that are counted separately. Beyond it, those without a refusal for a minute are
/// removed, and further clients are counted as one.
const MAX_CLIENTS: usize = 1_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Refusals(Arc<Mutex<Clients>>);

type Clients = HashMap<(Option<IpAddr>, Kind), Logged>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Missing,
    Invalid,
}

#[derive(Debug)]
struct Logged {
    at: Instant,
    since: u64,
}

impl Refusals {
    /// Logs or counts a request without a token.
    pub(super) fn missing(&self, client: Option<IpAddr>) {
        if let Some(count) = self.due(client, Kind::Missing) {
            let client = client.map(tracing::field::display);
            tracing::warn!(target: "auth", client, count, "rejected a request without a token");
        }
    }

    /// Logs or counts a request with a token that is not valid.
    pub(super) fn invalid(&self, client: Option<IpAddr>, reason: &str) {
        if let Some(count) = self.due(client, Kind::Invalid) {
            let client = client.map(tracing::field::display);
            tracing::warn!(target: "auth", client, reason, count, "rejected a token");
        }
    }

    /// How many refusals the next line covers, if it is time for one.
    fn due(&self, client: Option<IpAddr>, kind: Kind) -> Option<u64> {
        let mut clients = self.0.lock();
        if clients.len() >= MAX_CLIENTS {
            clients.retain(|_, logged| logged.at.elapsed() < PAUSE);
        }
        let key = (client.filter(|_| clients.len() < MAX_CLIENTS), kind);
        match clients.get_mut(&key) {
            Some(logged) if logged.at.elapsed() < PAUSE => {
                logged.since += 1;
                None
            }
            Some(logged) => {
                let count = logged.since + 1;
                *logged = Logged { at: Instant::now(), since: 0 };
                Some(count)
            }
            None => {
                clients.insert(key, Logged { at: Instant::now(), since: 0 });
                Some(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_per_client_and_minute_counts_the_rest() {
        let refusals = Refusals::default();
        let due = |client| refusals.due(client, Kind::Missing);
        let [one, two] = [1, 2].map(|last| Some(IpAddr::from([127, 0, 0, last])));
        assert_eq!((due(one), due(one), due(two)), (Some(1), None, Some(1)));
        assert_eq!((due(one), refusals.due(one, Kind::Invalid)), (None, Some(1)));
        tokio::time::advance(PAUSE).await;
        assert_eq!((due(one), due(one)), (Some(3), None));
    }
}
