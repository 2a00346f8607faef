//! Threads for functions that block. They belong to the runtime, which has a few hundred for the whole process,
//! and a function that ignores its cancellation keeps its thread: so each set gets a limited number.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio_util::task::TaskTracker;

use crate::ToolError;

/// How many functions of a set may block at once.
const MOST: usize = 128;
/// How long a call waits for its turn.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Threads {
    places: Arc<Semaphore>,
    /// Joins functions that are still running when the set ends.
    running: TaskTracker,
}

impl Default for Threads {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(MOST)), running: TaskTracker::new() }
    }
}

impl Threads {
    /// Runs a function. It keeps its place until it ends, even if its caller has given up.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        function: Box<dyn FnOnce() -> T + Send>,
    ) -> Result<Result<T, JoinError>, ToolError> {
        let place = tokio::time::timeout(LONGEST_WAIT, self.places.clone().acquire_owned()).await;
        let Ok(Ok(place)) = place else {
            return Err(ToolError::new(format!("{MOST} calls are busy already"))
                .hint("try again when some of them have ended"));
        };
        let placed = move || {
            let _place = place;
            function()
        };
        Ok(self.running.spawn_blocking(placed).await)
    }

    /// Waits until all have ended.
    pub(crate) async fn end(&self) {
        self.running.close();
        self.running.wait().await;
    }
}
