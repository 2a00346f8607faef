//! `cargo xtask peers`: real clients and servers of other makers, listing and calling through the gateway.
//!
//! Installs the pinned peers of `xtask/pins` and runs the test targets `peers`, `peers_doors` and `fidelity` of
//! the package `toolyard`.
//! The tests learn where the peers are from the environment:
//!
//! | variable | what it names | what is there |
//! |---|---|---|
//! | `TOOLYARD_PEERS_PYTHON` | a Python interpreter | `import mcp` (client and server SDK) |
//! | `TOOLYARD_PEERS_NODE` | a Node.js 22 program | run scripts with it |
//! | `TOOLYARD_PEERS_NPM` | the folder that holds `node_modules` | `@modelcontextprotocol/client`, `@modelcontextprotocol/server-everything`, the Inspector, `mcp-remote`, Claude Code, `typescript` with the types of Node.js |
//!
//! A script that imports the npm packages must lie where Node looks for them: write it to a file in
//! `TOOLYARD_PEERS_NPM` (imports are resolved from the script's own folder upwards), or pass it with
//! `--input-type=module --eval` and that folder as working directory.
//! The server is `node_modules/@modelcontextprotocol/server-everything/dist/index.js stdio`, or
//! `… streamableHttp` with the variable `PORT`.
//! The tests that need them are marked `#[ignore]` with that reason: a plain `cargo test` counts them as ignored,
//! and this command runs them and no others.

use anyhow::Result;

use crate::step::step;
use crate::{process, tools, workspace};

pub(crate) fn peers() -> Result<()> {
    workspace::require_target("toolyard", "test", "peers")?;
    let npm = step("install the npm peers", tools::npm)?;
    let python = step("install the Python peers", tools::python)?;
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--package", "toolyard", "--test", "peers", "--test", "peers_doors"]);
    cargo.args(["--test", "fidelity", "--", "--ignored"]);
    cargo.env("TOOLYARD_PEERS_PYTHON", python);
    cargo.env("TOOLYARD_PEERS_NODE", npm.node);
    cargo.env("TOOLYARD_PEERS_NPM", npm.folder);
    process::run(&mut cargo)
}
