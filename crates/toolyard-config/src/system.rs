//! The functions that differ between operating systems: the folders of a user, files that are
//! private, and how a program is detached.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as here;
#[cfg(windows)]
use windows as here;

pub use here::{
    cache_folder, config_folder, create_folder, hand_over, has_other_names, home, instances_base, is_socket,
    keep_mode, keep_owner, kill_group, lead_group, open_file, private, socket_folder, state_folder, user,
};

use std::path::PathBuf;

use crate::Variables;

/// A variable that holds a path; relative paths are ignored.
fn absolute(variables: &Variables<'_>, name: &str) -> Option<PathBuf> {
    variables(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
