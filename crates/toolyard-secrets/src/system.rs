//! What systems do not have in common: files that only their owner may read, and folders that are on the disk.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{create_folder, is_private, private, sync_folder};
#[cfg(windows)]
pub(crate) use windows::{create_folder, is_private, private, sync_folder};
