//! Knows Toolyard among the servers of a client.

use std::net::{IpAddr, SocketAddr};

use crate::Reach;
use crate::definition::Definition;

/// Whether it leads to a gateway of ours. A pack alone is none.
pub fn leads_to_toolyard(definition: &Definition) -> bool {
    let Definition { command, args, url, .. } = definition;
    let does = args.iter().find(|word| ["pack", "serve", "stdio"].contains(&word.as_str()));
    let runs = command.as_deref().is_some_and(|command| match does.map(String::as_str) {
        Some("pack") => false,
        // Under whatever name the program was put there.
        Some("stdio") => program_name(command).starts_with("toolyard") || is_this_program(command),
        _ => program_name(command) == "toolyard" || is_this_program(command),
    });
    runs || url.as_deref().is_some_and(is_own_url)
}

/// Without its folder, and as Windows would have it.
fn program_name(command: &str) -> String {
    let name = command.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    name.strip_suffix(".exe").unwrap_or(&name).to_owned()
}

fn is_this_program(command: &str) -> bool {
    let real = std::fs::canonicalize(command).ok();
    let here = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    real.is_some() && real == here
}

/// Whether an upstream of this config is the gateway of the config itself. `own` is where the gateway listens. One with
/// another config may be behind this one.
pub(crate) fn is_itself(reach: &Reach, own: SocketAddr) -> bool {
    match reach {
        Reach::Program(program) => {
            let flags = ["--config", "--state-dir"];
            let has_flag = program.args.iter().any(|word| flags.iter().any(|flag| word.starts_with(flag)));
            let is_stdio = program.args.iter().any(|word| word == "stdio");
            let has_own_env = program.env.iter().any(|(name, _)| name.starts_with("TOOLYARD_"));
            is_stdio && !has_flag && !has_own_env && program_name(&program.command) == "toolyard"
        }
        Reach::Server(server) => {
            let host = server.url.host().unwrap_or_default().trim_matches(['[', ']']);
            let is_here = host == "localhost"
                || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip == own.ip());
            let is_mcp = server.url.path() == "/mcp" || server.url.path().starts_with("/mcp/");
            own.port() != 0 && is_here && is_mcp && server.url.port_u16() == Some(own.port())
        }
        Reach::Socket(_) => false,
    }
}

fn is_own_url(url: &str) -> bool {
    ["http://127.0.0.1:7777/mcp", "http://localhost:7777/mcp"]
        .iter()
        .any(|own| url.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?'])))
}
