//! How a call fails, with all that the next decision needs: which side can fix it, whether to retry, why it failed,
//! and the form of the error in the protocol.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::era::{Era, Revision};
use crate::{Raw, Reason};

/// JSON-RPC and MCP error codes.
pub mod code {
    pub const PARSE_ERROR: i32 = -32700;
    pub const INVALID_REQUEST: i32 = -32600;
    pub const METHOD_NOT_FOUND: i32 = -32601;
    pub const INVALID_PARAMS: i32 = -32602;
    pub const INTERNAL: i32 = -32603;
    /// 2025-11-25 and earlier only.
    pub const RESOURCE_NOT_FOUND: i32 = -32002;
    pub const HEADER_MISMATCH: i32 = -32020;
    pub const MISSING_CAPABILITY: i32 = -32021;
    pub const UNSUPPORTED_VERSION: i32 = -32022;
}

/// An error object made by the gateway.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RpcError {
    pub code: i32,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Raw>,
}

impl RpcError {
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub fn to_raw(&self) -> Raw {
        Raw::from_serialize(self)
    }
}

/// Which side has to change something for the call to succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    Client,
    Gateway,
    Upstream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Retry {
    Never,
    /// The call may have been carried out: retry only where a second execution does no harm.
    IfIdempotent,
    /// The call was certainly not carried out.
    Always,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// The upstream answered with this error object, which is passed on unchanged.
    Reported(Raw),
    UnknownMethod,
    /// Unknown tool or prompt, bad cursor, malformed parameters: the message states which.
    InvalidParams,
    /// The request's own envelope is malformed (missing or wrong `_meta`).
    BadEnvelope,
    HeaderMismatch,
    MissingCapability(Raw),
    UnsupportedVersion {
        requested: String,
    },
    /// The connection to the upstream was lost during the call.
    Lost,
    /// The upstream cannot be reached now.
    Unavailable,
    /// No connection to the upstream can be opened now (no network, no such host, no answer); whether it is
    /// running is unknown.
    Unreachable,
    /// The upstream is running but refuses the call: it is too busy, or the credentials are wrong.
    TurnedAway,
    /// The upstream refuses the call until the user has signed in.
    SignIn,
    Timeout,
    /// The arguments do not fit the tool's schema; the message names each failing path.
    InvalidArguments,
    /// A hook blocked the call.
    Blocked,
    /// Too much is under way, or something is too large.
    Limit,
    Cancelled,
    /// The upstream's answer broke the protocol.
    BadAnswer,
    /// The client's era or capabilities do not allow what the upstream asked for.
    CannotAsk,
    /// The rules of the gateway do not permit the call, or it was not approved.
    Denied,
    Internal,
}

/// The one error type on the path of a call. Built by the functions below, so that a new field is one edit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct CallError {
    pub origin: Fault,
    pub retry: Retry,
    pub kind: Kind,
    /// The failure, its cause, and what to do about it.
    pub reason: Reason,
    /// How long to wait before trying again, where that is known.
    pub retry_after: Option<Duration>,
    pub upstream: Option<Arc<str>>,
    /// The revision whose error codes these are.
    pub form: Revision,
    /// The failed tool result that is shown for it, instead of one that is made of the reason.
    result: Option<Box<Raw>>,
}

/// How long a caller waits after a limit was reached, where nothing better is known.
const LIMIT_WAIT: Duration = Duration::from_secs(1);

/// One constructor for each kind.
impl CallError {
    fn new(origin: Fault, retry: Retry, kind: Kind, reason: impl Into<Reason>) -> Self {
        let reason = reason.into();
        let (retry_after, upstream, form) = (None, None, Revision::NEWEST);
        Self { origin, retry, kind, reason, retry_after, upstream, form, result: None }
    }

    pub fn reported(error: Raw) -> Self {
        let message = error.member("message").and_then(|m| m.as_string()).unwrap_or_default();
        Self::new(Fault::Upstream, Retry::Never, Kind::Reported(error), message)
    }

    pub fn unknown_method(method: &str) -> Self {
        Self::new(Fault::Client, Retry::Never, Kind::UnknownMethod, format!("method not found: {method}"))
    }

