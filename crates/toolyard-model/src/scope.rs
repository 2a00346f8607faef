//! Every task has an owner: tasks are spawned through a scope, which ends its tasks when it ends.

use std::future::Future;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Owns tasks. Cheap to clone; [`Scope::end`] cancels and joins, and a child scope ends with its parent.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    cancel: CancellationToken,
    tracker: TaskTracker,
}

impl Scope {
    pub fn new() -> Self {
        Self::default()
    }

    /// A scope that ends with this one, or earlier.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { cancel: self.cancel.child_token(), tracker: self.tracker.clone() }
    }

    /// Runs `future` until it is done or the scope ends; then it is dropped.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let cancel = self.cancel.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = future => {}
            }
        });
    }

    /// Cancels every task, without waiting.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    pub fn is_ended(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Waits until the scope has been cancelled.
    pub async fn ended(&self) {
        self.cancel.cancelled().await;
    }

    /// The result of `future`, or `None` if the scope ends before.
    pub async fn unless_ended<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        self.cancel.run_until_cancelled(future).await
    }

    /// Cancels every task and waits until all have stopped. Call it on the root only: children share its count.
    pub async fn end(&self) {
        self.cancel.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Waits until all tasks have ended by themselves. Call it on the root only, too.
    pub async fn finished(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// How many tasks are alive.
    pub fn tasks(&self) -> usize {
        self.tracker.len()
    }
}
