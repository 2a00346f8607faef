//! The channel back to the caller: notifications, and questions that wait for an answer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use toolyard_proto::modern::TASKS_EXTENSION;
use toolyard_proto::{Method, Notification, Raw};

use crate::{BoxFuture, Origin};

/// A question to the client in the middle of a call: elicitation, sampling or roots.
#[derive(Clone, Debug)]
pub struct Ask {
    pub method: Method,
    pub params: Option<Raw>,
}

impl Ask {
    /// Why a client with these capabilities cannot be asked this, if it cannot.
    pub fn refusal(&self, capabilities: &Raw) -> Option<AskError> {
        let missing = self.missing(capabilities)?.join(".");
        Some(AskError::Unsupported(format!("the client did not declare the capability `{missing}`")))
    }

    /// The capability that a client with these capabilities lacks for this question, if it lacks one.
    pub fn missing(&self, capabilities: &Raw) -> Option<&'static [&'static str]> {
        let param = |key: &str| self.params.as_ref().and_then(|params| params.member(key));
        let is_url = || param("mode").is_some_and(|mode| mode.as_bytes() == b"\"url\"");
        let needed: &[&str] = match self.method.as_str() {
            "elicitation/create" if is_url() => &["elicitation", "url"],
            // A client that declares no mode supports forms; one that declares only pages does not.
            "elicitation/create" if capabilities.at(&["elicitation", "url"]).is_some() => {
                &["elicitation", "form"]
            }
            "elicitation/create" => &["elicitation"],
            "sampling/createMessage" if param("tools").is_some() => &["sampling", "tools"],
            "sampling/createMessage" => &["sampling"],
            "roots/list" => &["roots"],
            _ => return None,
        };
        let declared = capabilities.at(needed).is_some_and(|capability| !capability.is_null());
        (!declared).then_some(needed)
    }
}

/// Why a client with these capabilities cannot answer a result that asks it, if it cannot. Most results do not ask.
pub fn unanswerable(result: &Raw, capabilities: &Raw) -> Option<AskError> {
    let kind = result.member("resultType")?;
    let asks =
        (kind.as_bytes() == b"\"input_required\"").then(|| result.member("inputRequests")).flatten()?;
    let asks: BTreeMap<String, Raw> = asks.read().ok()?;
    asks.values().find_map(|ask| {
        let method = Method::new(&ask.member("method")?.as_string()?);
        Ask { method, params: ask.member("params") }.refusal(capabilities)
    })
}

/// The type of the result, if a client with these capabilities does not know that type. Types beyond
/// those of the specification belong to extensions, which a client declares.
pub fn unknown_result_type(result: &Raw, capabilities: &Raw) -> Option<String> {
    let kind = result.member("resultType")?;
    if matches!(kind.as_bytes(), b"\"complete\"" | b"\"input_required\"") {
        return None;
    }
    let is_task = kind.as_bytes() == b"\"task\"";
    let is_declared = capabilities
        .member("extensions")
        .and_then(|extensions| extensions.read::<BTreeMap<String, Raw>>().ok())
        .is_some_and(|extensions| extensions.keys().any(|name| (name == TASKS_EXTENSION) == is_task));
    (!is_declared).then(|| kind.as_string().unwrap_or_else(|| kind.as_str().to_owned()))
}

/// Why a notification must not reach a client on the stream of a call, if it must not. Only for clients that state a log
/// level with each request, and receive changes through subscriptions.
pub fn unwanted_on_call(notification: &Notification, origin: &Origin) -> Option<&'static str> {
    let level = &origin.log_level;
    match notification.method.as_str() {
        "notifications/message" if level.get().is_none() => {
            Some("a log message, which the client did not ask for")
        }
        "notifications/message" if !level.admits(notification.params.as_ref()) => {
            Some("a log message below the level that the client asked for")
        }
        "notifications/tools/list_changed"
        | "notifications/prompts/list_changed"
        | "notifications/resources/list_changed"
        | "notifications/resources/updated" => {
            Some("a notification of a change, which belongs to a subscription")
        }
        _ => None,
    }
}

