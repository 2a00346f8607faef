//! Detects the era of an upstream: which request is sent first, and what its answer means. This module does no IO;
//! `connect` does.

pub mod connect;

use std::sync::Arc;

use toolyard_proto::error::code;
use toolyard_proto::modern::{RequestMeta, stamp_request};
use toolyard_proto::{CallError, Kind, Method, Raw, Reason, Revision};

use toolyard_model::{Greeting, Origin};

/// Whether the era is probed or fixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EraPin {
    #[default]
    Auto,
    Legacy,
    Modern,
}

/// How the gateway introduces itself to an upstream.
#[derive(Clone, Debug)]
pub struct Offer {
    pub capabilities: Raw,
    pub client_info: Raw,
}

impl Offer {
    pub(crate) fn discover_params(&self) -> Raw {
        let meta = RequestMeta {
            revision: Revision::NEWEST,
            capabilities: self.capabilities.clone(),
            client_info: Some(self.client_info.clone()),
            log_level: None,
        };
        stamp_request(None, &meta)
    }

    pub(crate) fn initialize_params(&self, offered: Revision) -> Raw {
        Raw::empty_object()
            .with("protocolVersion", &Raw::from_serialize(&offered.as_str()))
            .with("capabilities", &self.capabilities)
            .with("clientInfo", &self.client_info)
    }

    pub(crate) fn origin(&self) -> Arc<Origin> {
        Origin::gateway(self.capabilities.clone(), self.client_info.clone())
    }
}

/// The result of `server/discover`.
#[derive(Debug)]
pub(crate) enum Discovered {
    Modern(Greeting),
    /// Not modern, with the reason to think so; `initialize` with this revision comes next.
    Legacy {
        offer: Revision,
        why: Reason,
    },
    /// It knows the protocol, but no revision that the gateway knows.
    Incompatible(Reason),
}

/// Reads the answer of upstream `name` to `server/discover`. Only a well-formed result or the protocol's own
/// version error count as modern; everything else that a server may answer to an unknown method means legacy.
pub(crate) fn judge(name: &str, outcome: Result<Raw, CallError>) -> Discovered {
    match outcome {
        Ok(result) => match (versions(result.member("supportedVersions")), result.member("capabilities")) {
            (Some(versions), _) => choose(name, &versions, Some(result)),
            (None, Some(_)) if result.member("resultType").is_some() => {
                Discovered::Modern(Greeting::read(Revision::NEWEST, result))
            }
            _ => {
                let what = "answered `server/discover` with an invalid description";
                legacy(Reason::of_upstream(name, what))
            }
        },
        Err(error) if error.code() == code::UNSUPPORTED_VERSION => {
            let supported = match &error.kind {
                Kind::Reported(object) => versions(object.at(&["data", "supported"])),
                _ => None,
            };
            choose(name, &supported.unwrap_or_default(), None)
        }
        Err(error) if matches!(error.code(), code::HEADER_MISMATCH | code::MISSING_CAPABILITY) => {
            Discovered::Incompatible(rejected(name, &Method::DISCOVER, error))
        }
        Err(error) => legacy(rejected(name, &Method::DISCOVER, error)),
    }
}

fn legacy(why: Reason) -> Discovered {
    Discovered::Legacy { offer: Revision::NEWEST_LEGACY, why }
}

/// Why a request of the handshake failed. A predicate is complete; the message of a reported error needs a frame.
pub(crate) fn rejected(name: &str, method: &Method, error: CallError) -> Reason {
    if error.reason.is_predicate() {
        return error.reason;
    }
    Reason::of_upstream(name, format!("rejected `{method}`")).caused_by(&error.reason)
}

fn versions(list: Option<Raw>) -> Option<Vec<String>> {
    list?.read().ok()
}

fn choose(name: &str, versions: &[String], result: Option<Raw>) -> Discovered {
    let newest = versions.iter().filter_map(|version| Revision::parse(version)).max();
    match (newest, result) {
        (Some(newest), Some(result)) if newest.is_modern() => {
            Discovered::Modern(Greeting::read(newest, result))
        }
        (Some(offer), _) if !offer.is_modern() => {
            let what = format!("supports {} only", versions.join(", "));
            Discovered::Legacy { offer, why: Reason::of_upstream(name, what) }
        }
        _ => Discovered::Incompatible(unknown_version(name, &versions.join(", "))),
    }
}

/// Reads the answer of upstream `name` to `initialize`.
pub(crate) fn legacy_greeting(name: &str, result: Raw) -> Result<Greeting, Reason> {
    let version = result.member("protocolVersion").and_then(|version| version.as_string());
    let revision = Revision::parse(version.as_deref().unwrap_or_default());
    match revision.filter(|revision| !revision.is_modern()) {
        Some(revision) => Ok(Greeting::read(revision, result)),
        None => Err(unknown_version(name, version.as_deref().unwrap_or_default())),
    }
}

fn unknown_version(name: &str, theirs: &str) -> Reason {
    let (oldest, newest) = (Revision::ALL[0], Revision::NEWEST);
    let what = if theirs.is_empty() {
        format!("names no protocol version; Toolyard supports {oldest} to {newest}")
    } else {
        format!("speaks MCP {theirs:?}; Toolyard supports {oldest} to {newest}")
    };
    Reason::of_upstream(name, what).with_hint("update the server")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(outcome: Result<&str, &str>, expected: &str) {
        let raw = |text: &str| Raw::parse(text.to_owned()).unwrap();
        let got = match judge("far", outcome.map(raw).map_err(|error| CallError::reported(raw(error)))) {
            Discovered::Modern(greeting) => format!("modern {:?}", greeting.capabilities),
            Discovered::Legacy { offer, .. } => format!("legacy {offer}"),
            Discovered::Incompatible(why) => why.to_string(),
        };
        assert_eq!(got, expected, "{outcome:?}");
    }

    #[test]
    fn only_answers_specific_to_an_era_decide() {
        check(
            Ok(r#"{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}}}"#),
            "modern {\"tools\":{}}",
        );
        check(Ok(r#"{"supportedVersions":["2025-06-18"],"capabilities":{}}"#), "legacy 2025-06-18");
        check(Ok("{}"), "legacy 2025-11-25");
        check(Err(r#"{"code":-32601,"message":"?"}"#), "legacy 2025-11-25");
        check(Err(r#"{"code":-32602,"message":"?"}"#), "legacy 2025-11-25");
        check(
            Err(r#"{"code":-32022,"message":"?","data":{"supported":["2025-11-25"]}}"#),
            "legacy 2025-11-25",
        );
        check(
            Err(r#"{"code":-32022,"message":"?","data":{"supported":["2031-01-01"]}}"#),
            "upstream `far` speaks MCP \"2031-01-01\"; Toolyard supports 2024-11-05 to 2026-07-28; update the server",
        );
    }

    #[test]
    fn a_handshake_with_an_unknown_version_is_refused() {
        let greet = |text: &str| legacy_greeting("far", Raw::parse(text.to_owned()).unwrap());
        assert_eq!(
            greet(r#"{"protocolVersion":"2024-11-05","capabilities":{}}"#).unwrap().revision,
            Revision::V2024_11_05
        );
        assert!(greet(r#"{"protocolVersion":"1999-01-01"}"#).unwrap_err().to_string().contains("1999-01-01"));
        assert!(greet("{}").is_err());
    }
}
