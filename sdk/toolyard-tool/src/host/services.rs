//! Limits, hooks and credentials of the hosting program.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolyard_model::{Answer, BoxFuture, Origin, Peer, Principal, Request};
use toolyard_proto::Raw;

/// The named limits of the config.
pub trait Limits: Send + Sync + 'static {
    /// Waits for a permit under a limit. A name without a limit is unlimited.
    fn acquire(&self, name: &str, work: LimitedWork) -> BoxFuture<Result<Permit, Limited>>;
}

/// Work of a pack under a limit.
pub struct LimitedWork {
    /// The name of the pack.
    pub pack: Arc<str>,
    /// The model, for limits with `per = "model"`.
    pub model: Arc<str>,
    /// The call that waits for the work, and the name of its tool.
    pub call: Option<(Arc<Origin>, Arc<str>)>,
    /// Called with the number of those ahead when it begins to wait, and now and then while it does.
    pub report: Box<dyn Fn(usize) + Send + Sync>,
}

impl fmt::Debug for LimitedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedWork")
            .field("pack", &self.pack)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// The error of a limit whose queue is full, or of a wait that took too long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limit `{limit}`: {reason}")]
pub struct Limited {
    limit: String,
    reason: String,
    retry_after: Duration,
}

impl Limited {
    /// By this limit, for this reason; another attempt may succeed after `retry_after`.
    pub fn new(limit: &str, reason: impl Into<String>, retry_after: Duration) -> Self {
        Self { limit: limit.to_owned(), reason: reason.into(), retry_after }
    }

    /// When another attempt is likely to succeed.
    pub fn retry_after(&self) -> Duration {
        self.retry_after
    }
}

/// Held while something runs under a limit; returned when it is dropped.
#[must_use]
pub struct Permit(Option<Box<dyn Any + Send + Sync>>);

impl Permit {
    /// Holds whatever gives the permit back when it is dropped.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Some(Box::new(held)))
    }

    /// A limit that never applies.
    pub fn unlimited() -> Self {
        Self(None)
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Permit" } else { "Permit(unlimited)" })
    }
}

/// The hooks of the user.
pub trait Hooks: Send + Sync + 'static {
    /// Runs all hooks of a point, each with the output of the one before it.
    fn run(&self, point: &str, input: Value) -> BoxFuture<Verdict>;

    /// Whether any hook runs at a point for this subject, such as the name of a model.
    fn has_any(&self, _point: &str, _subject: &str) -> bool {
        true
    }
}

/// The decision of hooks.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Go on with this input, which hooks may have changed.
    Continue(Value),
    /// Do not go on, for this reason.
    Block(String),
}

/// The event stream of the gateway.
pub trait Events: Send + Sync + 'static {
    /// Publishes what happened in a pack. Operators read it, and the principal that it belongs to.
    fn publish(&self, pack: &str, principal: &str, event: Value);
}

/// The gateway that a pack is in, as its tools see it.
pub trait Gateway: Send + Sync + 'static {
    /// Answers a request as if the client of its origin had sent it.
    fn handle(&self, request: Request, peer: Peer) -> BoxFuture<Answer>;

    /// The id of a tool, `UPSTREAM:TOOL`, whatever the view of the origin calls it.
    fn tool_id(&self, _origin: &Origin, _shown: &str) -> Option<String> {
        None
    }

    /// The tools that the client of this origin can find by these words, best first. `None` if the gateway has no
    /// search.
    fn search_tools(
        &self,
        _origin: &Arc<Origin>,
        _words: &str,
        _limit: usize,
    ) -> Option<BoxFuture<Vec<Raw>>> {
        None
    }
}

/// Access to the gateway for a run that a pack starts on behalf of its caller, such as an agent. It ends when this is
/// dropped.
#[must_use]
pub struct Delegation {
    token: String,
    command: Vec<String>,
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Delegation {
    /// With what the run presents, the command that serves it the gateway on stdio, and what ends its access.
    pub fn new(token: String, command: Vec<String>, end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { token, command, end: Some(Box::new(end)) }
    }

    /// The variable in which the command expects the token.
    pub const VARIABLE: &str = "MCP_AUTH_TOKEN";

    /// A secret of this run. Never an argument: other users can see those.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A program and its arguments: an MCP server on stdio.
    pub fn command(&self) -> &[String] {
        &self.command
    }
}

impl Drop for Delegation {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
        }
    }
}

impl fmt::Debug for Delegation {
    /// The token is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delegation").field("command", &self.command).finish_non_exhaustive()
    }
}

/// Lets runs of packs use the gateway.
pub trait Delegations: Send + Sync + 'static {
    /// Access for a run on behalf of `parent` to one profile; nothing if there is none to give.
    fn delegate(&self, parent: &Principal, run: &str, profile: &str) -> Option<Delegation>;
}

/// The accounts of the user.
pub trait Credentials: Send + Sync + 'static {
    /// A fresh access token of a provider.
    fn token(&self, provider: &str) -> BoxFuture<Result<String, NotSignedIn>>;

    /// All accounts that are configured, and whether the user has signed in to each. This asks no provider.
    fn sign_ins(&self) -> BoxFuture<Vec<SignInStatus>> {
        Box::pin(async { Vec::new() })
    }
}

/// Whether the user has signed in to a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInStatus {
    /// The name of the account in the config.
    pub provider: String,
    /// Whether there are tokens that can be used or refreshed.
    pub is_signed_in: bool,
}

/// The user has not signed in to a provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not signed in to `{provider}`")]
pub struct NotSignedIn {
    provider: String,
}

impl NotSignedIn {
    /// To this provider.
    pub fn new(provider: &str) -> Self {
        Self { provider: provider.to_owned() }
    }
}
