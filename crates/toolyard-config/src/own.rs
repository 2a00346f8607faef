//! Knows Toolyard among the servers of a client.

use std::net::{IpAddr, SocketAddr};

use crate::definition::Definition;
use crate::state_dir::{self, announced};
use crate::{Reach, Variables, environment};

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

/// Whether it is the usual address of a gateway, or the address of one that has announced itself on this machine, of
/// whatever config.
fn is_own_url(url: &str) -> bool {
    let usual = ["http://127.0.0.1:7777", "http://localhost:7777"];
    usual.iter().any(|own| is_below_mcp(url, own)) || is_announced(url, &environment)
}

fn is_announced(url: &str, variables: &Variables<'_>) -> bool {
    let announced = state_dir::folders(variables).into_iter().filter_map(|folder| announced(&folder));
    announced.flat_map(|running| spellings(&running.http)).any(|own| is_below_mcp(url, &own))
}

/// The ways to write the address of a listener. One on all addresses is reached at the loopback address.
fn spellings(http: &str) -> Vec<String> {
    let Some((scheme, address)) = http.split_once("://") else { return Vec::new() };
    let Ok(address) = address.parse::<SocketAddr>() else { return vec![http.to_owned()] };
    let mut all = vec![http.to_owned()];
    if address.ip().is_loopback() || address.ip().is_unspecified() {
        let port = address.port();
        all.extend(["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{scheme}://{host}:{port}")));
    }
    all
}

fn is_below_mcp(url: &str, own: &str) -> bool {
    let rest = url.strip_prefix(own).and_then(|rest| rest.strip_prefix("/mcp"));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_gateway_that_has_announced_itself_is_our_own() {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().join("toolyard/0123456789abcdef");
        std::fs::create_dir_all(&folder).unwrap();
        let announced = r#"{"http":"http://127.0.0.1:7778","pid":1,"started":1}"#;
        std::fs::write(folder.join(state_dir::GATEWAY_FILE), announced).unwrap();
        let path = state.path().to_str().unwrap().to_owned();
        let variables = |name: &str| (name == "XDG_STATE_HOME").then(|| path.clone());
        let check = |url: &str, expected: bool| assert_eq!(is_announced(url, &variables), expected, "{url}");
        check("http://127.0.0.1:7778/mcp", true);
        check("http://localhost:7778/mcp/p/work", true);
        check("http://127.0.0.1:7778/mcpx", false);
        check("http://127.0.0.1:77780/mcp", false);
        check("http://127.0.0.1:7779/mcp", false);
        check("http://192.0.2.1:7778/mcp", false);
    }
}
