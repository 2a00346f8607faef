//! Which era an upstream speaks: what to ask it first, and what its answer tells. Nothing here waits or
//! sends; `connect` does.

pub mod connect;

use std::sync::Arc;

use toolyard_proto::error::code;
use toolyard_proto::modern::{RequestMeta, stamp_request};
use toolyard_proto::{CallError, Kind, Raw, Revision};

use toolyard_model::{Greeting, Origin};

/// Whether the era is found out or given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EraPin {
    #[default]
    Auto,
    Legacy,
    Modern,
}

/// What we say of ourselves when we meet an upstream.
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

/// What the answer to `server/discover` tells.
#[derive(Debug)]
pub(crate) enum Discovered {
    Modern(Greeting),
    /// Not modern, and why we think so; `initialize` with this revision comes next.
    Legacy {
        offer: Revision,
        why: String,
    },
    /// It knows the protocol, but no revision that we know.
    Incompatible(String),
}

/// Reads the answer to `server/discover`. Only a well-formed result or the protocol's own version error
/// count as modern; whatever else an older server may say to a method it does not know means legacy.
pub(crate) fn judge(outcome: Result<Raw, CallError>) -> Discovered {
    match outcome {
        Ok(result) => match (versions(result.member("supportedVersions")), result.member("capabilities")) {
            (Some(versions), _) => choose(&versions, Some(result)),
            (None, Some(_)) if result.member("resultType").is_some() => {
                Discovered::Modern(Greeting::read(Revision::NEWEST, result))
            }
            _ => legacy("server/discover was answered with something else than a description"),
        },
        Err(error) if error.code() == code::UNSUPPORTED_VERSION => {
            let supported = match &error.kind {
                Kind::Reported(object) => versions(object.at(&["data", "supported"])),
                _ => None,
            };
            choose(&supported.unwrap_or_default(), None)
        }
        Err(error) if matches!(error.code(), code::HEADER_MISMATCH | code::MISSING_CAPABILITY) => {
            Discovered::Incompatible(format!("it refused server/discover: {error}"))
        }
        Err(error) => legacy(&format!("server/discover: {error}")),
    }
}

fn legacy(why: &str) -> Discovered {
    Discovered::Legacy { offer: Revision::NEWEST_LEGACY, why: why.to_owned() }
}

fn versions(list: Option<Raw>) -> Option<Vec<String>> {
    list?.read().ok()
}

fn choose(versions: &[String], result: Option<Raw>) -> Discovered {
    let newest = versions.iter().filter_map(|version| Revision::parse(version)).max();
    match (newest, result) {
        (Some(newest), Some(result)) if newest.is_modern() => {
            Discovered::Modern(Greeting::read(newest, result))
        }
        (Some(offer), _) if !offer.is_modern() => {
            Discovered::Legacy { offer, why: format!("server/discover: it speaks {}", versions.join(", ")) }
        }
        _ => Discovered::Incompatible(format!(
            "it speaks {}, and we speak {} and older",
            if versions.is_empty() { "no version that it names".to_owned() } else { versions.join(", ") },
            Revision::NEWEST
        )),
    }
}

/// Reads the answer to `initialize`.
pub(crate) fn legacy_greeting(result: Raw) -> Result<Greeting, String> {
    let version = result.member("protocolVersion").and_then(|version| version.as_string());
    let version = version.ok_or("its answer to initialize names no protocol version")?;
    let revision = Revision::parse(&version).filter(|revision| !revision.is_modern()).ok_or_else(|| {
        format!("it answered initialize with protocol version {version:?}, which we do not know")
    })?;
    Ok(Greeting::read(revision, result))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(outcome: Result<&str, &str>, expected: &str) {
        let raw = |text: &str| Raw::parse(text.to_owned()).unwrap();
        let got = match judge(outcome.map(raw).map_err(|error| CallError::reported(raw(error)))) {
            Discovered::Modern(greeting) => format!("modern {:?}", greeting.capabilities),
            Discovered::Legacy { offer, .. } => format!("legacy {offer}"),
            Discovered::Incompatible(why) => why,
        };
        assert_eq!(got, expected, "{outcome:?}");
    }

    #[test]
    fn an_era_is_judged_by_what_only_that_era_says() {
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
            "it speaks 2031-01-01, and we speak 2026-07-28 and older",
        );
    }

    #[test]
    fn a_handshake_with_an_unknown_version_is_refused() {
        let greet = |text: &str| legacy_greeting(Raw::parse(text.to_owned()).unwrap());
        assert_eq!(
            greet(r#"{"protocolVersion":"2024-11-05","capabilities":{}}"#).unwrap().revision,
            Revision::V2024_11_05
        );
        assert!(greet(r#"{"protocolVersion":"1999-01-01"}"#).unwrap_err().contains("1999-01-01"));
        assert!(greet("{}").is_err());
    }
}
