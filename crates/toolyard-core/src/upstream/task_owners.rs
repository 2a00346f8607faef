//! The owners of an upstream's tasks, if all clients share one channel to it: the upstream cannot distinguish them, so
//! the gateway does. Other clients learn nothing of a task, not even that it exists.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use toolyard_model::{Origin, Owner};
use toolyard_proto::splice::find_once;
use toolyard_proto::{CallError, Method, Notification, Raw};

/// How many are known; the oldest makes room, and is then known to no client.
const MOST: usize = 10_000;

#[derive(Default)]
pub(crate) struct TaskOwners {
    known: Mutex<KnownOwners>,
    /// How many calls that make a task are under way.
    making: AtomicUsize,
}

/// A call that makes a task, until the owner of the task is known.
pub(crate) struct UnownedTask<'a>(&'a TaskOwners);

impl Drop for UnownedTask<'_> {
    fn drop(&mut self) {
        self.0.making.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct KnownOwners {
    owners: HashMap<String, Owner>,
    /// In the order they were made.
    order: VecDeque<String>,
    /// Whether one has made room: from then on, an unknown task may belong to another client.
    is_incomplete: bool,
}

impl KnownOwners {
    fn may_ask(&self, id: &str, origin: &Origin) -> bool {
        self.owners.get(id).map_or(!self.is_incomplete, |owner| *owner == Owner::of(origin))
    }
}

impl TaskOwners {
    fn known(&self) -> MutexGuard<'_, KnownOwners> {
        self.known.lock()
    }

    pub(crate) fn making(&self) -> UnownedTask<'_> {
        self.making.fetch_add(1, Ordering::Relaxed);
        UnownedTask(self)
    }

    /// A client has made a task. A restarted upstream may assign an id a second time.
    pub(crate) fn made(&self, id: &str, origin: &Origin) {
        let mut known = self.known();
        if known.owners.insert(id.to_owned(), Owner::of(origin)).is_none() {
            known.order.push_back(id.to_owned());
        }
        if known.order.len() > MOST
            && let Some(oldest) = known.order.pop_front()
        {
            known.owners.remove(&oldest);
            known.is_incomplete = true;
        }
    }

    /// Refuses requests about tasks of other clients. A task without a known owner is left to the upstream, because it
    /// may be older than this process, until an owner was forgotten.
    pub(crate) fn check(&self, params: &Raw, origin: &Origin) -> Result<(), CallError> {
        // The upstream must not be able to read another one than was checked.
        let id = find_once(params.as_bytes(), "taskId")
            .map_err(|_| CallError::invalid_params("duplicate `taskId` in `params`"))?
            .and_then(|range| params.slice(range).as_string());
        let Some(id) = id.filter(|id| !self.may_ask(id, origin)) else { return Ok(()) };
        Err(CallError::invalid_params(format!("unknown task {id:?}")))
    }

    fn may_ask(&self, id: &str, origin: &Origin) -> bool {
        self.known().may_ask(id, origin)
    }

    fn is_of(&self, id: &str, origin: &Origin) -> bool {
        self.known().owners.get(id).is_some_and(|owner| *owner == Owner::of(origin))
    }

    /// The newest that this client has made, in the order they were made.
    pub(crate) fn of(&self, origin: &Origin, most: usize) -> Vec<String> {
        let (known, owner) = (self.known(), Owner::of(origin));
        let is_own = |id: &&String| known.owners.get(*id) == Some(&owner);
        let mut own: Vec<String> = known.order.iter().rev().filter(is_own).take(most).cloned().collect();
        own.reverse();
        own
    }

    /// The answer to `tasks/list` with only those of this client. A page may hold none of them.
    pub(crate) fn only_own(&self, listed: &Raw, origin: &Origin) -> Raw {
        let Some(tasks) = listed.member("tasks").and_then(|tasks| tasks.read::<Vec<Raw>>().ok()) else {
            return listed.clone();
        };
        let id = |task: &Raw| task.member("taskId").and_then(|id| id.as_string());
        let own = tasks.into_iter().filter(|task| id(task).is_some_and(|id| self.is_of(&id, origin)));
        listed.with("tasks", &Raw::from_serialize(&own.collect::<Vec<Raw>>()))
    }

    /// Whether a notification may reach this client: one about a task is for its owner. While tasks are being
    /// created, an unknown task may be one of them, and its notification reaches no client.
    pub(crate) fn may_receive(&self, notification: &Notification, origin: &Origin) -> bool {
        if notification.method.as_str() != "notifications/tasks/status" {
            return true;
        }
        let id = notification.params.as_ref().and_then(|params| params.member("taskId")?.as_string());
        let is_known = |id: &str| self.known().owners.contains_key(id);
        let is_any_being_made = || self.making.load(Ordering::Relaxed) > 0;
        id.is_none_or(|id| self.may_ask(&id, origin) && (is_known(&id) || !is_any_being_made()))
    }
}

/// Whether a request is about one task that its parameters name.
pub(crate) fn names_task(method: &Method) -> bool {
    [Method::TASKS_GET, Method::TASKS_RESULT, Method::TASKS_CANCEL].contains(method)
}
