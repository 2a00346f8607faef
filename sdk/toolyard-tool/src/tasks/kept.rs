//! The tasks in memory and their owners.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use toolyard_model::{Origin, Owner};
use toolyard_proto::CallError;

use super::Task;

/// How many tasks are kept at once, and how many of one owner. Ended ones make room, the oldest first.
const MOST: usize = 1_000;
const MOST_OF_ONE: usize = 250;

/// By their ids.
#[derive(Debug, Default)]
pub(super) struct KeptTasks(Mutex<HashMap<String, Arc<Task>>>);

impl KeptTasks {
    /// Keeps a task for its time; does nothing if it is kept already.
    pub(super) fn add(self: &Arc<Self>, task: &Arc<Task>) -> Result<(), CallError> {
        {
            let mut tasks = self.tasks();
            if tasks.contains_key(task.id()) {
                return Ok(());
            }
            let is_own = |kept: &Task| kept.owner() == task.owner();
            if count(&tasks, is_own) >= MOST_OF_ONE && !make_room(&mut tasks, is_own) {
                return Err(too_many_of_one());
            }
            if tasks.len() >= MOST && !make_room(&mut tasks, |_| true) {
                return Err(too_many());
            }
            tasks.insert(task.id().to_owned(), task.clone());
        }
        let kept = self.clone();
        let id = task.id().to_owned();
        let time = task.time_left();
        task.scope().spawn(async move {
            tokio::time::sleep(time).await;
            kept.forget(&id);
        });
        Ok(())
    }

    /// Whether there is room for another task of this owner. Nothing is removed yet.
    pub(super) fn check_room(&self, owner: &Owner) -> Result<(), CallError> {
        let tasks = self.tasks();
        if count(&tasks, |kept| kept.owner() == owner && !kept.is_over()) >= MOST_OF_ONE {
            return Err(too_many_of_one());
        }
        if count(&tasks, |kept| !kept.is_over()) >= MOST {
            return Err(too_many());
        }
        Ok(())
    }

    /// A task of another client is unknown, like one that never existed.
    pub(super) fn find(&self, id: &str, origin: &Origin) -> Option<Arc<Task>> {
        self.tasks().get(id).filter(|task| task.is_of(origin)).cloned()
    }

    /// The tasks that this client may list, the oldest first.
    pub(super) fn of(&self, origin: &Origin) -> Vec<Arc<Task>> {
        self.all(|task| task.is_listed_for(origin))
    }

    /// Some of them, oldest first.
    pub(super) fn all(&self, is_among: impl Fn(&Task) -> bool) -> Vec<Arc<Task>> {
        let mut tasks: Vec<Arc<Task>> =
            self.tasks().values().filter(|task| is_among(task)).cloned().collect();
        tasks.sort_by_key(|task| task.created());
        tasks
    }

    /// Removes a task that has ended and is stored: the store answers for it from now on.
    pub(super) fn release(&self, id: &str) {
        self.tasks().remove(id);
    }

    /// Removes it, and stops it if it still runs.
    pub(super) fn forget(&self, id: &str) {
        let task = self.tasks().remove(id);
        if let Some(task) = task {
            task.stop();
        }
    }

    /// Removes the tasks of an owner that can no longer ask about them.
    pub(super) fn forget_of(&self, owner: &Owner) {
        for task in self.all(|task| task.owner() == owner) {
            self.forget(task.id());
        }
    }

    pub(super) fn forget_all(&self) {
        let tasks = std::mem::take(&mut *self.tasks());
        for task in tasks.values() {
            task.stop();
        }
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<String, Arc<Task>>> {
        self.0.lock()
    }
}

/// Forgets the oldest that has ended; false if there is none.
fn make_room(tasks: &mut HashMap<String, Arc<Task>>, is_among: impl Fn(&Task) -> bool) -> bool {
    let over = tasks.values().filter(|task| is_among(task) && task.is_over());
    let Some(oldest) = over.min_by_key(|task| task.created()).cloned() else { return false };
    oldest.stop();
    tasks.remove(oldest.id()).is_some()
}

fn count(tasks: &HashMap<String, Arc<Task>>, is_among: impl Fn(&Task) -> bool) -> usize {
    tasks.values().filter(|task| is_among(task)).count()
}

fn too_many_of_one() -> CallError {
    CallError::limit(format!("{MOST_OF_ONE} tasks of yours are running; wait until some are over"))
}

fn too_many() -> CallError {
    CallError::limit("too many tasks are running; wait until some are over")
}
