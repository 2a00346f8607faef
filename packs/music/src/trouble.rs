//! Converts errors to messages that state what a model can do about them.

use toolyard_jail::JailError;
use toolyard_tool::ToolError;

/// Adds a hint to an error of the jail.
pub(crate) trait JailResult<T> {
    fn tool_error(self) -> Result<T, ToolError>;
}

impl<T> JailResult<T> for Result<T, JailError> {
    fn tool_error(self) -> Result<T, ToolError> {
        self.map_err(with_hint)
    }
}

pub(crate) fn with_hint(error: JailError) -> ToolError {
    let hint = match &error {
        JailError::Root { .. } => "set `root` of [packs.music] to a folder that exists",
        JailError::Outside { .. } | JailError::Invalid { .. } => {
            "give a path relative to the library's root, such as `Artist/Album/01 Title.flac`, without `..`"
        }
        JailError::Symlink { .. } => {
            "use the path that the link leads to, or set `allow_symlinks = true` in [packs.music]"
        }
        JailError::LinkOutside { .. } => "links are only followed inside the library",
        JailError::Missing { .. } => "`fs_list_dir` shows what is there",
        JailError::Exists { .. } => "choose another name, or pass `overwrite: true` where the tool takes it",
        JailError::NotAFolder { .. } => "give the path of a folder",
        JailError::NotAFile { .. } => "give the path of a file",
        JailError::NotEmpty { .. } => "pass `recursive: true` to delete it with everything in it",
        JailError::RootItself => "name something in the library",
        JailError::OtherDevice { .. } => "use `fs_move`, which copies where it must",
        JailError::Cancelled { .. } => "call the tool again: the file is as it was",
        JailError::Changed { .. } => "read the file again and repeat the change: nothing was written",
        JailError::Io { source, .. } => match source.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "the user that runs this program may not do that: check owner and permissions"
            }
            std::io::ErrorKind::StorageFull => "the disk is full: nothing was changed",
            std::io::ErrorKind::ReadOnlyFilesystem => {
                "the file system is mounted read-only: mount it for writing, or use another root"
            }
            _ => "the system refused it: check the disk and the name",
        },
        _ => return error.into(),
    };
    ToolError::from(error).hint(hint)
}

/// The call was cancelled; the client does not receive this error.
pub(crate) fn cancelled() -> ToolError {
    ToolError::new("cancelled; what was done until then stays")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Which it is, so that none is forgotten.
    fn place(error: &JailError) -> Option<usize> {
        Some(match error {
            JailError::Root { .. } => 0,
            JailError::Outside { .. } => 1,
            JailError::Invalid { .. } => 2,
            JailError::Symlink { .. } => 3,
            JailError::LinkOutside { .. } => 4,
            JailError::Missing { .. } => 5,
            JailError::Exists { .. } => 6,
            JailError::NotAFolder { .. } => 7,
            JailError::NotAFile { .. } => 8,
            JailError::NotEmpty { .. } => 9,
            JailError::RootItself => 10,
            JailError::OtherDevice { .. } => 11,
            JailError::Cancelled { .. } => 12,
            JailError::Changed { .. } => 13,
            JailError::Io { .. } => 14,
            _ => return None,
        })
    }

    #[test]
    fn every_jail_error_has_a_hint() {
        let path = || "a/b".to_owned();
        let io = |kind: io::ErrorKind| JailError::Io { path: path(), source: kind.into() };
        let table = [
            (
                JailError::Root { root: "x".into(), source: io::ErrorKind::NotFound.into() },
                "set `root` of [packs.music]",
            ),
            (JailError::Outside { path: path() }, "relative to the library's root"),
            (JailError::Invalid { path: path(), why: "it is odd" }, "relative to the library's root"),
            (JailError::Symlink { path: path() }, "`allow_symlinks = true`"),
            (JailError::LinkOutside { path: path() }, "only followed inside the library"),
            (JailError::Missing { path: path() }, "`fs_list_dir` shows"),
            (JailError::Exists { path: path() }, "`overwrite: true`"),
            (JailError::NotAFolder { path: path() }, "the path of a folder"),
            (JailError::NotAFile { path: path() }, "the path of a file"),
            (JailError::NotEmpty { path: path() }, "`recursive: true`"),
            (JailError::RootItself, "name something in the library"),
            (JailError::OtherDevice { path: path() }, "`fs_move`"),
            (JailError::Cancelled { path: path() }, "the file is as it was"),
            (JailError::Changed { path: path() }, "nothing was written"),
            (io(io::ErrorKind::PermissionDenied), "check owner and permissions"),
            (io(io::ErrorKind::StorageFull), "the disk is full"),
            (io(io::ErrorKind::ReadOnlyFilesystem), "mount it for writing"),
            (io(io::ErrorKind::Other), "check the disk"),
        ];
        let mut places: Vec<usize> = table.iter().map(|(error, _)| place(error).unwrap()).collect();
        places.dedup();
        assert_eq!(places, (0..15).collect::<Vec<_>>());
        for (error, hint) in table {
            let text = with_hint(error).to_string();
            let (what, then) = text.split_once("\nHint: ").unwrap_or_else(|| panic!("no hint: {text}"));
            assert!(!what.is_empty() && then.contains(hint), "{text}");
        }
    }
}
