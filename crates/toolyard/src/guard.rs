//! How it is seen to that no child outlives the gateway: by a guard for each, where the system needs one.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{Guards, run};
#[cfg(windows)]
pub(crate) use windows::{Guards, run};
