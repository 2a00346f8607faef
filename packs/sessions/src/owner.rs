//! Whether a file belongs to the user that runs this program.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::is_own;
#[cfg(windows)]
pub(crate) use windows::is_own;
