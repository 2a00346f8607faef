//! Signals of the system: to stop, or to read the config now.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{Nudge, Stop};
#[cfg(windows)]
pub(crate) use windows::{Nudge, Stop};
