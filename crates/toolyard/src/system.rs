//! What the gateway asks of the system for itself: a session of its own, and many open files.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{allow_many_files, leave_session};
#[cfg(windows)]
pub(crate) use windows::{allow_many_files, leave_session};
