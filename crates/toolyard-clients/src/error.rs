//! Why the config of a client could not be read or changed.

use std::fmt;
use std::io;
use std::path::PathBuf;

use toolyard_config::Problem;

#[derive(Debug)]
pub enum ClientError {
    /// The file is not valid; each problem has its place in it.
    Config(Vec<Problem>),
    /// The request cannot be carried out; the problem has the reason and what to do instead.
    Refused(Problem),
    /// Another program has the file.
    Locked(io::Error),
    Write(PathBuf, io::Error),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(problems) => problems.iter().try_for_each(|problem| writeln!(f, "{problem}")),
            Self::Refused(problem) => problem.fmt(f),
            Self::Locked(error) => error.fmt(f),
            Self::Write(path, error) => write!(f, "write {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for ClientError {}

/// The error of a request that cannot be carried out, with what to do instead.
pub(crate) fn refused(message: impl Into<String>, help: impl Into<String>) -> ClientError {
    ClientError::Refused(Problem::error("", message, help))
}
