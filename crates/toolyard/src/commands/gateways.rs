//! `toolyard gateways`: lists the running gateways of this user, of all configs.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use toolyard_config::state_dir::{self, Running};

use super::live;
use crate::failure::Failure;
use crate::{say, settings};

#[derive(Debug, Args)]
pub(crate) struct GatewaysArgs {
    /// Print them as JSON.
    #[arg(long)]
    json: bool,
}

/// The output of `--json` for each gateway.
#[derive(Serialize)]
struct RunningGateway {
    http: String,
    pid: u32,
    started: String,
    /// The config files; unknown for gateways of another version.
    config: Option<Vec<PathBuf>>,
    state_dir: PathBuf,
    socket: Option<PathBuf>,
}

pub(super) fn gateways(args: &GatewaysArgs) -> Result<(), Failure> {
    let mut found: Vec<RunningGateway> = all_running().map(entry).collect();
    found.sort_by(|one, other| one.started.cmp(&other.started));
    if args.json {
        return Ok(say::json(&found)?);
    }
    if found.is_empty() {
        say::line("no gateway runs; `toolyard` starts one");
        return Ok(());
    }
    let mut rows = vec![["ADDRESS", "PID", "STARTED", "CONFIG"].map(str::to_owned)];
    rows.extend(found.iter().map(|one| {
        let config = one.config.as_ref().map_or_else(|| "unknown".to_owned(), |files| shown(files));
        [one.http.clone(), one.pid.to_string(), one.started.clone(), config]
    }));
    say::table(&rows);
    Ok(())
}

pub(super) fn shown(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The gateways of all configs that answer now.
pub(super) fn all_running() -> impl Iterator<Item = (PathBuf, Running)> {
    let announced = |folder: PathBuf| Some((folder.clone(), state_dir::announced(&folder)?));
    let all = state_dir::folders(&settings::variable).into_iter().filter_map(announced);
    all.filter(|(_, running)| live::answers(&running.http))
}

fn entry((state_dir, running): (PathBuf, Running)) -> RunningGateway {
    let started = running.started_at();
    RunningGateway {
        http: running.http,
        pid: running.pid,
        started,
        config: running.config,
        state_dir,
        socket: running.socket,
    }
}
