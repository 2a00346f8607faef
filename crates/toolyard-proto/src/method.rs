//! Method names. The known ones cost no allocation; unknown ones are carried as they are.

use std::borrow::Cow;
use std::fmt;

/// The name of a request or notification.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Method(Cow<'static, str>);

macro_rules! methods {
    ($($constant:ident = $name:literal),* $(,)?) => {
        impl Method {
            $(pub const $constant: Method = Method(Cow::Borrowed($name));)*

            fn known(name: &str) -> Option<&'static str> {
                match name { $($name => Some($name),)* _ => None }
            }
        }
    };
}

methods! {
    INITIALIZE = "initialize",
    INITIALIZED = "notifications/initialized",
    PING = "ping",
    DISCOVER = "server/discover",
    TOOLS_LIST = "tools/list",
    TOOLS_CALL = "tools/call",
    RESOURCES_LIST = "resources/list",
    TEMPLATES_LIST = "resources/templates/list",
    RESOURCES_READ = "resources/read",
    RESOURCES_SUBSCRIBE = "resources/subscribe",
    RESOURCES_UNSUBSCRIBE = "resources/unsubscribe",
    PROMPTS_LIST = "prompts/list",
    PROMPTS_GET = "prompts/get",
    COMPLETE = "completion/complete",
    SET_LEVEL = "logging/setLevel",
    LISTEN = "subscriptions/listen",
    TASKS_GET = "tasks/get",
    TASKS_UPDATE = "tasks/update",
    TASKS_CANCEL = "tasks/cancel",
    TASKS_RESULT = "tasks/result",
    TASKS_LIST = "tasks/list",
    ELICIT = "elicitation/create",
    SAMPLE = "sampling/createMessage",
    ROOTS_LIST = "roots/list",
    CANCELLED = "notifications/cancelled",
    PROGRESS = "notifications/progress",
    LOG = "notifications/message",
    RESOURCE_UPDATED = "notifications/resources/updated",
    TOOLS_CHANGED = "notifications/tools/list_changed",
    RESOURCES_CHANGED = "notifications/resources/list_changed",
    PROMPTS_CHANGED = "notifications/prompts/list_changed",
    ROOTS_CHANGED = "notifications/roots/list_changed",
    ACKNOWLEDGED = "notifications/subscriptions/acknowledged",
    TASK_STATUS = "notifications/tasks/status",
    TASKS_CHANGED = "notifications/tasks",
    ELICITATION_COMPLETE = "notifications/elicitation/complete",
}

impl Method {
    pub fn new(name: &str) -> Self {
        Self(Self::known(name).map_or_else(|| Cow::Owned(name.to_owned()), Cow::Borrowed))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
