//! The revisions of the protocol, the two eras, and which era an incoming request belongs to.

use std::fmt;

/// A dated MCP version, in order of age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
}

/// Legacy clients shake hands and keep a session; modern requests stand alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    Legacy,
    Modern,
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

    /// Whether results carry `resultType`, cache hints and who answered.
    pub const fn has_result_stamps(self) -> bool {
        self.is_modern()
    }

    /// What we answer to an `initialize` that asks for `text`.
    pub fn negotiate(text: &str) -> Self {
        Self::parse(text).filter(|revision| !revision.is_modern()).unwrap_or(Self::NEWEST_LEGACY)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
