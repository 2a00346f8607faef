//! How the URI of a resource is shown where several upstreams share one view, and the way back.
//!
//! | an upstream sends | a client sees | |
//! |---|---|---|
//! | `ui://rest` | `ui://ID/rest` | hosts know an app by this scheme |
//! | `skill://rest` | `skill://ID/rest` | the extension for skills fixes the scheme |
//! | `scheme://rest` | `yard+scheme://ID/rest` | |
//! | `scheme:rest` | `yard+scheme:ID/rest` | |
//! | anything else | `yard:ID/anything` | a relative reference, a template such as `{+uri}`, garbage |
//!
//! Templates are mapped like URIs, and what a client makes of a shown template maps back to what it would have
//! made of the original. Each line of the table only inserts text, so [`map_result`] can work inside raw JSON
//! and leave every byte of the upstream where it was.

mod rewrite;
mod walk;

pub use rewrite::{ResultKind, map_result};

use crate::name::{UpstreamId, has_id_shape};

/// Schemes that clients know, which are kept.
const KEPT: [&str; 2] = ["ui://", "skill://"];
const WITH_SCHEME: &str = "yard+";
const WITHOUT_SCHEME: &str = "yard:";

/// The URI or URI template as clients of a namespaced view see it.
pub fn to_shown(id: &UpstreamId, uri: &str) -> String {
    let insertion = Insertion::of(uri);
    let (head, rest) = uri.split_at(insertion.id_at);
    format!("{start}{head}{id}/{rest}", start = insertion.start)
}

/// The upstream's id and its own URI, of a URI or template that a client was shown.
///
/// The id only has the form of one: every `ui://X/rest` and `skill://X/rest` can be read this way, so the caller looks
/// whether it knows such an upstream (without regard to case, since a client may normalise the URI).
pub fn from_shown(shown: &str) -> Option<(&str, String)> {
    let (head, tail) = split_shown(shown)?;
    let (id, rest) = tail.split_once('/')?;
    has_id_shape(id).then(|| (id, format!("{head}{rest}")))
}

/// The part of the original before the id, and everything from the id on.
fn split_shown(shown: &str) -> Option<(&str, &str)> {
    if let Some(scheme) = KEPT.into_iter().find(|scheme| shown.starts_with(scheme)) {
        return Some(shown.split_at(scheme.len()));
    }
    if let Some(tail) = shown.strip_prefix(WITHOUT_SCHEME) {
        return Some(("", tail));
    }
    let inner = shown.strip_prefix(WITH_SCHEME)?;
    let insertion = Insertion::of(inner);
    (insertion.start == WITH_SCHEME).then(|| inner.split_at(insertion.id_at))
}

/// The texts that turn an upstream's URI into a shown one: one text at its start, and the id and a slash further in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Insertion {
    start: &'static str,
    id_at: usize,
    is_ui: bool,
}

/// The meaning of a scheme for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Ui,
    Skill,
    Other,
}

impl Insertion {
    fn of(uri: &str) -> Self {
        Self::of_units(uri.bytes().zip(1..))
    }

    /// Reads the URI byte by byte, each with the offset at which it ends; in a JSON string with escapes the two
    /// do not go in step.
    fn of_units(mut units: impl Iterator<Item = (u8, usize)>) -> Self {
        let Some((colon, scheme)) = scheme(&mut units) else {
            return Self { start: WITHOUT_SCHEME, id_at: 0, is_ui: false };
        };
        let is_ui = scheme == Scheme::Ui;
        match (units.next(), units.next()) {
            (Some((b'/', _)), Some((b'/', id_at))) if scheme != Scheme::Other => {
                Self { start: "", id_at, is_ui }
            }
            (Some((b'/', _)), Some((b'/', id_at))) => Self { start: WITH_SCHEME, id_at, is_ui: false },
            _ => Self { start: WITH_SCHEME, id_at: colon, is_ui: false },
        }
    }
}

/// The end of the colon after the scheme, and the scheme. Only in lower case: hosts compare text.
fn scheme(units: &mut impl Iterator<Item = (u8, usize)>) -> Option<(usize, Scheme)> {
    let (mut is_ui, mut is_skill) = (true, true);
    for (len, (byte, end)) in units.enumerate() {
        match byte {
            b':' if len == 2 && is_ui => return Some((end, Scheme::Ui)),
            b':' if len == 5 && is_skill => return Some((end, Scheme::Skill)),
            b':' if len > 0 => return Some((end, Scheme::Other)),
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if len > 0 => {}
            _ => return None,
        }
        is_ui = is_ui && b"ui".get(len) == Some(&byte);
        is_skill = is_skill && b"skill".get(len) == Some(&byte);
    }
    None
}

#[cfg(test)]
mod tests;
