//! The ways in which a command fails, with their exit codes.

use std::process::ExitCode;

use serde_json::{Value, json};
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

/// The error of a request that cannot be carried out, with what to do instead.
pub(crate) fn refused(message: impl Into<String>, help: impl Into<String>) -> Failure {
    Failure::Refused(Problem::error("", message, help))
}

impl Failure {
    /// The exit code; the same for people and for programs.
    fn code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Usage(_) => 2,
            Self::Refused(_) | Self::Other(_) => 1,
            Self::AlreadyReported(code) => *code,
        }
    }

    /// The failure as text, for a program that shows it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Config(problems) => problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"),
            Self::Refused(problem) => problem.to_string(),
            Self::Usage(message) => message.clone(),
            Self::AlreadyReported(_) => "the command failed".to_owned(),
            Self::Other(error) => format!("{error:#}"),
        }
    }

    /// Reports the failure as JSON on stdout, where the result would be, and returns the exit code.
    pub(crate) fn report_as_json(&self) -> ExitCode {
        let error = match self {
            Self::Config(problems) => {
                json!({ "kind": "config", "message": "the config is invalid", "problems": problems })
            }
            Self::Usage(message) => json!({ "kind": "usage", "message": message }),
            Self::Refused(problem) => refused_json(problem),
            Self::Other(error) => json!({ "kind": "failed", "message": format!("{error:#}") }),
            Self::AlreadyReported(_) => return ExitCode::from(self.code()),
        };
        match say::json(&json!({ "error": error })).and_then(|()| say::finish()) {
            Ok(()) => ExitCode::from(self.code()),
            Err(_) => self.report(),
        }
    }

    /// Reports the failure to the user, and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Config(problems) => problems.iter().for_each(say::line),
            Self::Usage(message) => say::line(format_args!("error: {message}")),
            Self::Refused(problem) => say::line(problem),
            Self::AlreadyReported(_) => {}
            Self::Other(error) => say::line(format_args!("error: {error:#}")),
        }
        ExitCode::from(self.code())
    }
}

/// Without the members that say nothing.
fn refused_json(problem: &Problem) -> Value {
    let Problem { place, key, message, help, .. } = problem;
    let mut error = json!({ "kind": "refused", "message": message });
    if !help.is_empty() {
        error["help"] = json!(help);
    }
    if !key.is_empty() {
        error["key"] = json!(key);
    }
    if let Some(place) = place {
        error["place"] = json!(place);
    }
    error
}
