//! The connections of an upstream and everything that clients have set up over them.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use toolyard_model::{ClientKey, Link, Scope};
use toolyard_proto::modern::LogLevel;

use super::counterpart::Counterpart;
use super::keyed_lock::KeyedLock;
use super::pool::{OpenedLink, Pool};
use super::subscribe::Subscriptions;
use super::task_owners::TaskOwners;
use super::task_reviews::TaskReviews;
use super::tracked_tasks::TrackedTasks;
use crate::plan::Sharing;

/// Which of the links of an upstream serves a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// The link that lists, pins and health come from.
    Definition,
    /// The second link, in the era of the client.
    Counterpart,
}

pub(crate) struct Links {
    /// Read on every call, so it is a pointer swap and not a lock.
    live: ArcSwapOption<Live>,
    pub(super) counterpart: Counterpart,
    pub(super) pool: Pool,
    /// New links of the pool on their way to the task that takes their events.
    pub(super) opened: (mpsc::Sender<OpenedLink>, tokio::sync::Mutex<mpsc::Receiver<OpenedLink>>),
    /// The log level that each client has chosen.
    levels: Mutex<HashMap<ClientKey, LogLevel>>,
    pub(super) subscriptions: Subscriptions,
    /// Serialises subscribing to a resource and unsubscribing from it.
    pub(super) keyed_lock: KeyedLock,
    pub(crate) tracked_tasks: TrackedTasks,
    pub(crate) task_owners: TaskOwners,
    pub(crate) task_reviews: TaskReviews,
    /// Ends links in the background.
    scope: Scope,
}

struct Live {
    link: Arc<dyn Link>,
}

impl Links {
    pub(super) fn new(sharing: Sharing, scope: Scope) -> Self {
        let (open, opened) = mpsc::channel(16);
        Self {
            live: ArcSwapOption::empty(),
            counterpart: Counterpart::default(),
            pool: Pool::new(sharing),
            opened: (open, tokio::sync::Mutex::new(opened)),
            levels: Mutex::default(),
            subscriptions: Subscriptions::default(),
            keyed_lock: KeyedLock::default(),
            tracked_tasks: TrackedTasks::default(),
            task_owners: TaskOwners::default(),
            task_reviews: TaskReviews::default(),
            scope,
        }
    }

    /// The definition link, if the upstream is connected now.
    pub(crate) fn live(&self) -> Option<Arc<dyn Link>> {
        self.live.load().as_ref().map(|live| live.link.clone())
    }

    /// The open link of a lane.
    pub(crate) fn open_in(&self, lane: Lane) -> Option<Arc<dyn Link>> {
        match lane {
            Lane::Definition => self.live(),
            Lane::Counterpart => self.counterpart.live(),
        }
    }

    /// There is a definition link: calls can be made from now on.
    pub(super) fn set_live(&self, link: Arc<dyn Link>) {
        self.live.store(Some(Arc::new(Live { link })));
    }

    /// Takes the definition link away, so that no new call finds it.
    pub(super) fn take_live(&self) -> Option<Arc<dyn Link>> {
        self.live.swap(None).map(|live| live.link.clone())
    }

    /// How many clients have a link of their own.
    pub(super) fn own(&self) -> usize {
        self.pool.len()
    }

    /// The most verbose level that any client wants, after `client` has chosen `level`.
    pub(crate) fn want_level(&self, client: &ClientKey, level: Option<LogLevel>) -> Option<LogLevel> {
        let mut levels = self.levels.lock();
        match level {
            Some(level) => levels.insert(client.clone(), level),
            None => levels.remove(client),
        };
        levels.values().min().copied()
    }

    /// The most verbose level that any client has chosen.
    pub(crate) fn least_level(&self) -> Option<LogLevel> {
        self.levels.lock().values().min().copied()
    }

    /// A client connects to another upstream: what it has set up here ends, but not its calls in flight.
    pub(super) fn leave(&self, client: &ClientKey) {
        self.want_level(client, None);
        if let Some(link) = self.live() {
            link.leave(client);
        }
        self.counterpart.leave(client);
        self.close_later(self.pool.leave(client));
    }

    /// A client has disconnected: everything that is kept for it ends.
    pub(super) fn forget(&self, client: &ClientKey) {
        self.want_level(client, None);
        if let Some(link) = self.live() {
            link.forget(client);
        }
        self.counterpart.forget(client);
        self.close_later(self.pool.forget(client));
    }

    /// Ends links in the background.
    pub(super) fn close_later(&self, links: impl IntoIterator<Item = Arc<dyn Link>>) {
        for link in links {
            self.scope.spawn(async move { link.close().await });
        }
    }
}
