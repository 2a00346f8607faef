//! Windows: folders in the user's profile, which the system keeps others out of. So files and folders need no
//! permissions of their own there.

use std::fs::{self, File, FileType, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use super::absolute;
use crate::Variables;

/// Users have no numeric ids here, and nothing depends on them.
pub fn user() -> u32 {
    0
}

/// There are no groups to lead.
pub fn lead_group(_: &mut Command) {}

/// Ends the program itself.
pub fn kill_group(child: &mut Child) {
    let _ = child.kill();
}

pub fn home(variables: &Variables<'_>) -> Option<PathBuf> {
    absolute(variables, "USERPROFILE").or_else(|| absolute(variables, "HOME"))
}

/// The folder for configs of programs.
pub fn config_folder(variables: &Variables<'_>) -> Option<PathBuf> {
    absolute(variables, "XDG_CONFIG_HOME").or_else(|| absolute(variables, "APPDATA"))
}

/// The folder for state of programs.
pub fn state_folder(variables: &Variables<'_>) -> Option<PathBuf> {
    absolute(variables, "XDG_STATE_HOME").or_else(|| absolute(variables, "LOCALAPPDATA"))
}

/// The folder for caches of programs.
pub fn cache_folder(variables: &Variables<'_>) -> Option<PathBuf> {
    let local = || absolute(variables, "LOCALAPPDATA").map(|local| local.join("cache"));
    absolute(variables, "XDG_CACHE_HOME").or_else(local)
}

/// The folder in which programs have folders for the files of instances.
pub fn instances_base(variables: &Variables<'_>) -> PathBuf {
    let base = absolute(variables, "XDG_RUNTIME_DIR").or_else(|| absolute(variables, "LOCALAPPDATA"));
    base.unwrap_or_else(std::env::temp_dir)
}

/// The folder after which a pipe is named, and where the lock beside it is. Its length does not matter.
pub fn socket_folder(_: usize, variables: &Variables<'_>) -> PathBuf {
    instances_base(variables).join("toolyard").join("run")
}

/// Creates a folder and those above it.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// A new file inherits the owner of its folder.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// The same.
pub fn keep_mode<'a>(options: &'a mut OpenOptions, _: &Path) -> &'a mut OpenOptions {
    options
}

/// Opens a file for reading, through links.
pub fn open_file(path: &Path) -> io::Result<File> {
    if fs::metadata(path)?.is_file() { File::open(path) } else { Err(io::Error::other("not a regular file")) }
}

/// A file in a profile belongs to the owner of the profile.
pub fn keep_owner(_: &File, _: &Path) -> io::Result<()> {
    Ok(())
}

/// The same.
pub fn hand_over(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Only unsafe code can tell.
pub fn has_other_names(_: &Path) -> bool {
    false
}

/// Pipes are no files.
pub fn is_socket(_: FileType) -> bool {
    false
}
