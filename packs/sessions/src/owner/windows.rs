//! Whether a file belongs to this user: Windows lets others write below a home folder only if its user allows it.

use std::fs::Metadata;

pub(crate) fn is_own(_: &Metadata) -> bool {
    true
}
