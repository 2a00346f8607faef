//! Not known here: the lease of a node that has ended is waited for.

use crate::record::ProcessRecord;

pub(crate) fn own() -> Option<ProcessRecord> {
    None
}

pub(crate) fn has_ended(_: &ProcessRecord) -> bool {
    false
}
