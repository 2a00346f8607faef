//! The gateway's files and addresses on this machine: its state directory, what an earlier one left there, and its
//! listeners.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use toolyard_config::state_dir::{self, GATEWAY_FILE, Running};
use toolyard_config::{Config, DEFAULT_ADDRESS, Found};
use toolyard_config::{socket, system};
use toolyard_model::local;

use super::{Finding, Severity};
use crate::cli::Common;
use crate::commands::{gateways, live};
use crate::settings;

/// Whether the state directory can be used.
pub(super) fn state_dir(common: &Common, found: &Found) -> Option<Finding> {
    let opened = state_dir::open(common.state_dir.as_deref(), &found.set(), &settings::variable);
    let tried = opened.and_then(|folder| {
        let path = folder.join(format!("doctor.{}", std::process::id()));
        let written = std::fs::write(&path, "");
        let _ = std::fs::remove_file(&path);
        written.map_err(|error| io::Error::other(format!("write to {}: {error}", folder.display())))
    });
    let error = tried.err()?;
    let help = "make the folder writable, or choose another with --state-dir";
    Some(Finding::new(Severity::Wrong, "state", format!("the state directory cannot be used: {error}"), help))
}

/// The gateway that runs with these files, or what is left of one.
pub(super) fn gateway(common: &Common, found: &Found, findings: &mut Vec<Finding>) -> Option<Running> {
    let folder = live::folder(common, found)?;
    let announced = state_dir::announced(&folder);
    let file = folder.join(GATEWAY_FILE);
    match announced {
        Some(running) if live::answers(&running.http) => {
            findings.push(Finding::good(
                "gateway",
                format!("runs at {} (process {})", running.http, running.pid),
            ));
            return Some(running);
        }
        Some(running) => {
            let message =
                format!("{} names a gateway at {}, but nothing answers there", file.display(), running.http);
            let help = "it was killed: start it again with `toolyard`, or delete the file";
            findings.push(Finding::new(Severity::Wrong, "gateway", message, help));
        }
        None if file.exists() => {
            let message = format!("{} cannot be read", file.display());
            findings.push(Finding::new(
                Severity::Wrong,
                "gateway",
                message,
                "delete it; the next start writes it again",
            ));
        }
        None => {
            findings.push(Finding::new(
                Severity::Note,
                "gateway",
                "none runs with this config",
                "`toolyard` starts one",
            ));
        }
    }
    None
}

/// Whether the addresses are free for a gateway that would listen there.
pub(super) fn doors(common: &Common, found: &Found, config: &Config) -> Vec<Finding> {
    let http = http(config);
    let finding = |address: Option<SocketAddr>, key| taken(address?, key).map(|(_, finding)| finding);
    let tcp = finding(config.listen.tcp, "tcp");
    let models = finding(config.listen.models, "models");
    let set = state_dir::set(common.state_dir.as_deref(), &found.set(), &settings::variable);
    let local = socket::path(&config.listen.local, &set, &settings::variable).and_then(|path| stale(&path));
    http.into_iter().chain(tcp).chain(models).chain(local).collect()
}

fn http(config: &Config) -> Option<Finding> {
    let address = config.listen.http.unwrap_or(DEFAULT_ADDRESS);
    let (kind, finding) = taken(address, "http")?;
    if kind != io::ErrorKind::AddrInUse {
        return Some(finding);
    }
    match (config.listen.http, gateway_at(address)) {
        (Some(_), None) => Some(finding),
        (Some(_), Some(other)) => {
            let help =
                "stop it (`toolyard gateways` lists all), or choose another address as `http` in [listen]";
            Some(Finding::new(Severity::Wrong, "port", format!("{address} is taken by {other}"), help))
        }
        (None, other) => {
            let other = other.unwrap_or_else(|| "another program".to_owned());
            let help = "the next free port is used; `http` in [listen] chooses another";
            Some(Finding::new(Severity::Note, "port", format!("{address} is taken by {other}"), help))
        }
    }
}

/// The gateway of another config that listens there.
fn gateway_at(address: SocketAddr) -> Option<String> {
    let port = format!(":{}", address.port());
    let (_, running) = gateways::all_running().find(|(_, running)| running.http.ends_with(&port))?;
    let config = running.config.as_deref().map_or_else(|| "unknown".to_owned(), gateways::shown);
    Some(format!("a Toolyard gateway (config: {config}, process {})", running.pid))
}

fn taken(address: SocketAddr, key: &str) -> Option<(io::ErrorKind, Finding)> {
    let error = TcpListener::bind(address).err()?;
    let help = format!("end the program that has it, or choose another address as `{key}` in [listen]");
    let message = format!("cannot listen on {address}: {error}");
    Some((error.kind(), Finding::new(Severity::Wrong, "port", message, help)))
}

/// A socket without a listener.
fn stale(path: &Path) -> Option<Finding> {
    let about = std::fs::symlink_metadata(path).ok()?;
    let shown = path.display();
    if !system::is_socket(about.file_type()) {
        let message = format!("{shown} is there, but is not a socket");
        return Some(Finding::new(
            Severity::Wrong,
            "socket",
            message,
            "move it away, or change `unix` in [listen]",
        ));
    }
    if local::is_answered(path) {
        return None;
    }
    let message = format!("{shown} is left over: no process listens there");
    Some(Finding::new(
        Severity::Wrong,
        "socket",
        message,
        "start the gateway again with `toolyard`, or delete it",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_that_cannot_be_used_has_advice() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (_, found) = taken(address, "tcp").unwrap();
        assert!(found.state == Severity::Wrong && !found.help.is_empty(), "{}", found.message);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mcp.sock");
        std::fs::write(&file, "").unwrap();
        let found = stale(&file).unwrap();
        assert!(found.state == Severity::Wrong && !found.help.is_empty(), "{}", found.message);
    }
}
