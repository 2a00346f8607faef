//! Why a sign-in, a refresh or a check failed. No error holds a token, a code or a secret.

use std::fmt;

use toolyard_proto::Reason;

/// The kind of failure, by which the caller decides what to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The server does not offer OAuth.
    NotOffered,
    /// The other side could not be reached or failed; trying again may help.
    Unreachable,
    /// The other side broke a rule that protects the user, so the sign-in was stopped.
    Violation,
    /// The authorization server refused, with this error code.
    Refused(String),
    /// The user must sign in.
    SignIn,
    /// The config lacks something or is wrong.
    Config,
    /// The sealed store cannot be read or written.
    Store,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub kind: Kind,
    pub reason: Reason,
}

impl Error {
    pub fn new(kind: Kind, reason: impl Into<Reason>) -> Self {
        Self { kind, reason: reason.into() }
    }

    pub(crate) fn violation(reason: impl Into<Reason>) -> Self {
        Self::new(Kind::Violation, reason)
    }

    pub(crate) fn unreachable(reason: impl Into<Reason>) -> Self {
        Self::new(Kind::Unreachable, reason)
    }

    /// Whether the refresh token or code is no longer valid.
    pub fn is_invalid_grant(&self) -> bool {
        matches!(&self.kind, Kind::Refused(code) if code == "invalid_grant")
    }

    /// Whether the authorization server no longer knows the client.
    pub fn is_invalid_client(&self) -> bool {
        matches!(&self.kind, Kind::Refused(code) if code == "invalid_client")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl std::error::Error for Error {}

impl From<toolyard_secrets::Error> for Error {
    fn from(error: toolyard_secrets::Error) -> Self {
        Self::new(Kind::Store, Reason::new("the store of secrets cannot be used").because(error.to_string()))
    }
}
