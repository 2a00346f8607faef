//! Credentials that change over time, such as OAuth tokens: added to each request, and renewed when the server refuses.

use std::fmt;

use http::{HeaderMap, HeaderValue, StatusCode};
use toolyard_model::{BoxFuture, Principal};
use toolyard_proto::{CallError, Reason, Retry};

/// Adds credentials to the requests of one upstream.
pub trait Authorize: fmt::Debug + Send + Sync + 'static {
    /// The value of `Authorization` for a request of `principal`, or of the gateway itself. `None` if there is none
    /// yet.
    fn authorization(
        &self,
        principal: Option<&Principal>,
    ) -> BoxFuture<Result<Option<HeaderValue>, Unauthorized>>;

    /// The server refused a request that was sent with `used`. Returns what to send instead, or `None` if other
    /// credentials would not help.
    fn renewed(
        &self,
        principal: Option<&Principal>,
        used: Option<HeaderValue>,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> BoxFuture<Result<Option<HeaderValue>, Unauthorized>>;
}

/// Why a request has no valid credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unauthorized {
    pub reason: Reason,
    /// Whether the user can help by signing in.
    pub needs_sign_in: bool,
}

impl Unauthorized {
    pub(crate) fn to_call_error(&self) -> CallError {
        if self.needs_sign_in {
            CallError::sign_in(self.reason.clone())
        } else {
            CallError::turned_away(Retry::Never, self.reason.clone())
        }
    }
}
