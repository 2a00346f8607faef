//! Prints messages to people. This is the only place that prints: stdout can be a transport, so nothing else may use
//! it.
//!
//! A closed output is no reason to stop, so writing never fails.

use std::fmt::Display;
use std::io::{BufRead, IsTerminal, Write};

use toolyard_proto::visible;

use crate::logging;

/// A line on stderr.
pub(crate) fn line(text: impl Display) {
    if logging::is_for_programs() {
        tracing::info!(target: "program", "{text}");
        return;
    }
    let _ = writeln!(std::io::stderr(), "{}", shown(text));
}

/// The result of a command, on stdout. Not for commands that serve.
pub(crate) fn result(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{}", shown(text));
}

/// The same as JSON, for programs.
pub(crate) fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    raw(format!("{}\n", visible::json(&text)).as_bytes());
    Ok(())
}

/// Text as it is, with nothing added.
pub(crate) fn raw(bytes: &[u8]) {
    let _ = std::io::stdout().write_all(bytes);
}

/// Whether the user at the terminal confirms; false without a terminal.
pub(crate) fn agreed(question: impl Display) -> bool {
    if !std::io::stdin().is_terminal() {
        return false;
    }
    line(format_args!("{question}? [y/N]"));
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// A line of a terminal that is replaced.
pub(crate) fn passing(text: impl Display) {
    let mut stderr = std::io::stderr();
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
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted && std::io::stdout().is_terminal() {
        format!("\x1b[{}m{text}\x1b[0m", colour as u8)
    } else {
        text.to_owned()
    }
}
