//! Whether a call has been cancelled. Few functions ask, so the notification is set up when the first one does.

use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use super::Context;

/// The end of a call.
#[derive(Default)]
pub(super) struct Ending(Mutex<EndingState>);

#[derive(Default)]
struct EndingState {
    has_come: bool,
    watch: Option<CancellationToken>,
}

impl Ending {
    pub(super) fn has_come(&self) -> bool {
        self.state().has_come
    }

    /// Cancelled when the call ends.
    pub(super) fn watch(&self) -> CancellationToken {
        let mut state = self.state();
        let watch = state.watch.get_or_insert_default().clone();
        if state.has_come {
            watch.cancel();
        }
        watch
    }

    fn come(&self) {
        let mut state = self.state();
        state.has_come = true;
        let watch = state.watch.take();
        drop(state);
        if let Some(watch) = watch {
            watch.cancel();
        }
    }

    fn state(&self) -> MutexGuard<'_, EndingState> {
        self.0.lock()
    }
}

/// Ends a call when it is dropped, for whatever reason.
pub(crate) struct Running(Context);

impl Running {
    pub(super) fn new(context: &Context) -> Self {
        Self(context.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.ending.come();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_seen_before_and_after_it_comes() {
        let context = Context::detached();
        let early = context.0.ending.watch();
        let running = Running::new(&context);
        assert!(!context.is_cancelled() && !early.is_cancelled());
        drop(running);
        let late = context.0.ending.watch();
        assert!(context.is_cancelled() && early.is_cancelled() && late.is_cancelled());
    }
}
