//! Which process a node is, so that another node on the same machine can tell at once that it has ended.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{has_ended, own};
#[cfg(windows)]
pub(crate) use windows::{has_ended, own};
