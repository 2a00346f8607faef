//! Several gateways that serve the same clients: how one passes a caller on to another, and which of them holds a
//! client's session or parked call.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use http::{HeaderMap, Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::answer::RelayBody;
use crate::{BoxFuture, Principal, PrincipalId};

/// The scheme of `Authorization` between nodes. It counts only on connections that prove that they come from a node.
pub const SCHEME: &str = "Node ";

/// A caller, as one node describes it to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOn {
    pub principal: Principal,
    /// Whether the caller proved its identity.
    pub is_proven: bool,
    /// Whether the call has passed all steps already and only needs to reach its upstream.
    pub is_relayed: bool,
    /// The gateway that the client called, if the call has passed its steps there.
    pub called: Option<Arc<str>>,
}

impl PassedOn {
    /// The value of `Authorization`.
    pub fn to_header(&self) -> String {
        let caller = json!({
            "principal": identity(&self.principal),
            "proven": self.is_proven,
            "relayed": self.is_relayed,
            "called": self.called.as_deref(),
        });
        format!("{SCHEME}{}", BASE64URL_NOPAD.encode(caller.to_string().as_bytes()))
    }

    pub fn from_header(header: &[u8]) -> Option<Self> {
        let text = header.strip_prefix(SCHEME.as_bytes())?;
        let caller: Value = serde_json::from_slice(&BASE64URL_NOPAD.decode(text).ok()?).ok()?;
        Some(Self {
            principal: principal(&caller["principal"])?,
            is_proven: caller["proven"].as_bool()?,
            is_relayed: caller["relayed"].as_bool()?,
            called: caller["called"].as_str().map(Arc::from),
        })
    }
}

fn identity(principal: &Principal) -> Value {
    let id = match principal.id() {
        PrincipalId::Local => json!({ "local": true }),
        PrincipalId::Gateway => json!({ "gateway": true }),
        PrincipalId::Token(name) => json!({ "token": **name }),
        PrincipalId::App(id) => json!({ "app": **id }),
        PrincipalId::OAuth { issuer, subject } => json!({ "issuer": **issuer, "subject": **subject }),
        PrincipalId::Delegate { parent, run } => json!({ "parent": identity(parent), "run": **run }),
    };
    let roles: Vec<&str> = principal.roles().iter().map(|role| &**role).collect();
    json!({ "id": id, "roles": roles, "class": **principal.class() })
}

fn principal(identity: &Value) -> Option<Principal> {
    let id = identity.get("id")?;
    let text = |key: &str| id[key].as_str();
    let bare = if id["local"] == true {
        Principal::local()
    } else if id["gateway"] == true {
        Principal::gateway()
    } else if let Some(name) = text("token") {
        Principal::token(name)
    } else if let Some(app) = text("app") {
        Principal::app(app)
    } else if let Some(subject) = text("subject") {
        Principal::oauth(text("issuer")?, subject)
    } else {
        principal(id.get("parent")?)?.delegate(text("run")?)
    };
    let roles = identity["roles"].as_array()?.iter().filter_map(|role| role.as_str().map(Arc::from));
    let roles: Vec<Arc<str>> = roles.collect();
    let classed = match identity["class"].as_str()? {
        "" => bare,
        class => bare.with_class(class),
    };
    Some(if roles.is_empty() { classed } else { classed.with_roles(roles) })
}

/// A request of a client that another node answers.
#[derive(Debug)]
pub struct Forwarded {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub caller: PassedOn,
}

/// Why another node did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotForwarded {
    pub status: StatusCode,
    pub reason: String,
}

/// The other nodes, as the endpoint for clients sees them.
pub trait Nodes: fmt::Debug + Send + Sync + 'static {
    /// The id of this gateway.
    fn gateway(&self) -> Arc<str>;

    /// Marks the id of a new session, so that every node knows where the session is.
    fn mark_session(&self, id: &str) -> String;

    /// The node that a session is on, if it is another one. `mark` is what [`mark_session`](Self::mark_session) gave.
    fn session_elsewhere(&self, id: &str, mark: &str) -> Option<String>;

    /// The node that holds a parked call, an approval, a handle or a task, if it is another one. `state` is any text.
    fn parked_elsewhere(&self, state: &str) -> Option<String>;

    fn forward(&self, node: &str, request: Forwarded)
    -> BoxFuture<Result<Response<RelayBody>, NotForwarded>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_the_same_after_it_was_passed_on() {
        let ann = Principal::oauth("https://id.example", "7").with_roles(["ops".into()]).with_class("guest");
        for principal in
            [Principal::local(), Principal::token("a"), Principal::app("b"), ann.delegate("run-1"), ann]
        {
            let sent = PassedOn { principal, is_proven: true, is_relayed: true, called: Some("x".into()) };
            let received = PassedOn::from_header(sent.to_header().as_bytes()).unwrap();
            assert_eq!(received, sent);
            assert_eq!(received.principal.roles(), sent.principal.roles());
            assert_eq!(received.principal.class(), sent.principal.class());
        }
        for header in ["Bearer x", "Node", "Node !", "Node e30"] {
            assert_eq!(PassedOn::from_header(header.as_bytes()), None, "{header}");
        }
    }
}
