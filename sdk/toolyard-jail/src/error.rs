//! Why a path was refused, in words that a model can act on.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::Inside;

/// Why something in a jail could not be done.
///
/// ```
/// use toolyard_jail::{Jail, JailError, Symlinks};
///
/// # fn main() -> Result<(), JailError> {
/// # let folder = tempfile::tempdir()?;
/// # let root = folder.path();
/// let jail = Jail::new(root, Symlinks::Forbid)?;
/// let missing = jail.open(&jail.path("no/such.flac")?).unwrap_err();
/// assert!(matches!(missing, JailError::Missing { .. }));
/// assert!(matches!(jail.path("../secret"), Err(JailError::Outside { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JailError {
    /// The root itself cannot be used.
    #[error("the root folder `{}` cannot be opened", root.display())]
    Root {
        /// As it was given.
        root: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The path is not below the root.
    #[error("path `{path}` is outside of the root folder")]
    Outside {
        /// As it was given.
        path: String,
    },
    /// The text is not a path.
    #[error("path `{path}` is not valid: {why}")]
    Invalid {
        /// As it was given.
        path: String,
        /// The fault of the path.
        why: &'static str,
    },
    /// There is a link in it, and links are not allowed.
    #[error("path `{path}` has a symbolic link in it, which is not allowed here")]
    Symlink {
        /// Where.
        path: String,
    },
    /// A link leads out, or in circles.
    #[error("a symbolic link in path `{path}` leads outside of the root folder or in circles")]
    LinkOutside {
        /// Where.
        path: String,
    },
    /// There is nothing.
    #[error("path `{path}` does not exist")]
    Missing {
        /// Where.
        path: String,
    },
    /// There is something already.
    #[error("path `{path}` exists already")]
    Exists {
        /// Where.
        path: String,
    },
    /// A folder was needed.
    #[error("path `{path}` is not a folder")]
    NotAFolder {
        /// Where.
        path: String,
    },
    /// A file was needed.
    #[error("path `{path}` is not a file")]
    NotAFile {
        /// Where.
        path: String,
    },
    /// A folder that should go is not empty.
    #[error("folder `{path}` is not empty")]
    NotEmpty {
        /// Where.
        path: String,
    },
    /// The two ends of a move are on different file systems.
    #[error("path `{path}` is on another file system")]
    OtherDevice {
        /// The target of the move.
        path: String,
    },
    /// The caller stopped the change before it was complete; the old file is as it was.
    #[error("the change of `{path}` was cancelled")]
    Cancelled {
        /// Where.
        path: String,
    },
    /// The file was replaced while a copy of it was being edited.
    #[error("`{path}` was changed by another program at the same time")]
    Changed {
        /// Where.
        path: String,
    },
    /// The root itself is never moved, replaced or deleted.
    #[error("the root folder itself is never moved, replaced or deleted")]
    RootItself,
    /// Any other error of the system.
    #[error("path `{path}`: {source}")]
    Io {
        /// Where.
        path: String,
        /// The system's error.
        source: io::Error,
    },
}

impl JailError {
    pub(crate) fn io(path: &Inside, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.to_string(), source.into());
        match Errno::from_io_error(&source) {
            Some(Errno::NOENT) => Self::Missing { path },
            Some(Errno::EXIST) => Self::Exists { path },
            Some(Errno::NOTEMPTY) => Self::NotEmpty { path },
            Some(Errno::XDEV) => Self::OtherDevice { path },
            Some(Errno::NOTDIR) => Self::NotAFolder { path },
            Some(Errno::ISDIR) => Self::NotAFile { path },
            // Only a link that must not be followed is refused like this.
            Some(Errno::LOOP | Errno::MLINK) => Self::Symlink { path },
            _ => Self::Io { path, source },
        }
    }

    /// The same error about that path, where the function that failed knew none.
    pub(crate) fn at(self, path: &Inside) -> Self {
        match self {
            Self::Io { path: unknown, source } if unknown.is_empty() => Self::io(path, source),
            Self::Cancelled { path: unknown } if unknown.is_empty() => {
                Self::Cancelled { path: path.to_string() }
            }
            error => error,
        }
    }

    pub(crate) fn opening(path: &Inside, error: Errno) -> Self {
        Self::io(path, error)
    }
}

/// The error of a function that fills a file.
impl From<io::Error> for JailError {
    fn from(source: io::Error) -> Self {
        Self::Io { path: String::new(), source }
    }
}
