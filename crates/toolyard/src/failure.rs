//! How a command fails, and the exit code that says so.

use std::process::ExitCode;

use crate::config::Problem;
use crate::say;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The config is wrong; each problem says where and what to do.
    Config(Vec<Problem>),
    /// The command line is wrong.
    Usage(String),
    /// Everything else.
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

impl Failure {
    /// Tells the person who started the program, and says how to exit.
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
            Self::Other(error) => {
                say::line(format_args!("error: {error:#}"));
                ExitCode::FAILURE
            }
        }
    }
}
