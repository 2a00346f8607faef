//! Unix: folders as the XDG base directories say, files and folders with permissions for their owner only.

use std::fs::{self, DirBuilder, File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, fchown,
};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, Uid};
use toolyard_model::local::LONGEST_PATH;

use super::absolute;
use crate::Variables;

pub fn user() -> u32 {
    Uid::current().as_raw()
}

pub fn home(variables: &Variables<'_>) -> Option<PathBuf> {
    variables("HOME").map(PathBuf::from)
}

/// The folder for configs of programs.
pub fn config_folder(variables: &Variables<'_>) -> Option<PathBuf> {
    let home = || absolute(variables, "HOME").map(|home| home.join(".config"));
    absolute(variables, "XDG_CONFIG_HOME").or_else(home)
}

/// The folder for state of programs.
pub fn state_folder(variables: &Variables<'_>) -> Option<PathBuf> {
    let home = || absolute(variables, "HOME").map(|home| home.join(".local/state"));
    absolute(variables, "XDG_STATE_HOME").or_else(home)
}

/// The folder for caches of programs.
pub fn cache_folder(variables: &Variables<'_>) -> Option<PathBuf> {
    let home = || absolute(variables, "HOME").map(|home| home.join(".cache"));
    absolute(variables, "XDG_CACHE_HOME").or_else(home)
}

/// The folder in which programs have folders for the files of instances.
pub fn instances_base(variables: &Variables<'_>) -> PathBuf {
    let base = absolute(variables, "XDG_RUNTIME_DIR").or_else(|| absolute(variables, "TMPDIR"));
    base.unwrap_or_else(|| "/tmp".into())
}

/// The folder of a socket that is `room` bytes long below it: in the user's runtime folder, or in a folder of
/// their own under the temp folder where there is none or the path would be too long for a socket.
pub fn socket_folder(room: usize, variables: &Variables<'_>) -> PathBuf {
    let user = user();
    // Clients often start programs without this variable; then it is still where the system puts it.
    let runtime =
        absolute(variables, "XDG_RUNTIME_DIR").unwrap_or_else(|| format!("/run/user/{user}").into());
    let own = format!("toolyard-{user}");
    let candidates = [
        Some(runtime).filter(|folder| folder.is_dir()).map(|folder| folder.join("toolyard")),
        absolute(variables, "TMPDIR").map(|folder| folder.join(&own)),
    ];
    let fits = |folder: &PathBuf| folder.as_os_str().len() + room <= LONGEST_PATH;
    candidates.into_iter().flatten().find(fits).unwrap_or_else(|| Path::new("/tmp").join(&own))
}

/// Creates a folder and those above it, for their owner only. An existing folder keeps its permissions.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A file that is made by this is its owner's only.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// A file that is made by this has the permissions of the one at `path`, if there is one.
pub fn keep_mode<'a>(options: &'a mut OpenOptions, path: &Path) -> &'a mut OpenOptions {
    options.mode(fs::metadata(path).map_or(0o600, |about| about.permissions().mode() & 0o777))
}

/// Makes a program the leader of a group, so that it can be ended with all that it starts.
pub fn lead_group(command: &mut Command) {
    command.process_group(0);
}

/// Ends the group that a program leads.
pub fn kill_group(child: &mut Child) {
    if let Ok(id) = i32::try_from(child.id()) {
        let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
    }
}

/// Opens a file for reading, through links. Anything but a regular file is refused without waiting.
pub fn open_file(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// Gives a new file the owner and the group of the one at `path`; where there is none and we may, those of its
/// folder.
pub fn keep_owner(file: &File, path: &Path) -> io::Result<()> {
    let own = file.metadata()?;
    let wanted = match (fs::metadata(path), path.parent()) {
        (Ok(there), _) => there,
        (Err(_), Some(folder)) if Uid::effective().is_root() && folder.is_dir() => fs::metadata(folder)?,
        _ => return Ok(()),
    };
    let is_other = (own.uid(), own.gid()) != (wanted.uid(), wanted.gid());
    if is_other { fchown(file, Some(wanted.uid()), Some(wanted.gid())) } else { Ok(()) }
}

/// Whether the same file is somewhere else, too.
pub fn has_other_names(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.is_file() && about.nlink() > 1)
}

/// Gives a new folder the owner of the one that it is in, where we may.
pub fn hand_over(folder: &Path) -> io::Result<()> {
    match folder.parent() {
        Some(above) if Uid::effective().is_root() => {
            let above = fs::metadata(above)?;
            chown(folder, Some(above.uid()), Some(above.gid()))
        }
        _ => Ok(()),
    }
}

pub fn is_socket(kind: FileType) -> bool {
    kind.is_socket()
}
