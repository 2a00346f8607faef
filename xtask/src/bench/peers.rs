//! Other gateways in front of the same upstream: installed from the package registries, pinned in `xtask/pins/bench`,
//! and started as in their documentation. One that cannot be installed or does not answer is named and left out.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::contestant::{Contestant, Programs};
use crate::process::Background;
use crate::tools;

/// The program of the `FastMCP` proxy: it has no command for an address.
const FASTMCP: &str = "\
import sys
from fastmcp.server import create_proxy
create_proxy(sys.argv[1]).run(transport='http', host='127.0.0.1', port=int(sys.argv[2]), show_banner=False)
";

const PYTHON: &str = "mcp-proxy 0.13 (Python)";
const FAST: &str = "FastMCP 4.1 proxy";
const NPM: &str = "mcp-proxy 6.7 (npm)";

/// Whether a contestant is one of them.
pub(super) fn is_one(name: &str) -> bool {
    [PYTHON, FAST, NPM].contains(&name)
}

/// Starts all that can be started. Returns who could not be, and why.
pub(super) fn start(
    programs: &Programs,
    origin: &str,
    folder: &Path,
    logs: &Path,
) -> (Vec<(Contestant, Background)>, Vec<String>) {
    let (mut started, mut missing) = (Vec::new(), Vec::new());
    let peers = [(PYTHON, python(programs)), (FAST, fastmcp(origin, folder)), (NPM, npm(programs))];
    for (name, command) in peers {
        match command.and_then(|(command, port)| run(name, command, port, logs)) {
            Ok(peer) => started.push(peer),
            Err(error) => missing.push(format!("{name} is not measured: {error:#}")),
        }
    }
    (started, missing)
}

fn run(name: &'static str, mut command: Command, port: u16, logs: &Path) -> Result<(Contestant, Background)> {
    let file = name.split(' ').next().unwrap_or_default().to_lowercase();
    let process = Background::start(name, &mut command, &logs.join(format!("peer-{file}-{port}.log")))?;
    let contestant = Contestant::plain(name, &format!("http://127.0.0.1:{port}"), Some(process.id()));
    Ok((contestant, process))
}

/// None of them can say which port it got, so a free one is chosen.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn python(programs: &Programs) -> Result<(Command, u16)> {
    let (python, port) = (tools::bench_python()?, free_port()?);
    let mut command = Command::new(python.with_file_name("mcp-proxy"));
    command.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--"]);
    command.arg(programs.folder.join("bench-upstream")).args(Programs::stdio_upstream());
    Ok((command, port))
}

fn fastmcp(origin: &str, folder: &Path) -> Result<(Command, u16)> {
    let (python, port) = (tools::bench_python()?, free_port()?);
    let program = folder.join("fastmcp_proxy.py");
    fs::write(&program, FASTMCP).context("write the program of the `FastMCP` proxy")?;
    let mut command = Command::new(python);
    command.arg(program).arg(format!("{origin}/mcp")).arg(port.to_string());
    Ok((command, port))
}

fn npm(programs: &Programs) -> Result<(Command, u16)> {
    let (folder, port) = (tools::bench_npm()?, free_port()?);
    let mut command = Command::new(folder.join("mcp-proxy"));
    command.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--server", "stream", "--"]);
    command.arg(programs.folder.join("bench-upstream")).args(Programs::stdio_upstream());
    Ok((command, port))
}
