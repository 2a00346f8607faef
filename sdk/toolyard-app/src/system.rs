//! The system calls of an app that differ between systems.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{create_folder, own_user, private, runtime_folder};
#[cfg(windows)]
pub(crate) use windows::{create_folder, own_user, private, runtime_folder};

use std::path::PathBuf;

/// The folder in an environment variable; a relative one is ignored.
fn absolute(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
