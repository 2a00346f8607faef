//! Follows the status of tasks for a client that listens to them, on a link of the upstream that has them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use toolyard_model::{Origin, Peer, Scope};
use toolyard_proto::{Method, Raw};

use super::Upstream;
use super::fetch::own_request;
use super::subscribe::NotificationSink;
use crate::bridge;

/// How long after a listening ended the next one begins.
const LISTEN_AGAIN: Duration = Duration::from_secs(2);

static NEXT: AtomicU64 = AtomicU64::new(1);

/// The tasks of one upstream that one client listens to, by their own ids.
#[derive(Clone)]
pub(crate) struct FollowedTasks {
    pub(crate) origin: Arc<Origin>,
    pub(crate) ids: Vec<String>,
    /// Takes the parameters of each notification.
    pub(crate) report: Arc<dyn Fn(&Raw) + Send + Sync>,
}

impl Upstream {
    /// Reports the status of tasks until `scope` ends; returns those that the upstream agreed to report.
    pub(crate) async fn follow_tasks(
        self: &Arc<Self>,
        mut tasks: FollowedTasks,
        scope: &Scope,
    ) -> Vec<String> {
        let is_theirs = |id: &String| {
            let params = serde_json::json!({ "taskId": id }).into();
            self.links.task_owners.check(&params, &tasks.origin).is_ok()
        };
        tasks.ids = tasks.ids.iter().filter(|id| is_theirs(id)).cloned().collect();
        if tasks.ids.is_empty() {
            return Vec::new();
        }
        let (agreed, answer) = oneshot::channel();
        let (upstream, own) = (self.clone(), scope.clone());
        scope.spawn(async move {
            let mut agreed = Some(agreed);
            while !own.is_ended() {
                let is_followed = upstream.listen_to_tasks(&tasks, &mut agreed).await;
                if !is_followed {
                    return;
                }
                tokio::time::sleep(LISTEN_AGAIN).await;
            }
        });
        let waited = tokio::time::timeout(self.pace().connect, answer).await;
        waited.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// Listens once, until it ends. False if the upstream does not agree to it.
    async fn listen_to_tasks(
        self: &Arc<Self>,
        tasks: &FollowedTasks,
        agreed: &mut Option<oneshot::Sender<Vec<String>>>,
    ) -> bool {
        let Ok(lease) = self.lease(&tasks.origin, &Peer::none()).await else { return agreed.is_none() };
        let link = lease.link();
        if !bridge::subscribes_by_listening(link.greeting().revision) {
            return false;
        }
        let (send, mut incoming) = mpsc::channel(64);
        let params = serde_json::json!({ "notifications": { "taskIds": tasks.ids } });
        let id = format!("yard-tasks-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let request = own_request(link.as_ref(), &tasks.origin, Method::LISTEN, params.into(), &id);
        let mut listening = link.call(request, Peer::new(Arc::new(NotificationSink(send))));
        loop {
            let notification = tokio::select! {
                biased;
                Some(notification) = incoming.recv() => notification,
                _ = &mut listening => return agreed.is_none(),
            };
            let Some(params) = notification.params.as_ref() else { continue };
            if notification.method == Method::ACKNOWLEDGED {
                let ids: Vec<String> = params
                    .at(&["notifications", "taskIds"])
                    .and_then(|ids| ids.read().ok())
                    .unwrap_or_default();
                if let Some(agreed) = agreed.take() {
                    let _ = agreed.send(ids);
                }
            } else if notification.method == Method::TASKS_CHANGED && names_one_of(&tasks.ids, params) {
                (tasks.report)(params);
            }
        }
    }
}

fn names_one_of(ids: &[String], params: &Raw) -> bool {
    params.member("taskId").and_then(|id| id.as_string()).is_some_and(|id| ids.contains(&id))
}
