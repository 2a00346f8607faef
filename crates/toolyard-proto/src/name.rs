//! How upstreams and their tools are named: the id of an upstream, the canonical `upstream:tool` that policy and
//! audit use, and the form that clients see.
//!
//! A shown name is a function of one pair alone, so it never changes when other upstreams come and go. Nothing
//! here takes a shown name apart: it is resolved by looking it up in the catalog that listed it.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::sync::Arc;

use data_encoding::BASE32_NOPAD;
use sha2::{Digest, Sha256};

/// Models accept 64 characters, and clients put a prefix of their own in front.
pub const DEFAULT_BUDGET: usize = 48;

/// The least budget that leaves a readable stem in front of a hash; [`shown`] treats anything below as this.
pub const MIN_BUDGET: usize = 16;

/// The id of the built-in upstream.
const YARD: &str = "yard";
/// The path segment of the lean view. Configs from before it was reserved may have an upstream of this id.
pub const LEAN: &str = "lean";
/// `p`, `hub` and `lean` are path segments of the HTTP endpoint, beside the upstream ids.
const RESERVED: [&str; 4] = ["p", "hub", LEAN, YARD];
const MAX_ID_LEN: usize = 64;
const HASH_LEN: usize = 8;
/// The length of a name that clients accept.
const MAX_TOOL_LEN: usize = 128;

/// The id of an upstream: a letter, then letters, digits, `_` and `-`.
///
/// Equality is exact; two ids whose [`fold`](Self::fold) is equal must not stand in one catalog.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamId(Arc<str>);

/// Why a text cannot be the id of an upstream. [`hint`](Self::hint) states what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("an upstream id cannot be empty")]
    Empty,
    #[error("upstream id `{id}` starts with `{first}`")]
    Start { id: String, first: char },
    #[error("upstream id `{id}` contains {bad:?}")]
    Character { id: String, bad: char },
    #[error("upstream id of {len} characters is too long")]
    TooLong { len: usize },
    #[error("upstream id `{id}` is reserved by Toolyard")]
    Reserved { id: String },
}

impl NameError {
    /// The advice for the user: what to write instead.
    pub fn hint(&self) -> String {
        match self {
            Self::Empty => "choose a short word such as `files`".to_owned(),
            Self::Start { id, .. } => format!("start it with a letter, e.g. `s-{id}`"),
            Self::Character { .. } => "use only letters, digits, `_` and `-`".to_owned(),
            Self::TooLong { .. } => format!("use at most {MAX_ID_LEN}"),
            Self::Reserved { id } => format!("choose another, e.g. `{id}-2`"),
        }
    }
}

/// How one listener shows the names of tools and prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameStyle {
    /// `upstream__tool`, or a stem and a hash where that would not do.
    Shown { budget: usize },
    /// The canonical `upstream:tool`, for clients that accept any character.
    Colon,
}

impl UpstreamId {
    pub fn parse(id: &str) -> Result<Self, NameError> {
        check_shape(id)?;
        if is_reserved(id) {
            return Err(NameError::Reserved { id: id.to_owned() });
        }
        Ok(Self(id.into()))
    }

    /// The id of a configured server, which may be `lean`: that id was free once.
    pub fn parse_configured(id: &str) -> Result<Self, NameError> {
        if id == LEAN { Ok(Self(id.into())) } else { Self::parse(id) }
    }

