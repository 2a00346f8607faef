//! The functions that differ between operating systems: files that only their owner may read, and syncing folders.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{create_folder, is_private, private, sync_folder};
#[cfg(windows)]
pub(crate) use windows::{create_folder, is_private, private, sync_folder};
