//! The results of earlier checks, by the digest of the token: shared by all connections and bounded. Valid and refused
//! tokens have tables of their own, so that a flood of made-up tokens does not displace those in use.

use std::collections::HashMap;
use std::fmt;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use toolyard_serve::admit::Verdict;

/// The maximum number of entries in each table.
const MOST: usize = 10_000;

type Table = HashMap<[u8; 32], (Instant, Verdict)>;

#[derive(Default)]
pub(super) struct Known {
    valid: Mutex<Table>,
    refused: Mutex<Table>,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Known")
    }
}

impl Known {
    pub(super) fn get(&self, token: &str) -> Option<Verdict> {
        let digest = digest(token);
        let find = |table: &Mutex<Table>| {
            let table = table.lock();
            let (until, verdict) = table.get(&digest)?;
            (Instant::now() < *until).then(|| verdict.clone())
        };
        find(&self.valid).or_else(|| find(&self.refused))
    }

    pub(super) fn keep(&self, token: &str, until: Instant, verdict: Verdict) {
        let table = if matches!(verdict, Verdict::Valid(_)) { &self.valid } else { &self.refused };
        let mut table = table.lock();
        if table.len() >= MOST {
            let now = Instant::now();
            table.retain(|_, (until, _)| now < *until);
        }
        if table.len() >= MOST {
            table.clear();
        }
        table.insert(digest(token), (until, verdict));
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
