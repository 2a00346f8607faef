//! Moves files inside the library. Between different file systems, a file is copied first and deleted
//! only when the copy is complete.

use schemars::JsonSchema;
use serde::Serialize;
use toolyard_jail::{Existing, Inside, Jail, JailError, Kind, copy_while};
use toolyard_tool::ToolError;

use crate::trouble::{JailResult as _, cancelled};

/// How something was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Strategy {
    Rename,
    CopyThenDelete,
}

pub(crate) fn relocate(
    jail: &Jail,
    from: &Inside,
    to: &Inside,
    existing: Existing,
    go_on: &dyn Fn() -> bool,
) -> Result<Strategy, ToolError> {
    after(jail.rename(from, to, existing), jail, from, to, existing, go_on)
}

/// The next action after an attempted rename.
fn after(
    renamed: Result<(), JailError>,
    jail: &Jail,
    from: &Inside,
    to: &Inside,
    existing: Existing,
    go_on: &dyn Fn() -> bool,
) -> Result<Strategy, ToolError> {
    match renamed {
        Ok(()) => Ok(Strategy::Rename),
        Err(JailError::OtherDevice { .. }) => {
            copy_then_delete(jail, from, to, existing, go_on)?;
            Ok(Strategy::CopyThenDelete)
        }
        Err(error) => Err(error).tool_error(),
    }
}

fn copy_then_delete(
    jail: &Jail,
    from: &Inside,
    to: &Inside,
    existing: Existing,
    go_on: &dyn Fn() -> bool,
) -> Result<(), ToolError> {
    match jail.look(from).tool_error()?.kind {
        Kind::File => {
            copy_file(jail, from, to, existing, go_on)?;
            jail.remove_file(from).tool_error()
        }
        Kind::Folder => {
            jail.make_folder(to).tool_error()?;
            if let Err(error) = copy_folder(jail, from, to, go_on) {
                // The original is complete; only the partial copy is removed.
                let _ = jail.remove_tree(to, &mut || true);
                return Err(error);
            }
            // From here on it must not be interrupted.
            jail.remove_tree(from, &mut || true).tool_error().map(drop)
        }
        Kind::Symlink | Kind::Other => Err(ToolError::new(format!("`{from}` is neither file nor folder"))
            .hint("only files and folders are moved to another file system")),
    }
}

fn copy_folder(jail: &Jail, from: &Inside, to: &Inside, go_on: &dyn Fn() -> bool) -> Result<(), ToolError> {
    for entry in jail.folder(from).tool_error()?.entries().tool_error()? {
        if !go_on() {
            return Err(cancelled());
        }
        let (from, to) = (from.join(&entry.name).tool_error()?, to.join(&entry.name).tool_error()?);
        match entry.kind {
            Kind::Folder => {
                jail.make_folder(&to).tool_error()?;
                copy_folder(jail, &from, &to, go_on)?;
            }
            Kind::File => copy_file(jail, &from, &to, Existing::Keep, go_on)?,
            Kind::Symlink | Kind::Other => {
                return Err(ToolError::new(format!(
                    "`{from}` is neither file nor folder; nothing was moved"
                ))
                .hint("only files and folders are moved to another file system"));
            }
        }
    }
    Ok(())
}

fn copy_file(
    jail: &Jail,
    from: &Inside,
    to: &Inside,
    existing: Existing,
    go_on: &dyn Fn() -> bool,
) -> Result<(), ToolError> {
    let mut source = jail.open(from).tool_error()?;
    let about = source.metadata()?;
    jail.write(to, existing, |file| {
        copy_while(&mut source, file, go_on)?;
        file.set_permissions(about.permissions())?;
        Ok(file.set_modified(about.modified()?)?)
    })
    .tool_error()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::{Duration, SystemTime};

    use toolyard_jail::Symlinks;

    use super::*;

    /// The error of a rename between two file systems; the binary's tests use real ones.
    #[test]
    fn a_rename_that_leads_to_another_file_system_becomes_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let song = fs::File::create(folder.path().join("song")).unwrap();
        song.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
        song.set_modified(long_ago).unwrap();
        let jail = Jail::new(folder.path(), Symlinks::Forbid).unwrap();
        let (from, to) = (jail.path("song").unwrap(), jail.path("moved").unwrap());
        let apart = Err(JailError::OtherDevice { path: "moved".into() });
        let strategy = after(apart, &jail, &from, &to, Existing::Keep, &|| true).unwrap();
        assert_eq!(strategy, Strategy::CopyThenDelete);
        let about = fs::metadata(folder.path().join("moved")).unwrap();
        assert_eq!((about.permissions().mode() & 0o777, about.modified().unwrap()), (0o640, long_ago));
        assert!(!folder.path().join("song").exists());
        let missing = Err(JailError::Missing { path: "song".into() });
        assert!(after(missing, &jail, &from, &to, Existing::Keep, &|| true).is_err(), "nothing else does");
    }

    #[test]
    fn a_folder_is_copied_whole_before_it_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("a/b/song"), "la").unwrap();
        fs::write(folder.path().join("a/cover"), "img").unwrap();
        let jail = Jail::new(folder.path(), Symlinks::Forbid).unwrap();
        let (from, to) = (jail.path("a").unwrap(), jail.path("c").unwrap());
        let stopped = copy_then_delete(&jail, &from, &to, Existing::Keep, &|| false);
        assert!(stopped.is_err() && !folder.path().join("c").exists());
        copy_then_delete(&jail, &from, &to, Existing::Keep, &|| true).unwrap();
        assert_eq!(fs::read(folder.path().join("c/b/song")).unwrap(), b"la");
        assert!(!folder.path().join("a").exists());
        let kept = copy_then_delete(
            &jail,
            &jail.path("c/cover").unwrap(),
            &jail.path("c/b/song").unwrap(),
            Existing::Keep,
            &|| true,
        );
        assert!(kept.unwrap_err().to_string().contains("exists already"));
        assert!(folder.path().join("c/cover").exists());
    }
}
