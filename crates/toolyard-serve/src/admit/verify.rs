//! Tokens of an external issuer: the trait that verifies them, and its verdicts.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use tokio::time::Instant;
use toolyard_model::{BoxFuture, Principal, View};
use toolyard_proto::token::BadToken;

/// Checks tokens of issuers.
pub trait VerifyToken: fmt::Debug + Send + Sync + 'static {
    /// The verdict, if nothing has to be fetched for it.
    fn check(&self, token: &str) -> Option<Verdict>;

    /// The verdict, after what is missing was fetched.
    fn verify(&self, token: &str) -> BoxFuture<Verdict>;

    /// The value of `WWW-Authenticate` for a request to `path`, with the refusal of the token that came, if any.
    fn challenge(&self, path: &str, refusal: Option<Refusal>) -> HeaderValue;
}

/// The result of verifying a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Valid(Bearer),
    Refused(Refusal),
}

/// The bearer of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearer {
    pub principal: Principal,
    /// When the token must be checked again.
    pub until: Instant,
    /// When the token ends, if that is known.
    pub expires: Option<Instant>,
    /// The views that the token is for, as they are written in paths; all of them if there is no list.
    pub views: Option<Arc<[String]>>,
}

impl Bearer {
    /// A run that the gateway has started, which may enter one view.
    pub(super) fn of_run(principal: Principal, view: &View) -> Self {
        let views = Some(Arc::from([view.to_string()]));
        Self { principal, until: Instant::now(), expires: None, views }
    }

    /// Whether the token is for the place at `path`.
    pub(super) fn may_enter(&self, path: &str) -> bool {
        let Some(views) = &self.views else { return true };
        let rest = path.strip_prefix("/mcp").or_else(|| path.strip_prefix("/sse"));
        let view = rest.map(|rest| rest.trim_matches('/'));
        view.is_some_and(|view| views.iter().any(|own| own == view))
    }
}

/// Why a token is not accepted. The texts are fixed, so that nothing of a token gets into a header or a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Invalid(&'static str),
    /// It looks like a token that is made from the shared secret, and is not a valid one.
    Secret(BadToken),
    /// The token is valid and lacks scopes that are required.
    Scopes,
    /// It cannot be checked at the moment.
    Unavailable(&'static str),
}

pub(super) const SCOPES: &str = "the token lacks required scopes";

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(reason) | Self::Unavailable(reason) => f.write_str(reason),
            Self::Secret(bad) => bad.fmt(f),
            Self::Scopes => f.write_str(SCOPES),
        }
    }
}

/// The token is for another view than the one that is asked for.
pub(super) const OTHER_VIEW: Refusal = Refusal::Invalid("the token is for another resource");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_for_one_view_opens_no_other() {
        let views = Some(Arc::from(["wiki".to_owned(), "p/team".to_owned()]));
        let bearer = Bearer { principal: Principal::local(), until: Instant::now(), expires: None, views };
        let check = |path: &str, expected| assert_eq!(bearer.may_enter(path), expected, "{path}");
        check("/mcp/wiki", true);
        check("/mcp/wiki/", true);
        check("/sse/p/team", true);
        check("/mcp", false);
        check("/mcp/wiki2", false);
        check("/mcp/p", false);
        check("/api/v1/status", false);
        assert!(Bearer { views: None, ..bearer }.may_enter("/api/v1/status"));
    }
}