    pub fn invalid_params(reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Client, Retry::Never, Kind::InvalidParams, reason)
    }

    pub fn bad_envelope(reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Client, Retry::Never, Kind::BadEnvelope, reason)
    }

    pub fn header_mismatch(reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Client, Retry::Never, Kind::HeaderMismatch, reason)
    }

    pub fn missing_capability(required: Raw, reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Client, Retry::Never, Kind::MissingCapability(required), reason)
    }

    pub fn unsupported_version(requested: impl Into<String>) -> Self {
        let requested = requested.into();
        let message = format!("protocol version {requested:?} is not supported");
        Self::new(Fault::Client, Retry::Never, Kind::UnsupportedVersion { requested }, message)
    }

    /// The connection was lost after the request was sent: the call may have been carried out.
    pub fn lost(reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Upstream, Retry::IfIdempotent, Kind::Lost, reason)
    }

    /// The call never reached the upstream.
    pub fn unavailable(reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Upstream, Retry::Always, Kind::Unavailable, reason)
    }

    /// The call never reached the upstream, and whether the upstream is running is unknown.
    pub fn unreachable(reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Upstream, Retry::Always, Kind::Unreachable, reason)
    }

    /// The upstream refused the call.
    pub fn turned_away(retry: Retry, reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Upstream, retry, Kind::TurnedAway, reason)
    }

    pub fn sign_in(reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Upstream, Retry::Never, Kind::SignIn, reason)
    }

    pub fn timeout(reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Upstream, Retry::IfIdempotent, Kind::Timeout, reason)
    }

    /// The arguments do not fit the tool's schema, so the call was not sent.
    pub fn invalid_arguments(reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Client, Retry::Never, Kind::InvalidArguments, reason)
    }

    /// A hook blocked the call or its answer.
    pub fn blocked(reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Gateway, Retry::Never, Kind::Blocked, reason)
    }

    /// Too much is under way; the call was not started.
    pub fn limit(reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Gateway, Retry::Always, Kind::Limit, reason).retry_after(LIMIT_WAIT)
    }

    /// The upstream's answer exceeds a limit. The call was carried out, so trying again does not help.
    pub fn answer_too_large(reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Upstream, Retry::Never, Kind::Limit, reason)
    }

    pub fn cancelled() -> Self {
        Self::new(Fault::Client, Retry::Never, Kind::Cancelled, "the call was cancelled")
    }

    pub fn cancelled_by_operator() -> Self {
        Self::new(Fault::Gateway, Retry::Never, Kind::Cancelled, "an operator has cancelled the call")
    }

    pub fn bad_answer(reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Upstream, Retry::Never, Kind::BadAnswer, reason)
    }

    /// The rules of the gateway do not permit the call, or it was not approved.
    pub fn denied(reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Gateway, Retry::Never, Kind::Denied, reason)
    }

    pub fn cannot_ask(reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Client, Retry::Never, Kind::CannotAsk, reason)
    }

    pub fn internal(reason: impl Into<Reason>) -> Self {
        Self::new(Fault::Gateway, Retry::Never, Kind::Internal, reason)
    }
}

/// Methods that add to an error or change it.
impl CallError {
    /// Names the upstream it happened at.
    #[must_use]
    pub fn at(mut self, upstream: &Arc<str>) -> Self {
        self.upstream = Some(upstream.clone());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(self, cause: impl Into<String>) -> Self {
        let reason = self.reason.clone().because(cause);
        self.with_reason(reason)
    }

    /// Sets what to do about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        let reason = self.reason.clone().with_hint(hint);
        self.with_reason(reason)
    }

    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<Reason>) -> Self {
        (self.reason, self.result) = (reason.into(), None);
        self
    }

    #[must_use]
    pub fn with_origin(self, origin: Fault) -> Self {
        Self { origin, ..self }
    }

    #[must_use]
    pub fn with_retry(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    #[must_use]
    pub fn with_kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// Sets how long to wait before trying again.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// The same error as another failed tool result, of which the texts are the message from now on. What
    /// [`to_reviewable`](Self::to_reviewable) adds is taken over into a JSON-RPC error.
    #[must_use]
    pub fn with_result(mut self, result: Raw) -> Self {
        let message = texts(&result);
        if let Kind::Reported(error) = &self.kind {
            let error = error.with("message", &Raw::from_serialize(&message));
            self.kind = Kind::Reported(match result.at(&REPORTED_DATA) {
                Some(data) => error.with("data", &data),
                None => error.without(&["data"]),
            });
        }
        Self { reason: Reason::new(message), result: Some(Box::new(result)), ..self }
    }

    /// The same error in the codes of `form`.
    #[must_use]
    pub fn in_form(self, form: Revision) -> Self {
        Self { form, ..self }
    }
}

/// How an error is shown: to clients, in logs and in metrics.
impl CallError {
    /// The whole reason as one line.
    pub fn message(&self) -> String {
        self.reason.to_string()
    }

