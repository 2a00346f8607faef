//! One lock per path, so that a long write to one file does not keep others waiting. A lock on a folder covers
//! everything in it.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use toolyard_jail::Inside;
use toolyard_tool::ToolError;

use crate::trouble::cancelled;

/// How often a call that waits for a lock looks whether it was cancelled.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// The paths that are being changed.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    held: Mutex<Vec<(u64, Inside)>>,
    released: Condvar,
}

/// Holds its paths until it is dropped.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    locks: &'a Locks,
    id: u64,
}

impl Locks {
    fn held(&self) -> MutexGuard<'_, Vec<(u64, Inside)>> {
        self.held.lock()
    }

    /// Locks all of `paths` at once, which rules out deadlocks. Blocks the thread: never call it in an async
    /// function.
    pub(crate) fn lock(&self, paths: &[&Inside], go_on: &dyn Fn() -> bool) -> Result<Locked<'_>, ToolError> {
        let deadline = Instant::now() + LONGEST_WAIT;
        let mut held = self.held();
        while let Some(taken) = taken(&held, paths) {
            if !go_on() {
                return Err(cancelled());
            }
            if Instant::now() >= deadline {
                return Err(ToolError::new(format!("another call is still changing `{taken}`"))
                    .hint("try again when that call has ended"));
            }
            self.released.wait_for(&mut held, LOOK_EVERY);
        }
        let id = held.iter().map(|(id, _)| id + 1).max().unwrap_or_default();
        held.extend(paths.iter().map(|path| (id, (*path).clone())));
        Ok(Locked { locks: self, id })
    }
}

/// The first of `paths` that overlaps with a locked one.
fn taken<'a>(held: &[(u64, Inside)], paths: &[&'a Inside]) -> Option<&'a Inside> {
    let overlaps = |path: &Inside| held.iter().any(|(_, own)| own.is_within(path) || path.is_within(own));
    paths.iter().copied().find(|path| overlaps(path))
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.locks.held().retain(|(id, _)| *id != self.id);
        self.locks.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn inside(path: &str) -> Inside {
        path.split('/').fold(Inside::root(), |at, part| at.join(part).unwrap())
    }

    #[test]
    fn only_overlapping_paths_wait_for_each_other() {
        let locks = Locks::default();
        let album = locks.lock(&[&inside("a/album")], &|| true).unwrap();
        let other = locks.lock(&[&inside("a/albums"), &inside("b")], &|| true).unwrap();
        for path in ["a/album", "a/album/song", "a", "b/x"] {
            assert!(locks.lock(&[&inside("c"), &inside(path)], &|| false).is_err(), "{path}");
        }
        drop(album);
        assert!(locks.lock(&[&inside("a/album/song")], &|| false).is_ok());
        drop(other);
        assert!(locks.lock(&[&Inside::root()], &|| false).is_ok());
    }

    #[test]
    fn a_cancelled_call_stops_waiting_and_a_released_path_is_taken() {
        let locks = Locks::default();
        let is_wanted = AtomicBool::new(true);
        let held = locks.lock(&[&inside("a")], &|| true).unwrap();
        std::thread::scope(|scope| {
            let cancelled = scope.spawn(|| {
                locks.lock(&[&inside("a")], &|| is_wanted.load(Ordering::SeqCst)).map(drop).is_err()
            });
            let waiting = scope.spawn(|| locks.lock(&[&inside("a")], &|| true).map(drop).is_ok());
            is_wanted.store(false, Ordering::SeqCst);
            assert!(cancelled.join().unwrap());
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }
}
