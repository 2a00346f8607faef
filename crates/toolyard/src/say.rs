//! Prints messages to people. This is the only place that prints: stdout can be a transport, so nothing else may use
//! it.
//!
//! A command does not stop where its output cannot be written: the first error is kept, and `finish` reports it
//! when the command has ended.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use toolyard_proto::visible;

use crate::logging;

/// A line on stderr.
pub(crate) fn line(text: impl Display) {
    if logging::is_for_programs() {
        tracing::info!(target: "program", "{text}");
        return;
    }
    let _ = writeln!(io::stderr(), "{}", shown(text));
}

/// Whether anything was printed on stdout here. A command that serves writes to it in its own way, and a thread of it may
/// hold the lock of stdout for as long as its client reads nothing.
static IS_USED: AtomicBool = AtomicBool::new(false);

/// Why stdout could not be written. Nothing is written to it afterwards.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// The result of a command, on stdout. Not for commands that serve.
pub(crate) fn result(text: impl Display) {
    raw(format!("{}\n", shown(text)).as_bytes());
}

/// The same as JSON, for programs.
pub(crate) fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    raw(format!("{}\n", visible::json(&text)).as_bytes());
    Ok(())
}

/// Text as it is, with nothing added.
pub(crate) fn raw(bytes: &[u8]) {
    IS_USED.store(true, Ordering::Relaxed);
    if !is_lost() {
        keep_error(io::stdout().write_all(bytes));
    }
}

/// Whether stdout can no longer be written; a command that follows something ends then.
pub(crate) fn is_lost() -> bool {
    LOST.get().is_some()
}

/// Writes what is still buffered, and reports whether everything could be written. A reader that has gone (`| head`)
/// is not an error.
pub(crate) fn finish() -> anyhow::Result<()> {
    if IS_USED.load(Ordering::Relaxed) && !is_lost() {
        keep_error(io::stdout().flush());
    }
    match LOST.get() {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            anyhow::bail!("the output could not be written completely: {error}")
        }
        _ => Ok(()),
    }
}

/// Keeps the first error of stdout for `finish`.
pub(crate) fn keep_error(written: io::Result<()>) {
    if let Err(error) = written {
        // The first error is the cause of the others.
        let _ = LOST.set(error);
    }
}

/// Whether there is a terminal to ask the user on.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal()
}

/// Whether the user at the terminal confirms; false without a terminal.
pub(crate) fn agreed(question: impl Display) -> bool {
    if !can_ask() {
        return false;
    }
    line(format_args!("{question}? [y/N]"));
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// A line of a terminal that is replaced.
pub(crate) fn passing(text: impl Display) {
    let mut stderr = io::stderr();
    let _ = write!(stderr, "\r\x1b[K{}", visible::line(&text.to_string())).and_then(|()| stderr.flush());
}

/// Rows in columns; the last column has any width.
pub(crate) fn table<const N: usize>(rows: &[[String; N]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{:width$}", visible::line(cell)));
        result(cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

/// The escape sequences that this program writes itself: the end of a colour, and each colour.
const OWN_SEQUENCES: [u8; 4] = [0, Colour::Red as u8, Colour::Green as u8, Colour::Yellow as u8];

/// Text for a terminal. Names, descriptions and results come from others, so nothing but our own colours may act
/// on the terminal.
fn shown(text: impl Display) -> String {
    let mut text = visible::lines(&text.to_string()).into_owned();
    if text.contains("\\u{1b}[") {
        for code in OWN_SEQUENCES {
            text = text.replace(&format!("\\u{{1b}}[{code}m"), &format!("\x1b[{code}m"));
        }
    }
    text
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
}

/// Coloured on a terminal, plain everywhere else. Colours never say anything that the text does not.
pub(crate) fn coloured(text: &str, colour: Colour) -> String {
    if io::stdout().is_terminal() && colours_are_wanted() {
        format!("\x1b[{}m{text}\x1b[0m", colour as u8)
    } else {
        text.to_owned()
    }
}

/// Whether the environment allows colours: `NO_COLOR` is not set, and the terminal is not `dumb`.
pub(crate) fn colours_are_wanted() -> bool {
    wants_colours(|name| std::env::var_os(name))
}

fn wants_colours(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_off = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    !is_off && variable("TERM").is_none_or(|terminal| terminal != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dumb_terminal_and_no_color_get_no_colours() {
        let with = |name: &'static str, value: &'static str| {
            wants_colours(move |asked| (asked == name).then(|| OsString::from(value)))
        };
        assert!(with("TERM", "xterm") && with("OTHER", "") && with("NO_COLOR", ""));
        assert!(!with("TERM", "dumb") && !with("NO_COLOR", "1"));
    }
}
