//! Secrets that several gateways have together, as the parts of a gateway that use them see it.

use std::fmt;
use std::time::Duration;

use crate::BoxFuture;

/// A secret, or the fact that it was removed, with the time of the change.
#[derive(Clone, PartialEq, Eq)]
pub struct Versioned {
    /// In milliseconds since 1970. The latest counts.
    pub at: u64,
    pub value: Option<Vec<u8>>,
}

impl fmt::Debug for Versioned {
    /// The secret is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Versioned").field("at", &self.at).finish_non_exhaustive()
    }
}

/// Held while no other gateway may do the same. It ends when it is dropped.
pub trait SharedLock: fmt::Debug + Send + Sync {}

/// Secrets that several gateways have together. An error is a reason for which they cannot be reached now.
pub trait SharedSecrets: fmt::Debug + Send + Sync + 'static {
    /// Sends the others what this gateway has, and returns the latest of all. While the others cannot be reached, it is
    /// remembered and sent later.
    fn agree(&self, name: &str, own: Option<Versioned>) -> BoxFuture<Result<Option<Versioned>, String>>;

    /// Waits until no other gateway has the lock of this name. An error if one still has it after `patience`.
    fn lock(&self, name: &str, patience: Duration) -> BoxFuture<Result<Box<dyn SharedLock>, String>>;
}
