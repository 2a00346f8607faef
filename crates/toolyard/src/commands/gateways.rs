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

/// What `--json` prints for each.
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
    let mut found: Vec<RunningGateway> = folders().into_iter().filter_map(entry).collect();
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

fn shown(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Folders in which a gateway may have left its address: one for each config set, and those given by `--state-dir`.
fn folders() -> Vec<PathBuf> {
    let base = state_dir::base(&settings::variable);
    let inside = base.as_deref().and_then(|base| std::fs::read_dir(base).ok()).into_iter().flatten();
    let mut folders: Vec<PathBuf> = inside.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.extend(base.as_deref().map(state_dir::other_folders).unwrap_or_default());
    folders
}

fn entry(folder: PathBuf) -> Option<RunningGateway> {
    let running: Running = state_dir::announced(&folder).filter(|running| live::answers(&running.http))?;
    let started = running.started_at();
    Some(RunningGateway {
        http: running.http,
        pid: running.pid,
        started,
        config: running.config,
        state_dir: folder,
        socket: running.socket,
    })
}
