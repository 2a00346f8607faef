//! Follows the README as a user does: the tarball of `cargo xtask dist` unpacked, a home in which Claude Code has one
//! server, the commands of "Three commands" as they are written, and a call of a tool.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::tools::Npm;
use crate::workspace::{self, Profile};
use crate::{dist, process};

const SECTION: &str = "## Three commands";

pub(super) fn follow(npm: &Npm) -> Result<()> {
    let readme = fs::read_to_string(workspace::root().join("README.md")).context("read the README")?;
    let commands = commands(&readme)?;
    let program = workspace::build("toolyard", Profile::Dev)?.join("toolyard");
    let home = tempfile::tempdir().context("make a home with nothing in it")?;
    let tarball = dist::tarball_of(&program, &home.path().join("dist"))?;
    let begun = Instant::now();
    let prefix = home.path().join("prefix");
    fs::create_dir(&prefix)?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--file"]).arg(&tarball).arg("--directory").arg(&prefix);
    process::run(&mut tar)?;
    write_client(home.path(), npm)?;
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &commands.join("\n")]).current_dir(home.path());
    let mut path = vec![prefix, npm.node.parent().context("find the folder of Node.js")?.to_owned()];
    path.extend(["/usr/bin".into(), "/bin".into()]);
    shell.env_clear().env("HOME", home.path()).env("PATH", std::env::join_paths(path)?);
    let printed = process::output(&mut shell)?;
    println!("{printed}");
    for expected in ["everything", "restart Claude Code to use it", "The sum of 1 and 2 is 3."] {
        if !printed.contains(expected) {
            bail!("the README promises more than its commands print: `{expected}` is missing");
        }
    }
    println!("from the package to the first answer: {} s", begun.elapsed().as_secs());
    Ok(())
}

/// Claude Code with one server, as many users have it.
fn write_client(home: &Path, npm: &Npm) -> Result<()> {
    let server = npm.folder.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let entry = serde_json::json!({ "command": npm.node, "args": [server, "stdio"] });
    let config = serde_json::json!({ "mcpServers": { "everything": entry } });
    fs::write(home.join(".claude.json"), config.to_string()).context("write the config of Claude Code")
}

/// The commands of the section, and the call that the text below it names. There is no terminal to confirm at, so the
/// two commands that ask get `--yes`.
fn commands(readme: &str) -> Result<Vec<String>> {
    let (_, section) = readme.split_once(SECTION).with_context(|| format!("find `{SECTION}`"))?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let block = section.split("```").nth(1).context("find the commands")?;
    let written = block.lines().filter_map(|line| line.strip_prefix("$ "));
    let written = written.map(|line| line.split('#').next().unwrap_or_default().trim().to_owned());
    let call = section.split('`').find(|text| text.starts_with("toolyard tools call"));
    let call = call.context("find the call of a tool")?.to_owned();
    let asks = |line: &str| line.starts_with("toolyard import") || line.starts_with("toolyard install");
    Ok(written.chain([call]).map(|line| if asks(&line) { line + " --yes" } else { line }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_the_readme_are_found() {
        let readme = fs::read_to_string(workspace::root().join("README.md")).unwrap();
        let expected = [
            "toolyard import --yes",
            "toolyard install claude --yes",
            "toolyard list",
            "toolyard tools call get-sum a=1 b=2",
        ];
        assert_eq!(commands(&readme).unwrap(), expected);
    }
}