/// Why a question got no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AskError {
    /// The client answered with this error object.
    #[error("the client answered with an error")]
    Reported(Raw),
    #[error("{0}")]
    Unsupported(String),
    #[error("the client disconnected before it answered")]
    Gone,
    #[error("the client did not answer in time")]
    Timeout,
}

/// The channel back to the caller. The endpoint implements it for each kind of client, and steps wrap it to watch
/// notifications and questions.
pub trait Back: Send + Sync + 'static {
    /// Sends a notification that belongs to this call. Never waits: if the client reads too slowly, it is
    /// dropped and counted.
    fn notify(&self, notification: Notification);

    /// The same for a notification of the gateway itself, which does not show that the upstream responds.
    fn notify_own(&self, notification: Notification) {
        self.notify(notification);
    }

    fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>>;

    /// The call is still running, though there is nothing to send. Only deadlines use this.
    fn alive(&self) {}

    /// Ends the client's stream of this call; the client reconnects for the rest. Only some legacy clients can
    /// do that, so it has no effect for others.
    fn hang_up(&self, _come_back_after: Duration) {}
}

/// A cheap handle to the channel back to the caller.
#[derive(Clone)]
pub struct Peer(Arc<dyn Back>);

impl Peer {
    pub fn new(back: Arc<dyn Back>) -> Self {
        Self(back)
    }

    /// The peer of the gateway's own calls: notifications are dropped, questions are refused.
    pub fn none() -> Self {
        Self(Arc::new(NoClient))
    }

    pub fn notify(&self, notification: Notification) {
        self.0.notify(notification);
    }

    pub fn notify_own(&self, notification: Notification) {
        self.0.notify_own(notification);
    }

    pub fn ask(&self, ask: Ask) -> BoxFuture<Result<Raw, AskError>> {
        self.0.ask(ask)
    }

    pub fn alive(&self) {
        self.0.alive();
    }

    pub fn hang_up(&self, come_back_after: Duration) {
        self.0.hang_up(come_back_after);
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Peer")
    }
}

struct NoClient;

impl Back for NoClient {
    fn notify(&self, _: Notification) {}

    fn ask(&self, _: Ask) -> BoxFuture<Result<Raw, AskError>> {
        Box::pin(async { Err(AskError::Unsupported("there is no client to ask".into())) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(capabilities: &str, method: &str, params: &str, accepted: bool) {
        let raw = |text: &str| Raw::parse(text.to_owned()).unwrap();
        let ask = Ask { method: Method::new(method), params: Some(raw(params)) };
        assert_eq!(ask.refusal(&raw(capabilities)).is_none(), accepted, "{capabilities} {method}");
    }

    #[test]
    fn only_declared_capabilities_are_asked_for() {
        check(r#"{"elicitation":{}}"#, "elicitation/create", "{}", true);
        check(r#"{"elicitation":{}}"#, "elicitation/create", r#"{"mode":"url"}"#, false);
        check(r#"{"elicitation":{"url":{}}}"#, "elicitation/create", r#"{"mode":"url"}"#, true);
        check(r#"{"elicitation":{"url":{}}}"#, "elicitation/create", "{}", false);
        check(r#"{"elicitation":{"url":{},"form":{}}}"#, "elicitation/create", "{}", true);
        check(r#"{"elicitation":{"form":{}}}"#, "elicitation/create", r#"{"mode":"form"}"#, true);
        check(r#"{"elicitation":{}}"#, "sampling/createMessage", "{}", false);
        check(r#"{"sampling":{}}"#, "sampling/createMessage", "{}", true);
        check(r#"{"sampling":{}}"#, "sampling/createMessage", r#"{"tools":[]}"#, false);
        check(r#"{"sampling":{"tools":{}}}"#, "sampling/createMessage", r#"{"tools":[]}"#, true);
        check("{}", "roots/list", "{}", false);
        check("{}", "x/y", "{}", true);
    }
}
