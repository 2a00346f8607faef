//! `toolyard stdio`: MCP on stdin and stdout, through the gateway of the same config set. It joins the one
//! that runs, or starts one; when that dies it finds another, and its client keeps working.
//!
//! Nothing but messages is ever written to stdout.

mod relay;
mod meet;
mod opening;
mod tokens;
mod memory;
mod lines;

use std::path::Path;

use anyhow::{Context, Result};

use crate::cli::{Common, StdioArgs};
use crate::config::{Found, Level, LocalDoor, Role};
use crate::failure::Failure;
use crate::settings::{self, Settings};
use crate::{socket, state_dir};
use meet::{Meeting, Start};
use opening::Opening;
use relay::Relay;

pub(crate) fn stdio(common: &Common, args: &StdioArgs) -> Result<(), Failure> {
    let (meeting, rules, trouble) = match settings::look(common) {
        (found, loaded) if loaded.config.is_none() => {
            let trouble = loaded.problems.iter().find(|problem| problem.level == Level::Error);
            let trouble = trouble.map(|problem| format!("the config is not good: {}", problem.message));
            (meeting_despite(common, &found, loaded.problems)?, loaded.auth, trouble)
        }
        _ => {
            let Settings { found, config, .. } = settings::read(common)?;
            (meeting(common, &found, &config.listen.local)?, config.auth, None)
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("start the runtime")?;
    let opening = Opening::new(common, args, rules, trouble);
    let done = runtime.block_on(Relay::new(meeting, opening, args.hub).run());
    // A thread may still wait for stdin, and nobody waits for it.
    runtime.shutdown_background();
    Ok(done?)
}

fn meeting(common: &Common, found: &Found, door: &LocalDoor) -> Result<Meeting, Failure> {
    let files = found.set();
    let asked = common.state_dir.as_deref();
    let state_dir = state_dir::open(asked, &files, &settings::variable);
    let set = state_dir::set(asked, &files, &settings::variable);
    let Some(socket) = socket::path(door, &set, &settings::variable) else {
        let message = "`unix = false` in [listen] leaves no socket to reach the gateway by: remove it";
        return Err(Failure::Usage(message.to_owned()));
    };
    let state_dir = state_dir.ok();
    Ok(Meeting::new(socket, state_dir, start(found, asked)))
}

/// A gateway that runs goes on with the config it has, so a file that is being edited need not keep a new
/// client out. Nothing can be started from such a file, though.
fn meeting_despite(
    common: &Common,
    found: &Found,
    problems: Vec<crate::config::Problem>,
) -> Result<Meeting, Failure> {
    let meeting = meeting(common, found, &LocalDoor::Usual)?;
    if meeting.is_answered() { Ok(meeting) } else { Err(Failure::Config(problems)) }
}

/// How to start a gateway of the same set. A project file is found from its folder, any other is named.
fn start(found: &Found, state_dir: Option<&Path>) -> Start {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let project = found.sources.iter().find(|source| source.role == Role::Project);
    let named = found.sources.first().filter(|_| project.is_none()).map(|source| source.path.as_path());
    let mut arguments = vec!["serve".into(), "--while-needed".into()];
    for (flag, path) in [("--config", named), ("--state-dir", state_dir)] {
        if let Some(path) = path {
            arguments.extend([flag.into(), absolute(path).into_os_string()]);
        }
    }
    let folder = project.and_then(|source| absolute(&source.path).parent().map(Path::to_owned));
    Start { arguments, folder: folder.unwrap_or_else(|| "/".into()) }
}
