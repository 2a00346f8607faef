//! The ways in which a command fails, with their exit codes.

use std::process::ExitCode;

use toolyard_clients::ClientError;
use toolyard_config::Problem;

use crate::say;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The config is wrong; each problem has a place and a suggestion.
    Config(Vec<Problem>),
    /// The command line is wrong.
    Usage(String),
    /// The request cannot be carried out; the problem names the reason and what to do instead.
    Refused(Problem),
    /// Everything has been reported already; only the exit code is left.
    AlreadyReported(u8),
    /// Everything else.
    Other(anyhow::Error),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Other(error.into())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Config(problems) => Self::Config(problems),
            ClientError::Refused(problem) => Self::Refused(problem),
            ClientError::Locked(error) => Self::Other(error.into()),
            ClientError::Write(..) => Self::Other(error.into()),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

/// What was asked for cannot be done, and what to do instead.
pub(crate) fn refused(message: impl Into<String>, help: impl Into<String>) -> Failure {
    Failure::Refused(Problem::error("", message, help))
}

impl Failure {
    /// Reports the failure to the user, and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Config(problems) => {
                problems.iter().for_each(say::line);
                ExitCode::from(2)
            }
            Self::Usage(message) => {
                say::line(format_args!("error: {message}"));
                ExitCode::from(2)
            }
            Self::Refused(problem) => {
                say::line(problem);
                ExitCode::FAILURE
            }
            Self::AlreadyReported(code) => ExitCode::from(*code),
            Self::Other(error) => {
                say::line(format_args!("error: {error:#}"));
                ExitCode::FAILURE
            }
        }
    }
}
