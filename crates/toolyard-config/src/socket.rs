//! The path of a config set's local socket, and the check that no other user can create one there.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use toolyard_model::private_file::is_only_ours;

use crate::system;
use crate::{LocalDoor, Variables};

const FILE: &str = "mcp.sock";

/// The path of the socket, unless it is switched off. `set` names the config set.
pub fn path(door: &LocalDoor, set: &str, variables: &Variables<'_>) -> Option<PathBuf> {
    match door {
        LocalDoor::Off => None,
        LocalDoor::At(path) => Some(path.clone()),
        LocalDoor::Default => Some(default_path(set, variables)),
    }
}

fn default_path(set: &str, variables: &Variables<'_>) -> PathBuf {
    let below = Path::new(set).join(FILE);
    system::socket_folder(below.as_os_str().len() + 1, variables).join(below)
}

/// Makes the folder of a socket, for its owner only. One that is there must not be another user's.
pub fn make_folder(socket: &Path) -> io::Result<()> {
    let Some(folder) = socket.parent() else { return Ok(()) };
    system::create_folder(folder)?;
    // Other places are the responsibility of the user who chose them.
    let Some(shared) = folder.parent().filter(|parent| parent.file_name().is_some_and(is_own_name)) else {
        return Ok(());
    };
    for folder in [shared, folder] {
        if !is_only_ours(folder)? {
            let message = format!("{} can be changed by other users", folder.display());
            return Err(io::Error::new(ErrorKind::PermissionDenied, message));
        }
    }
    Ok(())
}

fn is_own_name(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"toolyard")
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn check(runtime: &str, temp: &str, expected: &str) {
        let variables = |name: &str| match name {
            "XDG_RUNTIME_DIR" => Some(runtime.to_owned()),
            "TMPDIR" => Some(temp.to_owned()),
            _ => None,
        };
        let expected = expected.replace("UID", &system::user().to_string());
        assert_eq!(default_path("0123456789abcdef", &variables), Path::new(&expected));
    }

    #[test]
    fn a_socket_is_where_its_path_fits() {
        let runtime = tempfile::tempdir().unwrap();
        let there = runtime.path().display().to_string();
        check(&there, "/tmp", &format!("{there}/toolyard/0123456789abcdef/mcp.sock"));
        check("/missing", "/tmp", "/tmp/toolyard-UID/0123456789abcdef/mcp.sock");
        let deep = runtime.path().join("d".repeat(80));
        fs::create_dir(&deep).unwrap();
        check(&deep.display().to_string(), "/tmp", "/tmp/toolyard-UID/0123456789abcdef/mcp.sock");
        let deep = deep.display().to_string();
        check(&deep, &deep, "/tmp/toolyard-UID/0123456789abcdef/mcp.sock");
    }

    #[test]
    fn a_folder_that_others_can_change_is_not_used() {
        let base = tempfile::tempdir().unwrap();
        let socket = base.path().join("toolyard-0/set/mcp.sock");
        make_folder(&socket).unwrap();
        let folder = socket.parent().unwrap();
        assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
        make_folder(&socket).unwrap();
        fs::set_permissions(folder.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(make_folder(&socket).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}
