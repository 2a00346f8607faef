//! From what went wrong to what a model can do about it.

use toolyard_jail::JailError;
use toolyard_tool::ToolError;

/// Adds what would work to what happened.
pub(crate) trait Told<T> {
    fn told(self) -> Result<T, ToolError>;
}

impl<T> Told<T> for Result<T, JailError> {
    fn told(self) -> Result<T, ToolError> {
        self.map_err(tell)
    }
}

pub(crate) fn tell(error: JailError) -> ToolError {
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
        JailError::Io { source, .. } => match source.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "the user that runs this program may not do that: check owner and permissions"
            }
            std::io::ErrorKind::StorageFull => "the disk is full: nothing was changed",
            _ => return error.into(),
        },
        _ => return error.into(),
    };
    ToolError::from(error).hint(hint)
}

/// The call was cancelled; nobody reads this, but a function must end somehow.
pub(crate) fn cancelled() -> ToolError {
    ToolError::new("cancelled; what was done until then stays")
}
