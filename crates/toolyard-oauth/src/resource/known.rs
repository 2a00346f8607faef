//! What was found out about tokens, by their digest: shared by all connections and bounded. Valid and refused tokens
//! have tables of their own, so that a flood of made-up tokens does not displace those in use.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};
use tokio::time::Instant;
use toolyard_serve::admit::Verdict;

/// In each table.
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
            let table = table.lock().unwrap_or_else(PoisonError::into_inner);
            let (until, verdict) = table.get(&digest)?;
            (Instant::now() < *until).then(|| verdict.clone())
        };
        find(&self.valid).or_else(|| find(&self.refused))
    }

    pub(super) fn keep(&self, token: &str, until: Instant, verdict: Verdict) {
        let table = if matches!(verdict, Verdict::Valid(_)) { &self.valid } else { &self.refused };
        let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
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
