//! The functions that differ between operating systems: folders that only their owner can read.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::create_folder;
#[cfg(windows)]
pub(crate) use windows::create_folder;
