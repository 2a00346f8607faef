//! Checks that a program exists before a guard runs it: the guard could report it only on stderr.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::child::ChildSpec;

/// The folders that the system searches if `PATH` is not set.
const USUAL_PATH: &str = "/bin:/usr/bin";

/// Looks where the system will: in the child's own `PATH`, and from its working directory.
pub(super) fn check(spec: &ChildSpec) -> io::Result<()> {
    let cwd = spec.cwd.as_deref().unwrap_or(Path::new(""));
    if spec.program.as_bytes().contains(&b'/') {
        return may_run(&cwd.join(&spec.program));
    }
    let mut outcome = Err(io::ErrorKind::NotFound.into());
    for folder in std::env::split_paths(&path_of(spec)) {
        match may_run(&cwd.join(folder).join(&spec.program)) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => outcome = Err(error),
            Err(_) => {}
        }
    }
    outcome
}

fn path_of(spec: &ChildSpec) -> OsString {
    let own = spec.env.iter().rev().find(|(name, _)| name == OsStr::new("PATH"));
    own.map(|(_, value)| value.clone())
        .or_else(|| std::env::var_os("PATH"))
        .unwrap_or_else(|| USUAL_PATH.into())
}

fn may_run(path: &Path) -> io::Result<()> {
    let about = std::fs::metadata(path)?;
    let runs = about.is_file() && about.permissions().mode() & 0o111 != 0;
    if runs { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(program: &str, cwd: &str, path: &str) -> Result<(), io::ErrorKind> {
        let spec = ChildSpec {
            env: vec![("PATH".into(), path.into())],
            cwd: Some(cwd.into()),
            ..ChildSpec::new(program)
        };
        super::check(&spec).map_err(|error| error.kind())
    }

    #[test]
    fn programs_are_found_as_the_system_finds_them() {
        assert_eq!(check("sh", "/", "/nowhere:/bin"), Ok(()));
        assert_eq!(check("sh", "/", "bin"), Ok(()));
        assert_eq!(check("./sh", "/bin", ""), Ok(()));
        assert_eq!(check("sh", "/", "/nowhere"), Err(io::ErrorKind::NotFound));
        assert_eq!(check("passwd", "/", "/etc"), Err(io::ErrorKind::PermissionDenied));
        assert_eq!(check("/bin/no-such-program", "/", "/bin"), Err(io::ErrorKind::NotFound));
    }
}
