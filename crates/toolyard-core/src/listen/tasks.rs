//! The tasks in a `subscriptions/listen`: each is followed at the upstream that has it, and its status is passed on
//! with the id that the client knows.

use std::sync::Arc;

use parking_lot::Mutex;
use toolyard_model::{Origin, Peer, Scope};
use toolyard_proto::name::UpstreamId;
use toolyard_proto::{Method, Notification, Raw};

use crate::catalog::ViewCatalog;
use crate::tasks;
use crate::upstream::{FollowedTasks, Upstream};

/// How many reports are kept until the listening is acknowledged.
const MOST_WAITING: usize = 1_000;

/// The way to a client whose listening is not acknowledged yet: nothing may reach it before.
pub(super) struct AfterAck {
    peer: Peer,
    /// `None` once it is acknowledged.
    waiting: Mutex<Option<Vec<Notification>>>,
}

impl AfterAck {
    pub(super) fn new(peer: Peer) -> Arc<Self> {
        Arc::new(Self { peer, waiting: Mutex::new(Some(Vec::new())) })
    }

    fn notify(&self, notification: Notification) {
        let mut waiting = self.waiting.lock();
        match &mut *waiting {
            Some(waiting) if waiting.len() < MOST_WAITING => waiting.push(notification),
            Some(_) => {}
            None => self.peer.notify(notification),
        }
    }

    /// Sends the acknowledgement, and what came before it.
    pub(super) fn acknowledge(&self, ack: Notification) {
        let mut waiting = self.waiting.lock();
        self.peer.notify(ack);
        for notification in waiting.take().into_iter().flatten() {
            self.peer.notify(notification);
        }
    }
}

/// Follows tasks until `scope` ends; returns the ids of those that are followed, as the client knows them.
pub(super) async fn follow_all(
    view: &Arc<ViewCatalog>,
    origin: &Arc<Origin>,
    peer: &Arc<AfterAck>,
    scope: &Scope,
    shown: &[String],
) -> Vec<String> {
    let mut honoured = Vec::new();
    for (upstream, ids) in by_upstream(view, shown) {
        let to = peer.clone();
        let id = upstream.id().clone();
        let is_namespaced = view.is_namespaced();
        let owner = upstream.clone();
        let names = shown.to_vec();
        let report = move |params: &Raw| {
            let params = owner.links.task_reviews.status(params);
            let params = if is_namespaced { named(&id, &names, &params) } else { params };
            to.notify(Notification::new(Method::TASKS_CHANGED, params));
        };
        let followed = FollowedTasks { origin: origin.clone(), ids, report: Arc::new(report) };
        let agreed = upstream.follow_tasks(followed, scope).await;
        let known = |own: String| {
            if is_namespaced { name_of(upstream.id(), shown, &own).cloned() } else { Some(own) }
        };
        honoured.extend(agreed.into_iter().filter_map(known));
    }
    honoured.retain(|id| shown.contains(id));
    honoured
}

/// The id by which the client follows a task.
fn name_of<'a>(id: &UpstreamId, shown: &'a [String], own: &str) -> Option<&'a String> {
    shown.iter().find(|name| tasks::own(name) == Some((id.as_str(), own)))
}

/// The status of a task, under the id by which the client follows it.
fn named(id: &UpstreamId, shown: &[String], params: &Raw) -> Raw {
    let own = params.member("taskId").and_then(|task| task.as_string()).unwrap_or_default();
    name_of(id, shown, &own).map_or_else(
        || params.with("taskId", &Raw::from_serialize(&format!("{id}.{own}"))),
        |name| params.with("taskId", &Raw::from_serialize(name)),
    )
}

/// The upstreams of tasks, each with its own ids of them.
fn by_upstream(view: &ViewCatalog, shown: &[String]) -> Vec<(Arc<Upstream>, Vec<String>)> {
    let mut out: Vec<(Arc<Upstream>, Vec<String>)> = Vec::new();
    for id in shown {
        let found = match &view.alone {
            Some(alone) => Some((alone.clone(), id.as_str())),
            None => tasks::own(id).and_then(|(id, own)| Some((view.upstream(id)?.clone(), own))),
        };
        let Some((upstream, own)) = found else { continue };
        match out.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &upstream)) {
            Some((_, ids)) => ids.push(own.to_owned()),
            None => out.push((upstream, vec![own.to_owned()])),
        }
    }
    out
}
