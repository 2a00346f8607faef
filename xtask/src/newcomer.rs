//! `cargo xtask newcomer`: compares the picture in the README with what the program prints, follows the README from the
//! package to the first answer, and the first section of `docs/guide/writing-a-tool.md` to the letter, in a folder with
//! nothing in it: every command as it is written, every file as it is shown. So the guide works, or this fails.
//! Nothing is there before it but the toolchain with the crates that it has downloaded, Node.js and Claude Code, and
//! nothing is kept: each run takes as long as the first, and prints its time.

mod readme;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::step::step;
use crate::tools::Npm;
use crate::{picture, process, tools, workspace};

const GUIDE: &str = "docs/guide/writing-a-tool.md";
const SECTION: &str = "## From nothing to an answer";

/// What the section does, in its order.
#[derive(Debug, PartialEq)]
enum Act {
    Run(String),
    Write(String, String),
}

pub(crate) fn newcomer() -> Result<()> {
    let guide = fs::read_to_string(workspace::root().join(GUIDE)).context("read the guide")?;
    let acts = acts(&guide)?;
    let npm = step("install Node.js and Claude Code", tools::npm)?;
    step("compare the picture in the README", || picture::picture(&picture::Options::check()))?;
    step("follow the README", || readme::follow(&npm))?;
    let home = tempfile::tempdir().context("make a folder with nothing in it")?;
    let begun = Instant::now();
    let output = step("follow the guide", || {
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", &script(&acts)]).current_dir(home.path());
        process::output(prepare(&mut shell, home.path(), &npm)?)
    })?;
    println!("{output}");
    if !output.contains("Hello, Ann!") {
        bail!("the inspector did not get the answer that the guide promises");
    }
    if !output.contains("✔ Connected") || output.contains("fetch failed") {
        bail!("Claude Code does not say that it is connected");
    }
    println!("from nothing to an answer, with every dependency compiled: {} s", begun.elapsed().as_secs());
    Ok(())
}

/// A home of its own, with the repository where the guide has it; only the toolchain is that of the machine.
fn prepare<'a>(shell: &'a mut Command, home: &Path, npm: &Npm) -> Result<&'a mut Command> {
    std::os::unix::fs::symlink(workspace::root(), home.join("toolyard")).context("place the repository")?;
    let here = |name: &str, folder: &str| {
        let own = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(folder));
        std::env::var_os(name).or(own.map(OsString::from)).unwrap_or_default()
    };
    let node = npm.node.parent().context("find the folder of Node.js")?;
    let mut path = vec![node.to_owned(), npm.claude.clone()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    shell.env("CARGO_HOME", here("CARGO_HOME", ".cargo")).env("RUSTUP_HOME", here("RUSTUP_HOME", ".rustup"));
    shell.env("HOME", home).env("PATH", std::env::join_paths(path)?);
    shell.env("DISABLE_AUTOUPDATER", "1").env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    shell.env("CLAUDE_CONFIG_DIR", home.join("claude")).env("npm_config_cache", home.join("npm"));
    // What is set here for builds must not make this one shorter, or put it elsewhere. An empty wrapper also counts
    // before one that is in the machine's config of cargo.
    let of_builds = std::env::vars_os().map(|(name, _)| name);
    for name in of_builds.filter(|name| name.to_string_lossy().starts_with("CARGO_BUILD_")) {
        shell.env_remove(name);
    }
    shell.env("RUSTC_WRAPPER", "").env("RUSTC_WORKSPACE_WRAPPER", "");
    Ok(shell.env_remove("CARGO_TARGET_DIR").env_remove("CARGO"))
}

fn script(acts: &[Act]) -> String {
    let mut script = String::new();
    for act in acts {
        // A string takes whatever is written to it.
        let _ = match act {
            Act::Run(command) => writeln!(script, "{command}"),
            Act::Write(file, text) => writeln!(script, "cat > {file} <<'END OF FILE'\n{text}END OF FILE"),
        };
    }
    script
}

/// The commands of `console` blocks, and the blocks that stand below the name of a file.
fn acts(guide: &str) -> Result<Vec<Act>> {
    let (_, section) = guide.split_once(SECTION).with_context(|| format!("find `{SECTION}` in {GUIDE}"))?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut acts = Vec::new();
    let mut before = "";
    for (place, part) in section.split("```").enumerate() {
        if place % 2 == 0 {
            before = part.trim().lines().last().unwrap_or_default();
            continue;
        }
        let (language, text) = part.split_once('\n').unwrap_or_default();
        let file = before.strip_prefix('`').and_then(|rest| rest.strip_suffix("`:"));
        match (language, file) {
            ("console", _) => {
                let commands = text.lines().filter_map(|line| line.strip_prefix("$ "));
                acts.extend(commands.map(|command| Act::Run(command.to_owned())));
            }
            (_, Some(file)) => acts.push(Act::Write(file.to_owned(), text.to_owned())),
            _ => {}
        }
    }
    Ok(acts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guide_is_commands_and_files_in_their_order() {
        let guide = format!(
            "# X\n```console\n$ no\n```\n{SECTION}\nGo:\n```console\n$ cargo new a\nCreated\n$ b\n```\n`src/main.rs`:\n\n```rust\nfn main() {{}}\n```\nas in\n```toml\nx = 1\n```\n## More\n```console\n$ no\n```\n"
        );
        let run = |command: &str| Act::Run(command.to_owned());
        let expected =
            [run("cargo new a"), run("b"), Act::Write("src/main.rs".into(), "fn main() {}\n".into())];
        assert_eq!(acts(&guide).unwrap(), expected);
    }
}
