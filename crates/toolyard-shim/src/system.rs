//! How a program is started so that it outlives this one.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::detach;
#[cfg(windows)]
pub(crate) use windows::detach;
