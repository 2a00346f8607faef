//! Who is calling.

use serde_json::Value;
use toolyard_model::Ask;
use toolyard_proto::Method;

use super::Context;

/// Who made a call.
///
/// ```
/// # use toolyard_tool::{Context, tool};
/// /// Tells the caller who they are.
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
    /// The client's program, as it says itself. Never base a decision on it.
    pub client: Option<String>,
    /// That program's version.
    pub client_version: Option<String>,
}

impl Context {
    /// Who made this call.
    pub fn caller(&self) -> Caller {
        let said = |key: &str| self.0.origin.client_info.as_ref()?.member(key)?.as_string();
        Caller {
            principal: self.0.origin.principal.name().to_string(),
            client: said("name"),
            client_version: said("version"),
        }
    }

    /// Whether the client said that it can fill in forms ([`Context::ask`]).
    pub fn can_ask(&self) -> bool {
        self.can_be_asked(Method::ELICIT)
    }

    /// Whether the client said that it lends its model ([`Context::sample`]).
    pub fn can_sample(&self) -> bool {
        self.can_be_asked(Method::SAMPLE)
    }

    /// Whether the client said that it names its folders ([`Context::roots`]).
    pub fn has_roots(&self) -> bool {
        self.can_be_asked(Method::ROOTS_LIST)
    }

    fn can_be_asked(&self, method: Method) -> bool {
        Ask { method, params: None }.missing(&self.0.origin.capabilities).is_none()
    }

    /// What the client said that it can do, as it said it.
    pub fn client_capabilities(&self) -> Value {
        self.0.origin.capabilities.read().unwrap_or_default()
    }
}
