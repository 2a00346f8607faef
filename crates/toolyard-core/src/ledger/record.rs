//! One call that has ended, and its line in the log.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use toolyard_model::ClientKey;
use toolyard_proto::{CallError, Kind, Method, Raw};

use super::glance;
use crate::plan::UpstreamKind;
use crate::report::at;

/// One call, from the moment it was parsed until its answer had ended.
#[derive(Clone, Debug)]
pub struct Record {
    pub at: SystemTime,
    pub duration: Duration,
    /// `None` where the request was refused before its upstream was known.
    pub upstream: Option<Arc<str>>,
    pub kind: Option<UpstreamKind>,
    /// The canonical name of the tool or prompt, or what the client asked for where that is unknown; `None` for
    /// methods that name nothing.
    pub name: Option<Arc<str>>,
    pub method: Method,
    pub principal: Arc<str>,
    pub client: ClientKey,
    pub status: Status,
    /// How often it was sent.
    pub attempts: u32,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    /// Relayed to its end; its content was not read.
    Answered,
    /// The tool reported a failure.
    ToolError,
    /// The upstream answered with this code.
    ProtocolError(i32),
    Timeout,
    Cancelled,
    /// The gateway refused it; the word is the reason.
    Refused(&'static str),
    /// It could not be carried out; the word is the reason.
    Failed(&'static str),
}

impl Status {
    /// The status of a call that was answered with a result.
    pub(crate) fn of_result(method: &Method, result: &Raw) -> Self {
        let may_fail = *method == Method::TOOLS_CALL && glance::may_have_failed(result.as_bytes());
        let failed = may_fail && result.member("isError").is_some_and(|flag| flag.as_str() == "true");
        if failed { Self::ToolError } else { Self::Ok }
    }

    pub(crate) fn of_error(error: &CallError) -> Self {
        match error.kind {
            Kind::Reported(_) => Self::ProtocolError(error.code()),
            Kind::Timeout => Self::Timeout,
            Kind::Cancelled => Self::Cancelled,
            Kind::UnknownMethod
            | Kind::InvalidParams
            | Kind::BadEnvelope
            | Kind::HeaderMismatch
            | Kind::MissingCapability(_)
            | Kind::UnsupportedVersion { .. }
            | Kind::CannotAsk
            | Kind::Denied
            | Kind::InvalidArguments
            | Kind::Blocked
            | Kind::Limit => Self::Refused(error.label()),
            Kind::Lost
            | Kind::Unavailable
            | Kind::Unreachable
            | Kind::TurnedAway
            | Kind::SignIn
            | Kind::BadAnswer
            | Kind::Internal => Self::Failed(error.label()),
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Answered => "answered",
            Self::ToolError => "tool-error",
            Self::ProtocolError(_) => "protocol-error",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
        }
    }

    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Ok | Self::Answered | Self::Cancelled)
    }

    /// The upstream's code, where it answered with an error.
    pub fn code(self) -> Option<i32> {
        if let Self::ProtocolError(code) = self { Some(code) } else { None }
    }

    /// Why it was refused or failed, as one word.
    pub fn why(self) -> Option<&'static str> {
        if let Self::Refused(why) | Self::Failed(why) = self { Some(why) } else { None }
    }
}

impl Record {
    /// Whether calls are logged.
    pub(crate) fn is_logged() -> bool {
        tracing::enabled!(target: "calls", tracing::Level::DEBUG)
    }

    /// One line for one call. Not `info`: at that level, people should not have to read every call.
    pub(super) fn log(&self) {
        if !Self::is_logged() {
            return;
        }
        tracing::debug!(
            target: "calls",
            upstream = self.upstream.as_deref(),
            kind = self.kind.map(UpstreamKind::as_str),
            method = self.method.as_str(),
            tool = self.name.as_deref(),
            duration_ms = self.milliseconds(),
            status = self.status.as_str(),
            code = self.status.code(),
            error = self.status.why(),
            principal = &*self.principal,
            session = label(&self.client),
            "call"
        );
    }

    /// How long it took, to the thousandth.
    pub fn milliseconds(&self) -> f64 {
        (self.duration.as_secs_f64() * 1_000_000.0).round() / 1_000.0
    }

    pub fn to_json(&self) -> Value {
        json!({
            "at": at(self.at),
            "upstream": self.upstream,
            "tool": self.name.as_deref(),
            "method": self.method.as_str(),
            "durationMs": self.milliseconds(),
            "status": self.status.as_str(),
            "code": self.status.code(),
            "error": self.status.why(),
            "principal": self.principal,
            "session": self.client_label(),
            "attempts": self.attempts,
        })
    }

    /// The client, in a form that gives no access.
    pub fn client_label(&self) -> String {
        label(&self.client)
    }
}

/// The id of a session opens it, so only its digest is shown.
pub(crate) fn label(client: &ClientKey) -> String {
    match client {
        ClientKey::Session(id) => {
            format!("session-{}", &HEXLOWER.encode(&Sha256::digest(id.as_bytes()))[..8])
        }
        ClientKey::Connection(number) => format!("connection-{number}"),
        ClientKey::Principal(_) => "http".to_owned(),
        ClientKey::Request(_) => "request".to_owned(),
        ClientKey::Gateway => "gateway".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_results_own_flag_makes_it_a_failure() {
        let check = |result: &str, expected: Status| {
            let result = Raw::parse(result.to_owned()).unwrap();
            assert_eq!(Status::of_result(&Method::TOOLS_CALL, &result), expected, "{result:?}");
            assert_eq!(Status::of_result(&Method::RESOURCES_READ, &result), Status::Ok);
        };
        check(r#"{"content":[],"isError":true}"#, Status::ToolError);
        check(r#"{"content":[],"isError": false}"#, Status::Ok);
        check(r#"{"content":[{"text":"\"isError\":true"}]}"#, Status::Ok);
        check(r#"{"structuredContent":{"isError":true}}"#, Status::Ok);
    }

    #[test]
    fn the_id_of_a_session_is_not_shown() {
        let label = label(&ClientKey::Session("secret-session".into()));
        assert!(label.starts_with("session-") && label.len() == 16 && !label.contains("secret"), "{label}");
    }
}
