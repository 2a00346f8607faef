//! The guide, followed to the letter: its config, its commands in one shell, and the output that it shows.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::doors::masked;

const MARK: &str = "--- next command ---";

/// A command and what it prints.
struct Shown {
    command: String,
    prints: Vec<String>,
}

fn guide() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/music.md")).unwrap()
}

/// The blocks of a kind, one after the other.
fn blocks(guide: &str, kind: &str) -> Vec<String> {
    let parts = guide.split("```").skip(1).step_by(2);
    parts.filter_map(|block| block.strip_prefix(kind)?.strip_prefix('\n')).map(ToOwned::to_owned).collect()
}

/// `$` begins a command, `>` goes on with it.
fn commands_in(guide: &str) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    for block in blocks(guide, "console") {
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                commands.push(Shown { command: command.to_owned(), prints: Vec::new() });
            } else if let Some(more) = line.strip_prefix("> ") {
                commands.last_mut().unwrap().command.extend(["\n", more]);
            } else {
                commands.last_mut().unwrap().prints.push(line.to_owned());
            }
        }
    }
    commands
}

/// Sizes differ from one version of ffmpeg to the next.
fn same(line: &str) -> String {
    let masked = masked(line);
    match masked.split_once(" bytes") {
        Some((size, rest)) if size.bytes().all(|byte| byte.is_ascii_digit()) => format!("N bytes{rest}"),
        _ => masked,
    }
}

#[test]
fn the_guide_to_a_tidy_library_works_as_it_is_written() {
    let (home, guide) = (tempfile::tempdir().unwrap(), guide());
    let (config, programs) = (home.path().join(".config/toolyard"), home.path().join("bin"));
    fs::create_dir_all(&config).unwrap();
    fs::create_dir_all(&programs).unwrap();
    fs::write(config.join("config.toml"), &blocks(&guide, "toml")[0]).unwrap();
    symlink(env!("CARGO_BIN_EXE_toolyard"), programs.join("toolyard")).unwrap();
    let commands = commands_in(&guide);
    let mark = format!("\necho '{MARK}'\n");
    let script: String = commands.iter().flat_map(|shown| [shown.command.as_str(), &mark]).collect();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-e", "-c", &script]).current_dir(home.path()).env_clear();
    bash.env("PATH", path).env("HOME", home.path()).env("XDG_RUNTIME_DIR", home.path());
    let output = bash.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    for (shown, printed) in commands.iter().zip(printed.split(&format!("{MARK}\n"))) {
        let (printed, expected): (Vec<String>, Vec<String>) =
            (printed.lines().map(same).collect(), shown.prints.iter().map(|line| same(line)).collect());
        assert_eq!(printed, expected, "{}", shown.command);
    }
    assert!(commands.len() >= 14, "the guide has {} commands", commands.len());
}
