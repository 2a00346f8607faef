//! What the program says to people. The only place that prints, so that nothing else ever does: stdout can
//! be a transport.
//!
//! Nobody listening is no reason to stop, so writing never fails.

use std::fmt::Display;
use std::io::Write;

/// A line on stderr.
pub(crate) fn line(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// What a command was asked for, on stdout. Not for commands that serve.
pub(crate) fn result(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
