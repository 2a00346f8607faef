//! Which file a command means. The system finds `server.exe` for `server` by itself, but not `npx.cmd` for
//! `npx`, and configs contain what people type.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::ChildSpec;

/// The extensions that are tried if `PATHEXT` is not set.
const USUAL_ENDINGS: &str = ".COM;.EXE;.BAT;.CMD";

/// Searches the child's own `PATH`, from its working directory, for the file of the command. If there is none, returns
/// the command unchanged, so that the system reports the error.
pub(super) fn find(spec: &ChildSpec) -> OsString {
    let command = Path::new(&spec.program);
    let cwd = spec.cwd.as_deref().unwrap_or(Path::new(""));
    let is_bare = command.components().count() == 1 && !command.has_root();
    let places: Vec<PathBuf> = if is_bare {
        let path = variable(spec, "PATH").unwrap_or_default();
        // An empty entry would mean the working directory, which others may be able to write to.
        let folders = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
        folders.map(|folder| cwd.join(folder).join(command)).collect()
    } else {
        vec![cwd.join(command)]
    };
    let endings = endings(spec, command);
    let found = places.iter().find_map(|place| first(place, &endings));
    found.map_or_else(|| spec.program.clone(), PathBuf::into_os_string)
}

/// The endings that may follow the command as written; first nothing, if it may have its extension already.
fn endings(spec: &ChildSpec, command: &Path) -> Vec<OsString> {
    let as_it_is = command.extension().map(|_| OsString::new());
    let endings = variable(spec, "PATHEXT").unwrap_or_else(|| USUAL_ENDINGS.into());
    let endings = endings.to_string_lossy().into_owned();
    let endings = endings.split(';').filter(|ending| ending.starts_with('.')).map(OsString::from);
    as_it_is.into_iter().chain(endings).collect()
}

fn first(place: &Path, endings: &[OsString]) -> Option<PathBuf> {
    let with = |ending: &OsString| {
        let mut name = place.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    endings.iter().map(with).find(|file| file.is_file())
}

/// A variable of the child's environment, or else of ours. Windows ignores the case of names.
fn variable(spec: &ChildSpec, name: &str) -> Option<OsString> {
    let is_it = |other: &OsStr| other.eq_ignore_ascii_case(name);
    let own = spec.env.iter().rev().find(|(other, _)| is_it(other));
    own.map(|(_, value)| value.clone()).or_else(|| std::env::var_os(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_an_ending_is_found_as_at_a_prompt() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["npx", "npx.cmd", "tool.exe", "tool.cmd", "python3.11.exe"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let check = |program: &str, expected: Option<&str>| {
            let env = vec![
                ("Path".into(), folder.path().as_os_str().to_owned()),
                ("PathExt".into(), ".EXE;.CMD".into()),
            ];
            let spec = ChildSpec { env, ..ChildSpec::new(program) };
            let expected = expected.map_or_else(|| program.into(), |name| folder.path().join(name));
            let found = find(&spec).to_string_lossy().to_lowercase();
            assert_eq!(found, expected.to_string_lossy().to_lowercase(), "{program}");
        };
        check("npx", Some("npx.cmd"));
        check("tool", Some("tool.exe"));
        check("tool.cmd", Some("tool.cmd"));
        check("python3.11", Some("python3.11.exe"));
        check("missing", None);
        check(r"sub\tool", None);
    }

    #[test]
    fn a_bare_command_is_not_looked_for_in_the_working_directory() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("run.bat"), "").unwrap();
        for path in ["", ";", r"C:\nowhere;"] {
            let env = vec![("Path".into(), path.into()), ("PathExt".into(), ".BAT".into())];
            let spec = ChildSpec { env, cwd: Some(folder.path().to_owned()), ..ChildSpec::new("run") };
            assert_eq!(find(&spec), "run", "{path}");
        }
    }

    #[test]
    fn a_path_starts_at_the_working_directory() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("run.bat"), "").unwrap();
        let spec = ChildSpec { cwd: Some(folder.path().to_owned()), ..ChildSpec::new(r".\run") };
        assert!(Path::new(&find(&spec)).is_file());
        assert!(Path::new(&find(&spec)).is_absolute());
    }
}
