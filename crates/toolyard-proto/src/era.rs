//! The revisions of the protocol, the two eras, and which era an incoming request belongs to.

use std::fmt;

use crate::Method;
use crate::modern::Claim;

/// A dated MCP version, in order of age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

/// Legacy clients make a handshake and keep a session; modern requests are self-contained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    Legacy,
    Modern,
}

impl Era {
    /// Whether the HTTP status of an answer is part of its meaning for clients.
    pub fn speaks_by_status(self) -> bool {
        self == Self::Modern
    }
}

impl Revision {
    pub const ALL: [Revision; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];
    pub const NEWEST: Revision = Self::V2026_07_28;
    pub const NEWEST_LEGACY: Revision = Self::V2025_11_25;

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == text)
    }

    pub const fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Modern,
            _ => Era::Legacy,
        }
    }

    pub const fn is_modern(self) -> bool {
        matches!(self.era(), Era::Modern)
    }

    /// Whether results carry `resultType`, cache hints and the name of the server.
    pub const fn has_result_stamps(self) -> bool {
        self.is_modern()
    }

    /// Whether a log level is set once for a session rather than with each request.
    pub const fn keeps_level(self) -> bool {
        !self.is_modern()
    }

    /// The revision to answer to an `initialize` that asks for `text`.
    pub fn negotiate(text: &str) -> Self {
        Self::parse(text).filter(|revision| !revision.is_modern()).unwrap_or(Self::NEWEST_LEGACY)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which era a request belongs to. The body decides: a claim in `_meta` is modern even if it turns out to be
/// malformed, `initialize` is legacy. The version header (HTTP only) decides if the body does not.
pub fn classify<'a>(method: &Method, claim: &Claim, version_header: impl FnOnce() -> Option<&'a str>) -> Era {
    let is_modern = |text: &str| Revision::parse(text).is_some_and(Revision::is_modern);
    match claim {
        Claim::Version(version) if *method == Method::INITIALIZE => {
            if version.as_string().is_some_and(|text| is_modern(&text)) { Era::Modern } else { Era::Legacy }
        }
        Claim::Version(_) => Era::Modern,
        Claim::None if *method == Method::INITIALIZE => Era::Legacy,
        // Only modern clients send these methods: without a claim, the envelope is missing or invalid.
        Claim::None if *method == Method::DISCOVER || *method == Method::LISTEN => Era::Modern,
        Claim::None if version_header().is_some_and(is_modern) => Era::Modern,
        Claim::None => Era::Legacy,
    }
}

/// Methods that the modern revision removed: unknown to a modern client, whichever upstream is behind the view.
pub fn is_removed(method: &Method) -> bool {
    [
        Method::INITIALIZE,
        Method::PING,
        Method::SET_LEVEL,
        Method::RESOURCES_SUBSCRIBE,
        Method::RESOURCES_UNSUBSCRIBE,
        Method::TASKS_RESULT,
        Method::TASKS_LIST,
    ]
    .contains(method)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Raw;

    fn check(method: &str, claim: Option<&str>, header: Option<&str>, expected: Era) {
        let version = |text: &str| Claim::Version(Raw::parse(text.to_owned()).unwrap());
        let got = classify(&Method::new(method), &claim.map_or(Claim::None, version), || header);
        assert_eq!(got, expected, "{method} {claim:?} {header:?}");
    }

    #[test]
    fn the_body_decides_the_era_and_the_header_only_if_it_does_not() {
        use Era::{Legacy, Modern};
        for (method, claim, header, expected) in [
            ("tools/list", Some(r#""2026-07-28""#), Some("2026-07-28"), Modern),
            ("tools/list", Some(r#""2026-07-28""#), None, Modern),
            ("tools/list", Some(r#""2026-07-28""#), Some("2025-11-25"), Modern),
            ("tools/list", Some(r#""v999.0.0""#), Some("v999.0.0"), Modern),
            ("tools/list", Some(r#""2025-11-25""#), None, Modern),
            ("tools/list", Some("7"), None, Modern),
            ("tools/list", None, Some("2026-07-28"), Modern),
            ("tools/list", None, Some("2025-11-25"), Legacy),
            ("tools/list", None, Some("v999.0.0"), Legacy),
            ("tools/list", None, None, Legacy),
            ("initialize", None, None, Legacy),
            ("initialize", None, Some("2026-07-28"), Legacy),
            ("initialize", Some(r#""2026-07-28""#), None, Modern),
            ("initialize", Some("7"), None, Legacy),
            ("server/discover", None, None, Modern),
            ("server/discover", None, Some("2025-11-25"), Modern),
            ("subscriptions/listen", None, None, Modern),
        ] {
            check(method, claim, header, expected);
        }
    }
}
