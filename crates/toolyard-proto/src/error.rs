//! What went wrong on the way of a call, with all that the next decision needs: whose fault, whether to
//! retry, and how to say it in the protocol's own form.

use std::sync::Arc;

use serde::Serialize;

use crate::Raw;
use crate::era::{Era, Revision};

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

/// An error object of ours.
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

/// Who has to change something for the call to succeed.
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
    /// It may have been carried out: only where doing it twice does no harm.
    IfIdempotent,
    /// It was certainly not carried out.
    Always,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// The upstream answered with this error object; it is passed on as it was said.
    Reported(Raw),
    UnknownMethod,
    /// Unknown tool or prompt, bad cursor, malformed parameters: the message says which.
    InvalidParams,
    /// The request's own envelope is malformed (missing or wrong `_meta`).
    BadEnvelope,
    HeaderMismatch,
    MissingCapability(Raw),
    UnsupportedVersion {
        requested: String,
    },
    /// The connection to the upstream was lost while the call was under way.
    Lost,
    /// The upstream cannot be reached now.
    Unavailable,
    /// There is no way to the upstream now (no network, no name, no answer to our knocking); whether it is there
    /// is not known.
    Unreachable,
    /// The upstream is there, but does not take the call: too busy, or not from us.
    TurnedAway,
    Timeout,
    /// Too much is under way, or something is too large.
    Limit,
    Cancelled,
    /// The upstream's answer broke the protocol.
    BadAnswer,
    /// The client's era or capabilities do not allow what the upstream asked for.
    CannotAsk,
    Internal,
}

/// The one error type on the path of a call.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    pub origin: Fault,
    pub retry: Retry,
    pub kind: Kind,
    /// What happened, to what, and what to do next.
    pub message: String,
    pub upstream: Option<Arc<str>>,
    /// The revision whose error codes these are.
    pub form: Revision,
}

impl CallError {
    fn new(origin: Fault, retry: Retry, kind: Kind, message: impl Into<String>) -> Self {
        Self { origin, retry, kind, message: message.into(), upstream: None, form: Revision::NEWEST }
    }

    pub fn reported(error: Raw) -> Self {
        let message = error.member("message").and_then(|m| m.as_string()).unwrap_or_default();
        Self::new(Fault::Upstream, Retry::Never, Kind::Reported(error), message)
    }

    /// The same, said in the codes of an older revision.
    #[must_use]
    pub fn in_form(self, form: Revision) -> Self {
        Self { form, ..self }
    }

    pub fn unknown_method(method: &str) -> Self {
        Self::new(Fault::Client, Retry::Never, Kind::UnknownMethod, format!("method not found: {method}"))
    }

    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(Fault::Client, Retry::Never, Kind::InvalidParams, message)
    }

    pub fn bad_envelope(message: impl Into<String>) -> Self {
        Self::new(Fault::Client, Retry::Never, Kind::BadEnvelope, message)
    }

    pub fn header_mismatch(message: impl Into<String>) -> Self {
        Self::new(Fault::Client, Retry::Never, Kind::HeaderMismatch, message)
    }

    pub fn missing_capability(required: Raw, message: impl Into<String>) -> Self {
        Self::new(Fault::Client, Retry::Never, Kind::MissingCapability(required), message)
    }

    pub fn unsupported_version(requested: impl Into<String>) -> Self {
        let requested = requested.into();
        let message = format!("protocol version {requested:?} is not supported");
        Self::new(Fault::Client, Retry::Never, Kind::UnsupportedVersion { requested }, message)
    }

    pub fn lost(message: impl Into<String>) -> Self {
        Self::new(Fault::Upstream, Retry::IfIdempotent, Kind::Lost, message)
    }

    /// The call never reached the upstream.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Fault::Upstream, Retry::Always, Kind::Unavailable, message)
    }

    /// The same, where nobody can say whether the upstream is there.
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self::new(Fault::Upstream, Retry::Always, Kind::Unreachable, message)
    }

    /// The upstream answered, but not with an answer to the call.
    pub fn turned_away(retry: Retry, message: impl Into<String>) -> Self {
        Self::new(Fault::Upstream, retry, Kind::TurnedAway, message)
    }

    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(Fault::Upstream, Retry::IfIdempotent, Kind::Timeout, message)
    }

    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(Fault::Gateway, Retry::Always, Kind::Limit, message)
    }

    pub fn cancelled() -> Self {
        Self::new(Fault::Client, Retry::Never, Kind::Cancelled, "the call was cancelled")
    }

    pub fn bad_answer(message: impl Into<String>) -> Self {
        Self::new(Fault::Upstream, Retry::Never, Kind::BadAnswer, message)
    }

    pub fn cannot_ask(message: impl Into<String>) -> Self {
        Self::new(Fault::Client, Retry::Never, Kind::CannotAsk, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Fault::Gateway, Retry::Never, Kind::Internal, message)
    }

    /// Names the upstream it happened at.
    #[must_use]
    pub fn at(mut self, upstream: &Arc<str>) -> Self {
        self.upstream = Some(upstream.clone());
        self
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

    /// The HTTP status that carries this error to a client of `era`. Older clients read 404 as "session
    /// gone", so for them errors of a call always travel in 200.
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
            Kind::Timeout => "timeout",
            Kind::Limit => "limit",
            Kind::Cancelled => "cancelled",
            Kind::BadAnswer => "bad-answer",
            Kind::CannotAsk => "cannot-ask",
            Kind::Internal => "internal",
        }
    }

    /// `{origin, upstream, kind, retry}`, as it stands in `_meta["dev.toolyard/error"]` and in `data`.
    pub fn details(&self) -> Raw {
        #[derive(Serialize)]
        struct Details<'a> {
            origin: Fault,
            #[serde(skip_serializing_if = "Option::is_none")]
            upstream: Option<&'a str>,
            kind: &'static str,
            retry: Retry,
        }
        let upstream = self.upstream.as_deref();
        Raw::from_serialize(&Details { origin: self.origin, upstream, kind: self.label(), retry: self.retry })
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
        RpcError { code: self.code(), message: self.message.clone(), data }.to_raw()
    }

    /// The same as the result of a tool that was reached but could not be carried out.
    pub fn to_tool_result(&self) -> Raw {
        serde_json::json!({
            "content": [{ "type": "text", "text": self.message }],
            "isError": true,
            "_meta": { "dev.toolyard/error": self.details() },
        })
        .into()
    }
}

fn unsupported_data(requested: &str) -> Raw {
    let supported: Vec<&str> = crate::Revision::ALL.iter().rev().map(|revision| revision.as_str()).collect();
    serde_json::json!({ "supported": supported, "requested": requested }).into()
}
