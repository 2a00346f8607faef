//! Where the local socket of a config set is: in the user's runtime folder, or in a folder of their own under
//! the temp folder where there is none or the path would be too long for a socket.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd::Uid;
use toolyard_transport::local::LONGEST_PATH;

use crate::config::{LocalDoor, Variables};

const FILE: &str = "mcp.sock";

/// The path of the socket, unless it is switched off. `set` names the config set.
pub(crate) fn path(door: &LocalDoor, set: &str, variables: &Variables<'_>) -> Option<PathBuf> {
    match door {
        LocalDoor::Off => None,
        LocalDoor::At(path) => Some(path.clone()),
        LocalDoor::Usual => Some(usual(set, variables)),
    }
}

fn usual(set: &str, variables: &Variables<'_>) -> PathBuf {
    let user = Uid::current();
    let absolute = |name: &str| variables(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // Clients often start programs without this variable; then it is still where the system puts it.
    let runtime = absolute("XDG_RUNTIME_DIR").unwrap_or_else(|| format!("/run/user/{user}").into());
    let place = |folder: PathBuf| folder.join(set).join(FILE);
    let own = format!("toolyard-{user}");
    let candidates = [
        Some(runtime).filter(|folder| folder.is_dir()).map(|folder| place(folder.join("toolyard"))),
        absolute("TMPDIR").map(|folder| place(folder.join(&own))),
    ];
    let fits = |path: &PathBuf| path.as_os_str().len() <= LONGEST_PATH;
    candidates.into_iter().flatten().find(fits).unwrap_or_else(|| place(Path::new("/tmp").join(&own)))
}

/// Makes the folder of a socket, for its owner only. One that is there must not be another user's.
pub(crate) fn make_folder(socket: &Path) -> io::Result<()> {
    let Some(folder) = socket.parent() else { return Ok(()) };
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Elsewhere it is the business of whoever chose the place.
    let Some(shared) = folder.parent().filter(|parent| parent.file_name().is_some_and(is_own_name)) else {
        return Ok(());
    };
    for folder in [shared, folder] {
        let place = fs::symlink_metadata(folder)?;
        if place.uid() != Uid::current().as_raw() || place.mode() & 0o022 != 0 {
            let message = format!("{} can be changed by somebody else", folder.display());
            return Err(io::Error::new(ErrorKind::PermissionDenied, message));
        }
    }
    Ok(())
}

fn is_own_name(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"toolyard")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn check(runtime: &str, temp: &str, expected: &str) {
        let variables = |name: &str| match name {
            "XDG_RUNTIME_DIR" => Some(runtime.to_owned()),
            "TMPDIR" => Some(temp.to_owned()),
            _ => None,
        };
        let expected = expected.replace("UID", &Uid::current().to_string());
        assert_eq!(usual("0123456789abcdef", &variables), Path::new(&expected));
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
