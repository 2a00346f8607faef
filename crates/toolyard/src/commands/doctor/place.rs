//! The place the gateway has on this machine: its folder, what it left there, and its address.

use std::io;
use std::net::TcpListener;

use super::{Finding, State};
use crate::cli::Common;
use crate::commands::live;
use crate::config::{Config, DEFAULT_ADDRESS, Found};
use crate::settings;
use crate::state_dir::{self, GATEWAY_FILE, Running};

/// Whether things can be kept.
pub(super) fn state_dir(common: &Common, found: &Found) -> Option<Finding> {
    let opened = state_dir::open(common.state_dir.as_deref(), &found.files(), &settings::variable);
    let tried = opened.and_then(|folder| {
        let path = folder.join(format!("doctor.{}", std::process::id()));
        let written = std::fs::write(&path, "").map_err(anyhow::Error::from);
        let _ = std::fs::remove_file(&path);
        written.map_err(|error| error.context(format!("write to {}", folder.display())))
    });
    let error = tried.err()?;
    let help = "make the folder writable, or choose another with --state-dir";
    Some(Finding::new(State::Wrong, "state", format!("nothing can be kept between runs: {error:#}"), help))
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
            let message = format!(
                "{} says that one runs at {}, but nobody answers there",
                file.display(),
                running.http
            );
            let help = "it was killed: start it again with `toolyard`, or delete the file";
            findings.push(Finding::new(State::Wrong, "gateway", message, help));
        }
        None if file.exists() => {
            let message = format!("{} cannot be read", file.display());
            findings.push(Finding::new(
                State::Wrong,
                "gateway",
                message,
                "delete it; the next start writes it anew",
            ));
        }
        None => {
            findings.push(Finding::new(
                State::Note,
                "gateway",
                "none runs with this config",
                "`toolyard` starts one",
            ));
        }
    }
    None
}

/// Whether the address is free for the gateway that will want it.
pub(super) fn doors(config: &Config) -> Option<Finding> {
    let address = config.listen.http.unwrap_or(DEFAULT_ADDRESS);
    let error = TcpListener::bind(address).err()?;
    let taken = error.kind() == io::ErrorKind::AddrInUse;
    Some(match (config.listen.http, taken) {
        (None, true) => {
            let message = format!("{address} is taken by another program");
            Finding::new(
                State::Note,
                "port",
                message,
                "the next free port is used; `http` in [listen] chooses another",
            )
        }
        _ => {
            let message = format!("cannot listen on {address}: {error}");
            let help = "end the program that has it, or choose another address as `http` in [listen]";
            Finding::new(State::Wrong, "port", message, help)
        }
    })
}
