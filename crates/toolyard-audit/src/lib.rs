//! The audit: every call as a record in SQLite, written by one thread that commits many records at once. Records are
//! only ever added, and each carries a hash over itself and the one before it, so that a later change shows.
//!
//! With [`Durability::Full`] a call is sent to its upstream only when its first record is committed. With
//! [`Durability::Normal`] no call waits, and records that find no room in the queue are counted as dropped.

mod api;
mod entry;
mod read;
mod sink;
mod store;
mod writer;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use api::routes;
pub use read::{Follow, Found, Query, Reader, Verified};
pub use sink::Audit;

/// The name of the database in the state directory.
pub const FILE: &str = "audit.db";

/// Where the audit of a state directory is.
pub fn path(state_dir: &Path) -> PathBuf {
    state_dir.join(FILE)
}

/// What is recorded, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditOptions {
    pub durability: Durability,
    pub payloads: Payloads,
    /// Older records are removed.
    pub keep: Duration,
    /// If the records take more room than this, the oldest are removed.
    pub max_bytes: u64,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Normal,
            payloads: Payloads::Digest,
            keep: Duration::from_hours(30 * 24),
            max_bytes: 512 * 1024 * 1024,
        }
    }
}

/// When a record is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A moment after the call.
    Normal,
    /// Before the call is sent to its upstream.
    Full,
}

/// What is recorded of requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payloads {
    /// Their length and SHA-256.
    Digest,
    /// Their text as well, up to 64 KiB, without what looks like a secret.
    Redacted,
}

/// Why the audit cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("open the audit in {path}")]
    Open { path: PathBuf, source: rusqlite::Error },
    #[error("read the audit")]
    Read(#[from] rusqlite::Error),
    #[error("there is no audit in {0}; a section [audit] in the config switches it on")]
    Missing(PathBuf),
    #[error("`{0}` is not a time; write 30m, 2h, 7d or a date such as 2026-11-18")]
    Time(String),
    #[error("start the thread that writes the audit")]
    Thread(#[from] std::io::Error),
}
