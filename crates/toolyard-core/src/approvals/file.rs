//! The file of the approvals, which gateways of one state directory share: each change begins with what the others have
//! written, and no other change is made meanwhile.

use std::io;

use parking_lot::MutexGuard;
use toolyard_model::blocking::beside_tasks;
use toolyard_model::shared_file::{FileLock, SharedFile};

use super::{ApprovalState, Approvals};

/// A change that is under way. Other threads and gateways begin theirs when it is dropped.
pub(super) struct Change<'a> {
    /// Released before `file`, so that the next change of this gateway need not wait for it.
    lock: io::Result<Option<FileLock>>,
    /// `None` if approvals are not stored.
    file: Option<MutexGuard<'a, SharedFile>>,
}

impl Approvals {
    /// Begins a change. If the file cannot be locked or read, the change cannot be stored.
    pub(super) fn change(&self) -> Change<'_> {
        let file = self.file.as_ref();
        let mut file = file.map(|file| file.try_lock().unwrap_or_else(|| beside_tasks(|| file.lock())));
        let lock = file.as_mut().map(|file| self.begin(file)).transpose();
        Change { lock, file }
    }

    fn begin(&self, file: &mut SharedFile) -> io::Result<FileLock> {
        let lock = file.lock()?;
        if let Some(content) = file.changed()? {
            *self.state.lock() = parse(file, &content);
            // Other gateways may have decided about calls that wait here.
            self.changed.send_modify(|count| *count += 1);
        }
        Ok(lock)
    }

    /// Reads what other gateways have written.
    pub(super) fn refresh(&self) {
        drop(self.change());
    }
}

impl Change<'_> {
    /// Stores the change before it takes effect. The state is not locked while the file is written, so others can read
    /// it.
    pub(super) fn stored(&mut self, state: MutexGuard<'_, ApprovalState>) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let bytes = serde_json::to_vec(&*state);
        drop(state);
        let locked = match &self.lock {
            Ok(_) => Ok(()),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        let stored = locked.and_then(|()| file.replace(&bytes?));
        stored.inspect_err(|error| {
            tracing::warn!(path = %file.path().display(), %error, "approvals were not stored");
        })
    }

    /// Stores a change that need not survive a restart: if it cannot be stored, it holds until the gateway ends or
    /// another gateway makes a change.
    pub(super) fn store(&mut self, state: MutexGuard<'_, ApprovalState>) {
        let _logged = self.stored(state);
    }
}

fn parse(file: &SharedFile, content: &[u8]) -> ApprovalState {
    serde_json::from_slice(content).unwrap_or_else(|error| {
        // Then there are no grants, so calls need new approvals.
        tracing::warn!(path = %file.path().display(), %error, "the stored approvals are invalid; all of them are discarded");
        ApprovalState::default()
    })
}
