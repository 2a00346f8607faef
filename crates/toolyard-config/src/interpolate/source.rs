//! Values that are kept elsewhere: in a file, or behind a command that prints them. Both are bounded, and neither the
//! value nor what a command prints is ever part of a message.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::system;

/// How many bytes a value may have.
const LONGEST: u64 = 64 * 1024;
/// How long a command may take. A password manager may ask its user first.
const LIMIT: Duration = Duration::from_secs(30);
/// How often it is looked whether a command has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// The text of a file, without the line break at its end.
pub(crate) fn read_file(path: &Path) -> Result<String, String> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        _ => error.to_string(),
    };
    text(read_bounded(system::open_file(path).map_err(failed)?).map_err(failed)?)
}

/// Runs a command without a shell and returns what it prints, without the line break at its end. The error reports
/// why there is no value.
pub fn run_command(line: &str) -> Result<String, String> {
    let words = words(line)?;
    let Some((program, arguments)) = words.split_first() else { return Err("it is empty".to_owned()) };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    system::lead_group(&mut command);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("there is no program `{program}` on the PATH"),
        _ => format!("`{program}` cannot be run: {error}"),
    })?;
    match wait(&mut child, LIMIT) {
        // A program that is not read to its end fails for that, which is not the reason to report.
        Ok((status, printed)) if status.success() || printed.is_err() => text(printed?),
        Ok((status, _)) => Err(format!("`{program}` failed: {status}")),
        Err(why) => Err(format!("`{program}` {why}")),
    }
}

type Printed = (std::process::ExitStatus, Result<Vec<u8>, String>);

/// How the command ended and what it printed, within the limit. What it has started does not stay.
fn wait(child: &mut Child, limit: Duration) -> Result<Printed, String> {
    let deadline = Instant::now() + limit;
    let late = || format!("did not end within {} s", limit.as_secs());
    let (sender, receiver) = mpsc::channel();
    let Some(stdout) = child.stdout.take() else { return Err(late()) };
    // Ends with the output, which ends with the group at the latest.
    std::thread::spawn(move || sender.send(read_bounded(stdout).map_err(|error| error.to_string())));
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            system::kill_group(child);
            let left = deadline.saturating_duration_since(Instant::now());
            return receiver.recv_timeout(left).map(|printed| (status, printed)).map_err(|_| late());
        }
        if Instant::now() >= deadline {
            system::kill_group(child);
            let _ = child.wait();
            return Err(late());
        }
        std::thread::sleep(PAUSE);
    }
}

fn read_bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other(format!("it is longer than {LONGEST} bytes")));
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    let mut text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    if text.is_empty() { Err("it is empty".to_owned()) } else { Ok(text) }
}

/// The words of a command line; quotes keep spaces.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut is_word = false;
    for letter in line.chars() {
        match (quote, letter) {
            (None, '"' | '\'') => (quote, is_word) = (Some(letter), true),
            (Some(open), _) if open == letter => quote = None,
            (None, _) if letter.is_whitespace() => {
                words.extend(std::mem::take(&mut is_word).then(|| std::mem::take(&mut word)));
            }
            _ => {
                word.push(letter);
                is_word = true;
            }
        }
    }
    words.extend(is_word.then_some(word));
    if quote.is_some() { Err("a quote is not closed".to_owned()) } else { Ok(words) }
}

/// The variables of an env file: `NAME=value` a line, with quotes, comments and `export` as shells have them. Nothing
/// in it is expanded. The error reports the line.
pub(crate) fn read_env_file(path: &Path) -> Result<Vec<(String, String)>, EnvFileError> {
    let file = system::open_file(path).map_err(EnvFileError::Read)?;
    let bytes = read_bounded(file).map_err(EnvFileError::Read)?;
    let text =
        String::from_utf8(bytes).map_err(|_| EnvFileError::Read(io::Error::other("it is not UTF-8 text")))?;
    parse_env(&text)
}

