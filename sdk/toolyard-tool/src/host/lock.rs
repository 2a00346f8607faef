//! Locks on parts of the cache, which all gateways of the user share.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Host;

/// How often a lock that another gateway holds is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// The lock on a part of the cache. It is released when it is dropped, and when the process ends in any way.
#[derive(Debug)]
pub struct CacheLock {
    /// Closing it releases the lock.
    _file: File,
}

impl Host {
    /// Locks a part of the cache, so that only one pack of one gateway of the user writes it. The error is
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) while another one holds the lock.
    ///
    /// ```
    /// # use toolyard_tool::Host;
    /// # fn main() -> std::io::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// let (one, other) = (Host::for_tests(folder.path()), Host::for_tests(folder.path()));
    /// let lock = one.try_cache_lock("index")?;
    /// assert_eq!(other.try_cache_lock("index").unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    /// drop(lock);
    /// assert!(other.try_cache_lock("index").is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_cache_lock(&self, name: &str) -> io::Result<CacheLock> {
        if name.is_empty() || Path::new(name).file_name() != Some(name.as_ref()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}` cannot name a lock")));
        }
        // Beside the folder, so that a pack may delete its whole cache while it holds a lock.
        let path = self.cache()?.with_file_name(format!("{}.{name}.lock", self.pack()));
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(CacheLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The same, waiting for the lock for at most `longest`; then the error is [`TimedOut`](io::ErrorKind::TimedOut).
    pub async fn cache_lock(&self, name: &str, longest: Duration) -> io::Result<CacheLock> {
        let deadline = Instant::now() + longest;
        loop {
            match self.try_cache_lock(name) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            sleep(AGAIN.min(deadline - Instant::now())).await;
        }
    }
}