    pub fn code(&self) -> i32 {
        match &self.kind {
            Kind::Reported(error) => {
                error.member("code").and_then(|c| c.read().ok()).unwrap_or(code::INTERNAL)
            }
            Kind::UnknownMethod => code::METHOD_NOT_FOUND,
            Kind::InvalidParams | Kind::BadEnvelope => code::INVALID_PARAMS,
            Kind::HeaderMismatch => code::HEADER_MISMATCH,
            Kind::MissingCapability(_) => code::MISSING_CAPABILITY,
            Kind::UnsupportedVersion { .. } => code::UNSUPPORTED_VERSION,
            _ => code::INTERNAL,
        }
    }

    /// The HTTP status that carries this error to a client of `era`. Legacy clients read 404 as "session
    /// ended", so for them an error of a call always has status 200.
    pub fn http_status(&self, era: Era) -> u16 {
        if !era.speaks_by_status() {
            return 200;
        }
        match self.code() {
            code::METHOD_NOT_FOUND => 404,
            code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION => 400,
            _ if matches!(self.kind, Kind::BadEnvelope) => 400,
            _ => 200,
        }
    }

    /// A short word for logs, metrics and `_meta`.
    pub fn label(&self) -> &'static str {
        match self.kind {
            Kind::Reported(_) => "reported",
            Kind::UnknownMethod => "unknown-method",
            Kind::InvalidParams => "invalid-params",
            Kind::BadEnvelope => "bad-envelope",
            Kind::HeaderMismatch => "header-mismatch",
            Kind::MissingCapability(_) => "missing-capability",
            Kind::UnsupportedVersion { .. } => "unsupported-version",
            Kind::Lost => "lost",
            Kind::Unavailable | Kind::Unreachable => "unavailable",
            Kind::TurnedAway => "turned-away",
            Kind::SignIn => "sign-in-needed",
            Kind::Timeout => "timeout",
            Kind::InvalidArguments => "invalid-arguments",
            Kind::Blocked => "blocked",
            Kind::Limit => "limit",
            Kind::Cancelled => "cancelled",
            Kind::BadAnswer => "bad-answer",
            Kind::CannotAsk => "cannot-ask",
            Kind::Denied => "denied",
            Kind::Internal => "internal",
        }
    }

    /// `{origin, upstream, kind, retry, retryAfterMs, hint}`, as in `_meta["dev.toolyard/error"]` and in `data`.
    pub fn details(&self) -> Raw {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Details<'a> {
            origin: Fault,
            #[serde(skip_serializing_if = "Option::is_none")]
            upstream: Option<&'a str>,
            kind: &'static str,
            retry: Retry,
            #[serde(skip_serializing_if = "Option::is_none")]
            retry_after_ms: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            hint: Option<&'a str>,
        }
        Raw::from_serialize(&Details {
            origin: self.origin,
            upstream: self.upstream.as_deref(),
            kind: self.label(),
            retry: self.retry,
            retry_after_ms: self.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            hint: self.reason.hint(),
        })
    }

    /// The error object of a JSON-RPC answer.
    pub fn to_raw(&self) -> Raw {
        let data = match &self.kind {
            Kind::Reported(error) => return error.clone(),
            Kind::MissingCapability(required) => {
                Some(Raw::empty_object().with("requiredCapabilities", required))
            }
            Kind::UnsupportedVersion { requested } => Some(unsupported_data(requested)),
            _ if self.code() == code::INTERNAL => Some(self.details()),
            _ => None,
        };
        RpcError { code: self.code(), message: self.message(), data }.to_raw()
    }

    /// The same error as the result of a tool call that failed.
    pub fn to_tool_result(&self) -> Raw {
        if let Some(result) = &self.result {
            return (**result).clone();
        }
        serde_json::json!({
            "content": [{ "type": "text", "text": self.message() }],
            "isError": true,
            "_meta": { "dev.toolyard/error": self.details() },
        })
        .into()
    }

    /// The same with everything that a client may receive of the error: also the data of a JSON-RPC error.
    pub fn to_reviewable(&self) -> Raw {
        let result = self.to_tool_result();
        match &self.kind {
            Kind::Reported(error) => match error.member("data") {
                Some(data) => result.with_path(&REPORTED_DATA, &data),
                None => result,
            },
            _ => result,
        }
    }
}

/// Where the data of a JSON-RPC error is in a tool result.
const REPORTED_DATA: [&str; 3] = ["_meta", "dev.toolyard/error", "data"];

/// The texts of a tool result.
fn texts(result: &Raw) -> String {
    let content = result.member("content").and_then(|content| content.read::<Vec<Raw>>().ok());
    let texts = content.iter().flatten().filter_map(|block| block.member("text")?.as_string());
    texts.collect::<Vec<_>>().join("\n")
}

fn unsupported_data(requested: &str) -> Raw {
    let supported: Vec<&str> = crate::Revision::ALL.iter().rev().map(|revision| revision.as_str()).collect();
    serde_json::json!({ "supported": supported, "requested": requested }).into()
}
