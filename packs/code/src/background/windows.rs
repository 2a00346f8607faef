//! Priorities of threads are left as they are.

pub(super) fn lower_priority() {}
