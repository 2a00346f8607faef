//! The caller of a tool.

use std::sync::Arc;

use serde_json::Value;
use toolyard_model::{Ask, Principal, PrincipalId};
use toolyard_proto::Method;

use super::Context;
use crate::host::Delegation;

/// The principal to which the gateway admits the bearer of the operator token.
const OPERATOR: &str = "operator";

/// The caller of a tool, as the gateway or server has identified it.
///
/// ```
/// # use toolyard_tool::{Context, tool};
/// /// Returns the identity of the caller.
/// #[tool(read_only)]
/// async fn who_am_i(context: &Context) -> String {
///     let caller = context.caller();
///     format!("{} with {}", caller.principal, caller.client.unwrap_or_else(|| "some program".into()))
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Caller {
    /// The identity, as proven by the credentials; `local` if no credentials are required.
    pub principal: String,
    /// The client's program, by its own account. Never base a decision on it.
    pub client: Option<String>,
    /// That program's version.
    pub client_version: Option<String>,
    /// The runs that the call comes from, such as agents, the outermost first. Empty for a call of the principal
    /// itself.
    pub runs: Vec<String>,
    /// Whether the caller may see what belongs to other principals: the local user on a connection that proves it, and
    /// the bearer of the operator token. Runs may not, even if a caller that sees all started them.
    pub sees_all: bool,
}

impl Context {
    /// The caller of this tool.
    pub fn caller(&self) -> Caller {
        let declared = |key: &str| self.0.origin.client_info.as_ref()?.member(key)?.as_string();
        Caller {
            principal: self.0.origin.principal.name().to_string(),
            client: declared("name"),
            client_version: declared("version"),
            runs: runs_of(&self.0.origin.principal),
            sees_all: match self.0.origin.principal.id() {
                PrincipalId::Local => self.0.origin.is_proven,
                PrincipalId::Token(name) => &**name == OPERATOR,
                _ => false,
            },
        }
    }

    /// As which client the call takes turns with those of others, for a queue of the pack's own. Not proof of an identity.
    pub fn turn(&self) -> Arc<str> {
        self.0.origin.turn()
    }

    /// Access to one profile of the gateway for a run that this call starts, with the rights of the caller. `None` in a
    /// program that is not a gateway.
    pub fn delegate(&self, run: &str, profile: &str) -> Option<Delegation> {
        let delegations = self.set().host.get()?.delegations()?;
        delegations.delegate(&self.0.origin.principal, run, profile)
    }

    /// Whether the client declared that it can fill in forms ([`Context::ask`]).
    pub fn can_ask(&self) -> bool {
        self.can_be_asked(Method::ELICIT)
    }

    /// Whether the client declared that it lends its model ([`Context::sample`]).
    pub fn can_sample(&self) -> bool {
        self.can_be_asked(Method::SAMPLE)
    }

    /// Whether the client declared that it names its folders ([`Context::roots`]).
    pub fn has_roots(&self) -> bool {
        self.can_be_asked(Method::ROOTS_LIST)
    }

    fn can_be_asked(&self, method: Method) -> bool {
        Ask { method, params: None }.missing(&self.0.origin.capabilities).is_none()
    }

    /// The capabilities that the client declared, unchanged.
    pub fn client_capabilities(&self) -> Value {
        self.0.origin.capabilities.read().unwrap_or_default()
    }
}

fn runs_of(principal: &Principal) -> Vec<String> {
    match principal.id() {
        PrincipalId::Delegate { parent, run } => {
            let mut runs = runs_of(parent);
            runs.push(run.to_string());
            runs
        }
        _ => Vec::new(),
    }
}
