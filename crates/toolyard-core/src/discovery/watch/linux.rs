//! Changes in folders, as Linux reports them.

use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe;

/// The events that change the set of files in a folder, or one of them.
const CHANGES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

#[derive(Debug)]
pub(super) struct Notices {
    /// Not a pipe, but read and waited for like one.
    queue: pipe::Receiver,
    places: Vec<PathBuf>,
}

impl Notices {
    pub(super) fn begin(places: Vec<PathBuf>) -> Option<Self> {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        Some(Self { queue: pipe::Receiver::from_owned_fd_unchecked(queue).ok()?, places })
    }

    pub(super) fn places(&self) -> &[PathBuf] {
        &self.places
    }

    /// Watches all places; false if one of them cannot be watched.
    pub(super) fn watch(&self) -> bool {
        self.places.iter().all(|place| inotify::add_watch(&self.queue, place, CHANGES).is_ok())
    }

    pub(super) async fn arrived(&self) {
        // It fails only when the runtime ends, and then nothing is waited for.
        let _ = self.queue.readable().await;
    }

    /// Drops all notices. What has changed does not matter: everything is read again.
    pub(super) fn drain(&self) {
        let mut buffer = [0; 4096];
        while self.queue.try_read(&mut buffer).is_ok_and(|read| read > 0) {}
    }
}