    /// The built-in upstream, whose id no other can take.
    pub fn yard() -> Self {
        Self(YARD.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key under which ids must be unique: ids that differ only in case are the same to a user.
    pub fn fold(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

/// Makes an id of a name that someone else chose, for instance in an `mcpServers` file.
///
/// `taken` is asked with the [folded](UpstreamId::fold) form and must say no at some point.
pub fn sanitize_upstream_id(name: &str, taken: impl Fn(&str) -> bool) -> UpstreamId {
    let base = legal_base(name);
    let free = |id: &str| !is_reserved(id) && !taken(&id.to_ascii_lowercase());
    let mut id = numbered(&base, "");
    let mut number = 2_u64;
    while !free(&id) {
        id = numbered(&base, &format!("-{number}"));
        number += 1;
    }
    UpstreamId(id.into())
}

/// The name that policy, config, audit and metrics use. Unambiguous, because an id holds no colon.
pub fn canonical(upstream: &UpstreamId, tool: &str) -> String {
    format!("{upstream}:{tool}")
}

/// The name that a client sees: always within `^[A-Za-z0-9_-]{1,budget}$`.
///
/// The plain `upstream__tool` always contains `__` and can be read in one way only; the hashed form never does,
/// so the two cannot meet. What is left are two hashed names with one hash, which the catalog must report.
pub fn shown(upstream: &UpstreamId, tool: &str, budget: usize) -> String {
    let budget = budget.max(MIN_BUDGET);
    if is_plain(upstream.as_str(), tool, budget) {
        format!("{upstream}__{tool}")
    } else {
        hashed(upstream, tool, budget)
    }
}

impl NameStyle {
    /// The name of a tool or prompt in this style.
    pub fn name(self, upstream: &UpstreamId, tool: &str) -> String {
        match self {
            Self::Shown { budget } => shown(upstream, tool, budget),
            Self::Colon => canonical(upstream, tool),
        }
    }
}

impl Default for NameStyle {
    fn default() -> Self {
        Self::Shown { budget: DEFAULT_BUDGET }
    }
}

impl fmt::Display for UpstreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for UpstreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl AsRef<str> for UpstreamId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Lets a map keyed by id be asked with the text of a request.
impl Borrow<str> for UpstreamId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Whether a text has the form of an id; a reserved one has it too.
pub(crate) fn has_id_shape(id: &str) -> bool {
    check_shape(id).is_ok()
}

fn check_shape(id: &str) -> Result<(), NameError> {
    let Some(first) = id.chars().next() else { return Err(NameError::Empty) };
    if let Some(bad) = id.chars().find(|c| !is_legal(*c)) {
        return Err(NameError::Character { id: id.to_owned(), bad });
    }
    if !first.is_ascii_alphabetic() {
        return Err(NameError::Start { id: id.to_owned(), first });
    }
    if id.len() > MAX_ID_LEN {
        return Err(NameError::TooLong { len: id.len() });
    }
    Ok(())
}

fn is_reserved(id: &str) -> bool {
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(id))
}

/// A tool's own name if clients accept it, else a name within `^[A-Za-z0-9_-]{1,128}$` that ends in a hash of it.
/// For views that show one upstream under its own names beside others' tools.
///
/// ```
/// use toolyard_proto::name::legal_name;
///
/// assert_eq!(legal_name("scripts_run"), "scripts_run");
/// assert!(legal_name("scripts/run").starts_with("scripts_run_"));
/// ```
pub fn legal_name(tool: &str) -> Cow<'_, str> {
    if !tool.is_empty() && tool.len() <= MAX_TOOL_LEN && tool.chars().all(is_legal) {
        return Cow::Borrowed(tool);
    }
    let stem = stem("", tool, MAX_TOOL_LEN - HASH_LEN - 1);
    let stem = stem.trim_start_matches('_');
    let digest = Sha256::digest(tool);
    Cow::Owned(format!("{stem}_{}", BASE32_NOPAD.encode(&digest[..5]).to_ascii_lowercase()))
}

fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn legal_base(name: &str) -> String {
    let start = if name.starts_with(|c: char| c.is_ascii_alphabetic()) { "" } else { "s-" };
    let legal = name.chars().map(|c| if is_legal(c) { c } else { '-' });
    start.chars().chain(legal).take(MAX_ID_LEN).collect()
}

/// Cuts the base where the number would make the id too long.
fn numbered(base: &str, suffix: &str) -> String {
    let room = MAX_ID_LEN.saturating_sub(suffix.len());
    base.chars().take(room).chain(suffix.chars()).collect()
}

fn is_plain(upstream: &str, tool: &str, budget: usize) -> bool {
    upstream.len() + 2 + tool.len() <= budget
        && !upstream.contains("__")
        && !upstream.ends_with('_')
        && !tool.starts_with('_')
        && tool.chars().all(is_legal)
}

fn hashed(upstream: &UpstreamId, tool: &str, budget: usize) -> String {
    let digest = Sha256::digest(canonical(upstream, tool));
    let mut name = stem(upstream.as_str(), tool, budget - HASH_LEN - 1);
    name.push('_');
    // Five bytes are eight characters of base32.
    name.push_str(&BASE32_NOPAD.encode(&digest[..5]).to_ascii_lowercase());
    name
}

/// Id and tool as far as they fit, with single underscores only and none at the end.
fn stem(upstream: &str, tool: &str, room: usize) -> String {
    let mut stem = String::with_capacity(room + HASH_LEN + 1);
    for c in upstream.chars().chain(['_']).chain(tool.chars()) {
        let c = if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        if c == '_' && stem.ends_with('_') {
            continue;
        }
        if stem.len() == room {
            break;
        }
        stem.push(c);
    }
    stem.truncate(stem.trim_end_matches('_').len());
    stem
}

#[cfg(test)]
mod tests;