/// A mistake in an env file.
#[derive(Debug)]
pub(crate) enum EnvFileError {
    Read(io::Error),
    /// The number of the line that is not a variable.
    Line(usize),
}

fn parse_env(text: &str) -> Result<Vec<(String, String)>, EnvFileError> {
    let mut variables: Vec<(String, String)> = Vec::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = variable(line).ok_or(EnvFileError::Line(number + 1))?;
        variables.retain(|(other, _)| *other != name);
        variables.push((name, value));
    }
    Ok(variables)
}

fn variable(line: &str) -> Option<(String, String)> {
    let line = line.strip_prefix("export ").map_or(line, str::trim_start);
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    let value = value.trim_start();
    let value = match value.chars().next() {
        Some('\'') => value[1..].split_once('\'').filter(|(_, rest)| is_comment(rest))?.0.to_owned(),
        Some('"') => double_quoted(&value[1..])?,
        _ => value.find(" #").map_or(value, |comment| &value[..comment]).trim_end().to_owned(),
    };
    (is_name && !value.contains('\0')).then(|| (name.to_owned(), value))
}

fn double_quoted(text: &str) -> Option<String> {
    let (mut value, mut letters) = (String::new(), text.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return is_comment(&text[at + 1..]).then_some(value),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                other @ ('"' | '\\' | '$' | '`') => value.push(other),
                other => value.extend(['\\', other]),
            },
            other => value.push(other),
        }
    }
    None
}

fn is_comment(rest: &str) -> bool {
    let rest = rest.trim_start();
    rest.is_empty() || rest.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_env_file_is_read_as_shells_read_it_without_expansion() {
        let text = "\u{feff}# a comment\n\nA=1\nexport B = two words # why\nC='$x # y' # z\nD=\"a\\n\\\"b\\\" $x\"\nE=\nA=2\r\n";
        let expected = [("B", "two words"), ("C", "$x # y"), ("D", "a\n\"b\" $x"), ("E", ""), ("A", "2")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(parse_env(text).unwrap(), expected);
        for wrong in ["A", "=1", "A B=1", "A='x", "A=\"x", "A='x' y"] {
            assert!(matches!(parse_env(&format!("X=1\n{wrong}\n")), Err(EnvFileError::Line(2))), "{wrong}");
        }
    }

    #[test]
    fn quotes_keep_the_spaces_of_a_word() {
        let expected = ["npx", "-y", "my server", "a bc", ""].map(str::to_owned).to_vec();
        assert_eq!(words("npx -y  'my server' \"a b\"c ''"), Ok(expected));
        assert_eq!(words("  "), Ok(Vec::new()));
        assert_eq!(words("npx 'my server"), Err("a quote is not closed".to_owned()));
    }

    #[cfg(unix)]
    #[test]
    fn a_command_is_bounded_in_time_and_output_and_leaves_nothing_running() {
        assert_eq!(run_command("printf '%s %s\\n' 'a b' c"), Ok("a b c".to_owned()));
        assert_eq!(
            run_command("sh -c 'sleep 600 & echo x'").as_deref(),
            Ok("x"),
            "it does not wait for others"
        );
        assert_eq!(run_command("sh -c 'echo secret; exit 3'"), Err("`sh` failed: exit status: 3".to_owned()));
        assert_eq!(run_command("head -c 70000 /dev/zero"), Err("it is longer than 65536 bytes".to_owned()));
        assert_eq!(
            run_command("no-such-program x"),
            Err("there is no program `no-such-program` on the PATH".to_owned())
        );
        assert_eq!(run_command("true"), Err("it is empty".to_owned()));
        assert_eq!(run_command("echo 'x"), Err("a quote is not closed".to_owned()));
        let mut command = Command::new("sleep");
        system::lead_group(command.arg("600").stdout(Stdio::piped()));
        let mut child = command.spawn().unwrap();
        let late = wait(&mut child, Duration::from_millis(20)).map(|_| ());
        assert_eq!(late, Err("did not end within 0 s".to_owned()));
        assert!(child.try_wait().unwrap().is_some(), "it was ended");
    }
}
