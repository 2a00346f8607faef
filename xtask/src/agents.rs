//! `cargo xtask agents`: Claude Code, Codex, Gemini CLI and OpenCode as agents of the gateway, offline.
//!
//! Installs the programs that `xtask/agents/package.json` pins, with adapters of the Agent Client Protocol for the first
//! two, puts them on `PATH` and runs the test target `agents` of the package `toolyard`, in which a model on this machine
//! answers them. Where the user may make a network namespace, the tests run in one that has only the loopback interface.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::step::step;
use crate::{offline, process, tools, workspace};

pub(crate) fn agents() -> Result<()> {
    workspace::require_target("toolyard", "test", "agents")?;
    let npm = step("install the agents", || tools::npm_folder("agents"))?;
    let bin = programs(&npm.join("node_modules"))?;
    let mut path = OsString::from(bin);
    if let Some(usual) = std::env::var_os("PATH") {
        path.push(":");
        path.push(usual);
    }
    let target = ["--package", "toolyard", "--test", "agents"];
    step("build the tests", || process::run(workspace::cargo().args(["test", "--no-run"]).args(target)))?;
    let mut tests = workspace::cargo();
    tests.args(["test", "--offline"]).args(target);
    tests.args(["--", "--ignored", "--test-threads=1", "--nocapture"]);
    process::run(offline::if_possible(tests).env("PATH", path))
}

/// A folder with all programs under their usual names.
fn programs(modules: &Path) -> Result<PathBuf> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => bail!("the agents have no programs for {other}"),
    };
    let bin = workspace::tools_directory()?.join("agents-bin");
    if bin.exists() {
        fs::remove_dir_all(&bin).context("remove the old links")?;
    }
    fs::create_dir_all(&bin).context("make a folder for links")?;
    let codex = fs::read_dir(modules.join(format!("@openai/codex-linux-{arch}/vendor")))
        .context("look for codex")?
        .filter_map(|entry| Some(entry.ok()?.path().join("bin/codex")))
        .find(|path| path.is_file())
        .context("find codex")?;
    for (name, program) in [
        ("claude", modules.join(format!("@anthropic-ai/claude-code-linux-{arch}/claude"))),
        ("codex", codex),
        ("gemini", modules.join("@google/gemini-cli/bundle/gemini.js")),
        ("opencode", modules.join(format!("opencode-linux-{arch}/bin/opencode"))),
        ("claude-agent-acp", modules.join("@agentclientprotocol/claude-agent-acp/dist/index.js")),
        ("codex-acp", modules.join("@agentclientprotocol/codex-acp/dist/index.js")),
        ("node", modules.join(format!("node-linux-{arch}/bin/node"))),
    ] {
        if !program.is_file() {
            bail!("`{name}` is not at {}", program.display());
        }
        symlink(&program, bin.join(name)).with_context(|| format!("link `{name}`"))?;
    }
    Ok(bin)
}
