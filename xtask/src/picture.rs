//! `cargo xtask picture`: the picture of a terminal in the README, made from what the program really prints.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

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
/// The sizes of a character and of the space around the text.
const WIDTH: f64 = 8.4;
const LINE: usize = 20;
const SPACE: usize = 16;

pub(crate) fn picture(binary: Option<PathBuf>) -> Result<()> {
    let program = match binary {
        Some(program) => program,
        None => workspace::build("toolyard", Profile::Dev)?.join("toolyard"),
    };
    let program = fs::canonicalize(program).context("find the program")?;
    let home = tempfile::tempdir().context("make a home with nothing in it")?;
    let config = serde_json::json!({ "mcpServers": { "notes": { "command": "notes", "args": [] } } });
    fs::write(home.path().join(".claude.json"), config.to_string())
        .context("write the config of a client")?;
    write_server(home.path(), &program)?;
    let mut lines = Vec::new();
    for command in COMMANDS {
        lines.push((true, format!("$ {command}")));
        lines.extend(printed(command, home.path(), &program)?.lines().map(|line| (false, line.to_owned())));
    }
    fs::write(workspace::root().join(PICTURE), drawn(&lines)).context("write the picture")?;
    println!("wrote {PICTURE}");
    Ok(())
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
