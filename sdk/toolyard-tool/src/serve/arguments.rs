//! The arguments of a standalone server: which doors to open.

use super::Door;

/// The text of `--help`.
pub(super) const USAGE: &str = "\
Serves its tools over MCP. Without arguments: on stdin and stdout, for the client that starts it.

  --http ADDR   Streamable HTTP at http://ADDR/mcp
  --tcp ADDR    newline-delimited messages over TCP
  --unix PATH   the same over a Unix socket
  --stdio       stdin and stdout, beside the others
";

/// An argument that was not understood.
///
/// ```
/// use toolyard_tool::{Door, UsageError};
///
/// let error: UsageError = Door::from_args(["--htp".into()]).unwrap_err();
/// assert!(error.to_string().starts_with("`--htp` is not known"));
/// ```
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}\n\n{USAGE}")]
pub struct UsageError(String);

impl Door {
    /// The doors that a program's arguments ask for: `--http ADDR`, `--tcp ADDR`, `--unix PATH`, `--stdio`;
    /// without any, stdio.
    ///
    /// ```
    /// use toolyard_tool::Door;
    ///
    /// let doors = Door::from_args(["--http".into(), "127.0.0.1:8000".into()]).unwrap();
    /// assert_eq!(doors, [Door::Http("127.0.0.1:8000".into())]);
    /// ```
    pub fn from_args(arguments: impl IntoIterator<Item = String>) -> Result<Vec<Self>, UsageError> {
        let (mut doors, mut rest) = (Vec::new(), arguments.into_iter());
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| UsageError(format!("`{argument}` needs a value")));
            doors.push(match argument.as_str() {
                "--stdio" => Self::Stdio,
                "--http" => Self::Http(value()?),
                "--tcp" => Self::Tcp(value()?),
                "--unix" => Self::Unix(value()?.into()),
                other => return Err(UsageError(format!("`{other}` is not known"))),
            });
        }
        if doors.is_empty() {
            doors.push(Self::Stdio);
        }
        Ok(doors)
    }
}
