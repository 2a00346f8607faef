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

/// The config of the proxy in Rust; its own defaults apply to everything else.
const RUST_CONFIG: &str = "\
[proxy]
name = 'bench'
[proxy.listen]
host = '127.0.0.1'
port = PORT
[[backends]]
name = 'bench'
transport = 'http'
url = 'ORIGIN/mcp'
";

const PYTHON: &str = "mcp-proxy 0.13 (Python)";
const FAST: &str = "FastMCP 4.1 proxy";
const NPM: &str = "mcp-proxy 6.7 (npm)";
const SUPER: &str = "supergateway 4.0";
const RUST: &str = "mcp-proxy 0.6 (Rust)";

/// Gateways that cannot be measured in this way, and why; the page names them.
const LEFT_OUT: [&str; 4] = [
    "mcp-hub 4.2 (npm) is not measured: it offers only the old HTTP+SSE transport, which the load client does not speak",
    "ContextForge 1.0 (PyPI) is not measured: upstreams are added through its API, for which it first requires an account and a new password by hand",
    "mcp-gateway 4.0 (Rust) is not measured: its licence allows noncommercial use only",
    "agentgateway is not measured: it is in no package registry",
];

/// Whether a contestant is one of them.
pub(super) fn is_one(name: &str) -> bool {
    [PYTHON, FAST, NPM, SUPER, RUST].contains(&name)
}

/// Starts all that can be started. Returns who could not be, and why.
pub(super) fn start(
    programs: &Programs,
    origin: &str,
    folder: &Path,
    logs: &Path,
) -> (Vec<(Contestant, Background)>, Vec<String>) {
    let (mut started, mut missing) = (Vec::new(), Vec::from(LEFT_OUT.map(str::to_owned)));
    let peers = [
        (PYTHON, python(programs)),
        (FAST, fastmcp(origin, folder)),
        (NPM, npm(programs)),
        (SUPER, supergateway(programs)),
        (RUST, rust(origin, folder)),
    ];
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
    let origin = format!("http://127.0.0.1:{port}");
    let contestant = match name {
        RUST => Contestant::at_root(name, &origin, "bench/", process.id()),
        _ => Contestant::plain(name, &origin, Some(process.id())),
    };
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

fn supergateway(programs: &Programs) -> Result<(Command, u16)> {
    let (folder, port) = (tools::bench_npm()?, free_port()?);
    let upstream = programs.folder.join("bench-upstream");
    let line = format!("'{}' {}", upstream.display(), Programs::stdio_upstream().join(" "));
    let mut command = Command::new(folder.join("supergateway"));
    // Without sessions it starts the upstream again for each request.
    command.args(["--stdio", &line, "--outputTransport", "streamableHttp", "--stateful"]);
    command.args(["--port", &port.to_string(), "--logLevel", "none"]);
    Ok((command, port))
}

fn rust(origin: &str, folder: &Path) -> Result<(Command, u16)> {
    let (program, port) = (tools::bench_cargo("mcp-proxy")?, free_port()?);
    let config = folder.join("mcp-proxy.toml");
    let text = RUST_CONFIG.replace("PORT", &port.to_string()).replace("ORIGIN", origin);
    fs::write(&config, text).context("write the config of mcp-proxy")?;
    let mut command = Command::new(program);
    command.arg("--config").arg(config);
    Ok((command, port))
}
