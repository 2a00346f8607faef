//! `cargo xtask picture`: the picture of a terminal in the README, made from what the program really prints. With
//! `--check`, the text in the picture is compared with it; `cargo xtask newcomer` does that.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process;
use crate::workspace::{self, Profile};

const PICTURE: &str = "docs/pictures/terminal.svg";
/// What is typed, in this order.
const COMMANDS: [&str; 5] = [
    "toolyard import claude --yes",
    "toolyard install claude --yes",
    "toolyard list",
    "toolyard tools call notes:hash text=hello",
    "toolyard tools call notes:hash",
];
/// How many characters a line of the terminal has.
const COLUMNS: usize = 80;
/// The sizes of a character and of the space around the text.
const WIDTH: f64 = 8.4;
const LINE: usize = 20;
const SPACE: usize = 16;

#[derive(Default, clap::Args)]
pub(crate) struct Options {
    /// Use this program instead of building one.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Do not make the picture; fail if its text is not what the program prints.
    #[arg(long)]
    check: bool,
}

impl Options {
    pub(crate) fn check() -> Self {
        Self { check: true, ..Self::default() }
    }
}

pub(crate) fn picture(options: &Options) -> Result<()> {
    let program = match &options.binary {
        Some(program) => program.clone(),
        None => workspace::build("toolyard", Profile::Dev)?.join("toolyard"),
    };
    let lines = session(&fs::canonicalize(program).context("find the program")?)?;
    let path = workspace::root().join(PICTURE);
    if options.check {
        return check(&fs::read_to_string(path).context("read the picture")?, &lines);
    }
    fs::write(path, drawn(&lines)).context("write the picture")?;
    println!("wrote {PICTURE}");
    Ok(())
}

/// The commands and what they print; `true` for a command.
fn session(program: &Path) -> Result<Vec<(bool, String)>> {
    let home = tempfile::tempdir().context("make a home with nothing in it")?;
    let config = serde_json::json!({ "mcpServers": { "notes": { "command": "notes", "args": [] } } });
    fs::write(home.path().join(".claude.json"), config.to_string())
        .context("write the config of a client")?;
    write_server(home.path(), program)?;
    let mut lines = Vec::new();
    for command in COMMANDS {
        lines.push((true, format!("$ {command}")));
        let printed = printed(command, home.path(), program)?;
        lines.extend(printed.lines().flat_map(wrapped).map(|line| (false, line)));
    }
    Ok(lines)
}

/// A line as the terminal shows it, but with no word cut in two.
fn wrapped(line: &str) -> Vec<String> {
    let (mut rest, mut lines) = (line, Vec::new());
    while let Some((end, _)) = rest.char_indices().nth(COLUMNS) {
        let cut = rest[..end].rfind(' ').map_or(end, |space| space + 1);
        lines.push(rest[..cut].trim_end().to_owned());
        rest = &rest[cut..];
    }
    lines.push(rest.to_owned());
    lines
}

/// Fails with the first line that differs. Sizes and colours may differ.
fn check(picture: &str, lines: &[(bool, String)]) -> Result<()> {
    let (shown, drawn) = (texts(picture), drawn(lines));
    let printed = texts(&drawn);
    let longest = shown.len().max(printed.len());
    for line in 0..longest {
        let (shown, printed) = (shown.get(line), printed.get(line));
        if shown != printed {
            bail!(
                "{PICTURE} shows {:?} where the program prints {:?}: run `cargo xtask picture`",
                shown.unwrap_or(&"nothing"),
                printed.unwrap_or(&"nothing")
            );
        }
    }
    Ok(())
}

fn texts(svg: &str) -> Vec<&str> {
    let lines = svg.split("<text ").skip(1);
    lines.filter_map(|line| line.split_once('>')?.1.split_once("</text>").map(|(text, _)| text)).collect()
}

/// A server of the user: the tools of a pack, under another name.
fn write_server(home: &Path, program: &Path) -> Result<()> {
    let bin = home.join("bin");
    fs::create_dir(&bin)?;
    std::os::unix::fs::symlink(program, bin.join("toolyard")).context("place the program")?;
    let script = bin.join("notes");
    fs::write(&script, "#!/bin/sh\nexec toolyard pack dev\n")?;
    process::run(Command::new("chmod").arg("+x").arg(&script))
}

/// What a command prints, with the home under a name that can be shown.
fn printed(command: &str, home: &Path, program: &Path) -> Result<String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{command} 2>&1")]).current_dir(home).env_clear().env("HOME", home);
    let path = format!("{}:/usr/bin:/bin", home.join("bin").display());
    let output = process::capture(shell.env("PATH", path))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let program = program.display().to_string();
    Ok(text.replace(&program, "/usr/bin/toolyard").replace(&home.display().to_string(), "/home/you"))
}

#[expect(clippy::cast_precision_loss, reason = "a picture has few lines")]
fn drawn(lines: &[(bool, String)]) -> String {
    let longest = lines.iter().map(|(_, line)| line.chars().count()).max().unwrap_or(0);
    let width = longest as f64 * WIDTH + 2.0 * SPACE as f64;
    let height = lines.len() * LINE + 2 * SPACE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height}\" font-family=\"ui-monospace, monospace\" font-size=\"14\" xml:space=\"preserve\">\n<rect width=\"{width:.0}\" height=\"{height}\" rx=\"8\" fill=\"#14181d\"/>\n"
    );
    for (place, (is_command, line)) in lines.iter().enumerate() {
        let y = SPACE + place * LINE + 14;
        let colour = if *is_command { "#7fd1ae" } else { "#d7dde4" };
        let text = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = writeln!(svg, "<text x=\"{SPACE}\" y=\"{y}\" fill=\"{colour}\">{text}</text>");
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_continued_in_the_next() {
        let word = "123456789 ".repeat(8);
        assert_eq!(wrapped(word.trim_end()), [word.trim_end()]);
        assert_eq!(wrapped(&format!("{word}ab c")), [word.trim_end(), "ab c"]);
        assert_eq!(wrapped(&"x".repeat(81)), ["x".repeat(80).as_str(), "x"]);
    }

    #[test]
    fn a_picture_of_other_text_is_refused() {
        let line = |text: &str| (false, text.to_owned());
        let lines = [(true, "$ toolyard list".to_owned()), line("NAME  HOW"), line("a <b>")];
        let picture = drawn(&lines).replace("#14181d", "#000000");
        check(&picture, &lines).unwrap();
        check(&picture, &lines[..2]).unwrap_err();
        let others = [&lines[..2], &[line("a <c>")]].concat();
        let error = check(&picture, &others).unwrap_err().to_string();
        assert!(error.contains(r#"shows "a &lt;b&gt;" where the program prints "a &lt;c&gt;""#), "{error}");
    }
}
