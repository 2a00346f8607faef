//! What the program asks of the system for itself: a session of its own, many open files, and a terminal that does not
//! show what is typed.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{allow_many_files, leave_session, without_echo};
#[cfg(windows)]
pub(crate) use windows::{allow_many_files, leave_session, without_echo};
