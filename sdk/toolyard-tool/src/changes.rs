//! Announcements: a resource has changed, lists have changed, a task has made progress.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::broadcast::{self, error::RecvError};
use toolyard_model::Peer;
use toolyard_proto::{Method, Notification, Raw};

/// A listener that is this many announcements behind loses the oldest.
const BACKLOG: usize = 256;

/// Announces changes to subscribed clients. Cloning is cheap, and clones announce for the same set.
///
/// ```
/// use toolyard_tool::ToolSet;
///
/// let set = ToolSet::new("thermometer", "1.0.0");
/// let changes = set.changes();
/// // Later, wherever something happens:
/// changes.resource_updated("weather://today");
/// ```
#[derive(Clone, Debug)]
pub struct Changes(broadcast::Sender<Change>);

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Tools,
    Prompts,
    Resources,
    Updated(Arc<str>),
    Task(Arc<str>, Raw),
}

impl Default for Changes {
    fn default() -> Self {
        Self(broadcast::channel(BACKLOG).0)
    }
}

impl Changes {
    /// A resource has new content.
    pub fn resource_updated(&self, uri: &str) {
        self.announce(Change::Updated(uri.into()));
    }

    /// The list of tools has changed.
    pub fn tools_changed(&self) {
        self.announce(Change::Tools);
    }

    /// The list of prompts has changed.
    pub fn prompts_changed(&self) {
        self.announce(Change::Prompts);
    }

    /// The list of resources has changed.
    pub fn resources_changed(&self) {
        self.announce(Change::Resources);
    }

    pub(crate) fn announce(&self, change: Change) {
        // Having no subscribers is not an error.
        let _ = self.0.send(change);
    }

    /// Sends `peer` what it asked for, for as long as it listens.
    pub(crate) async fn tell(self, peer: Peer, wanted: Filter) {
        let mut changes = self.0.subscribe();
        let acknowledged = json!({ "notifications": wanted.0 });
        peer.notify(Notification::new(Method::ACKNOWLEDGED, Raw::from(acknowledged)));
        drop(self);
        loop {
            match changes.recv().await {
                Ok(change) if wanted.holds(&change) => peer.notify(announcement(change)),
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }
}

/// The announcements that a listener gets: those of its requested ones that there are.
pub(crate) struct Filter(Map<String, Value>);

const FLAGS: [&str; 3] = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"];

impl Filter {
    pub(crate) fn new(
        wishes: &Value,
        is_resource: impl Fn(&str) -> bool,
        is_task: impl Fn(&str) -> bool,
    ) -> Self {
        let mut kept: Map<String, Value> = FLAGS
            .iter()
            .filter(|flag| wishes[**flag] == true)
            .map(|flag| ((*flag).to_owned(), true.into()))
            .collect();
        let known = |list: &Value, is_known: &dyn Fn(&str) -> bool| -> Value {
            let names = list.as_array().into_iter().flatten();
            names.filter(|name| name.as_str().is_some_and(is_known)).cloned().collect()
        };
        if let Some(uris) = wishes.get("resourceSubscriptions") {
            kept.insert("resourceSubscriptions".into(), known(uris, &is_resource));
        }
        if let Some(ids) = wishes.get("taskIds") {
            kept.insert("taskIds".into(), known(ids, &is_task));
        }
        Self(kept)
    }

    fn holds(&self, change: &Change) -> bool {
        let names = |key: &str, name: &str| {
            self.0.get(key).and_then(Value::as_array).is_some_and(|names| names.iter().any(|one| one == name))
        };
        match change {
            Change::Tools => self.0.contains_key(FLAGS[0]),
            Change::Prompts => self.0.contains_key(FLAGS[1]),
            Change::Resources => self.0.contains_key(FLAGS[2]),
            Change::Updated(uri) => names("resourceSubscriptions", uri),
            Change::Task(id, _) => names("taskIds", id),
        }
    }
}

fn announcement(change: Change) -> Notification {
    match change {
        Change::Tools => Notification::new(Method::TOOLS_CHANGED, None),
        Change::Prompts => Notification::new(Method::PROMPTS_CHANGED, None),
        Change::Resources => Notification::new(Method::RESOURCES_CHANGED, None),
        Change::Updated(uri) => {
            Notification::new(Method::RESOURCE_UPDATED, Raw::from(json!({ "uri": &*uri })))
        }
        Change::Task(_, details) => Notification::new(Method::TASKS_CHANGED, details),
    }
}
