//! The indexes that are in memory. One that is not used for a while leaves it; the next search reads it from the disk.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use toolyard_tool::{Host, ToolError};

use crate::index::Index;

/// An index leaves memory if it is not used for this long.
pub(crate) const UNUSED: Duration = Duration::from_mins(30);

/// The indexes by root and provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenIndexes(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    open: HashMap<(PathBuf, String), Used>,
    /// Whether there is a task that closes them.
    is_tended: bool,
}

#[derive(Debug)]
struct Used {
    index: Arc<Index>,
    last: Instant,
}

impl OpenIndexes {
    /// The index of a project with vectors of a provider; opened if it is not in memory.
    pub(crate) fn get(
        &self,
        host: &Host,
        root: &Path,
        provider: &str,
        open: impl FnOnce() -> Result<Index, ToolError>,
    ) -> Result<Arc<Index>, ToolError> {
        let (key, last) = ((root.to_owned(), provider.to_owned()), Instant::now());
        let mut state = self.0.lock();
        if let Some(used) = state.open.get_mut(&key) {
            used.last = last;
            return Ok(used.index.clone());
        }
        let index = Arc::new(open()?);
        state.open.insert(key, Used { index: index.clone(), last });
        if !std::mem::replace(&mut state.is_tended, true) {
            drop(state);
            host.spawn("close unused indexes", self.clone().tend());
        }
        Ok(index)
    }

    /// One that is in memory.
    pub(crate) fn find(&self, root: &Path, provider: &str) -> Option<Arc<Index>> {
        let key = (root.to_owned(), provider.to_owned());
        self.0.lock().open.get(&key).map(|used| used.index.clone())
    }

    /// Those that are in memory: of one project, or all.
    pub(crate) fn all(&self, root: Option<&Path>) -> Vec<Arc<Index>> {
        let state = self.0.lock();
        let wanted = state.open.iter().filter(|((own, _), _)| root.is_none_or(|root| own == root));
        wanted.map(|(_, used)| used.index.clone()).collect()
    }

    /// Ends with the last open index, so that an idle gateway does nothing.
    async fn tend(self) {
        loop {
            sleep(UNUSED / 2).await;
            let mut state = self.0.lock();
            // A search, an update or a watcher that uses an index has it, too.
            let is_needed = |used: &Used| Arc::strong_count(&used.index) > 1 || used.last.elapsed() < UNUSED;
            state.open.retain(|_, used| is_needed(used));
            state.is_tended = !state.open.is_empty();
            if !state.is_tended {
                return;
            }
        }
    }
}
