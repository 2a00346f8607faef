//! `toolyard stdio`: MCP on stdin and stdout, through the gateway of the same config set. It joins the one
//! that runs, or starts one; when that dies it finds another, and its client keeps working.
//!
//! Nothing but messages is ever written to stdout.

use std::path::Path;

use anyhow::Context;
use toolyard_config::{Found, Level, LocalDoor, Role};
use toolyard_config::{socket, state_dir};
use toolyard_shim::{GatewayLocator, Shim, Start};

use crate::cli::{Common, StdioArgs};
use crate::failure::Failure;
use crate::settings::{self, Settings};

pub(crate) fn stdio(common: &Common, args: &StdioArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("start the runtime")?;
    let done = match shim(common, args) {
        Ok(shim) => runtime.block_on(shim.run()).map_err(Failure::from),
        Err(failure) => {
            runtime.block_on(toolyard_shim::refuse(&why(&failure)));
            Err(failure)
        }
    };
    // A thread may still be blocked on stdin; the process does not wait for it.
    runtime.shutdown_background();
    done
}

fn shim(common: &Common, args: &StdioArgs) -> Result<Shim, Failure> {
    let (locator, rules, trouble) = match settings::look(common) {
        (found, loaded) if loaded.config.is_none() => {
            let trouble = loaded.problems.iter().find(|problem| problem.level == Level::Error);
            let trouble = trouble.map(|problem| format!("the config is invalid: {}", problem.message));
            (locator_despite(common, &found, loaded.problems)?, loaded.auth, trouble)
        }
        _ => {
            let Settings { found, config, .. } = settings::read(common)?;
            (locator(common, &found, &config.listen.local)?, config.auth, None)
        }
    };
    let current = common.clone();
    let current_rules = Box::new(move || settings::look(&current).1.auth);
    Ok(Shim { locator, view: view(args), is_hub: args.hub, rules, current_rules, trouble })
}

/// The reason for the client: the first problem of the config, and how to see the others.
fn why(failure: &Failure) -> String {
    let Failure::Config(problems) = failure else {
        return format!("no gateway can be started: {}", failure.text());
    };
    let first = problems.iter().find(|problem| problem.is_error()).map(|first| {
        let place = first.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        let key = if first.key.is_empty() { String::new() } else { format!("{}: ", first.key) };
        format!(": {place}{key}{}", first.message)
    });
    let first = first.unwrap_or_default();
    format!(
        "no gateway can be started, because the config is invalid{first} (`toolyard validate` shows every problem)"
    )
}

fn locator(common: &Common, found: &Found, door: &LocalDoor) -> Result<GatewayLocator, Failure> {
    let files = found.set();
    let asked = common.state_dir.as_deref();
    let state_dir = state_dir::open(asked, &files, &settings::variable);
    let set = state_dir::set(asked, &files, &settings::variable);
    let Some(socket) = socket::path(door, &set, &settings::variable) else {
        let message =
            "`unix = false` in [listen] leaves no socket on which clients could reach the gateway: remove it";
        return Err(Failure::Usage(message.to_owned()));
    };
    let state_dir = state_dir.ok();
    Ok(GatewayLocator::new(socket, state_dir, start(found, asked)))
}

/// A running gateway keeps its config, so an invalid file need not stop a new client. But no gateway can be
/// started from such a file.
fn locator_despite(
    common: &Common,
    found: &Found,
    problems: Vec<toolyard_config::Problem>,
) -> Result<GatewayLocator, Failure> {
    let locator = locator(common, found, &LocalDoor::Default)?;
    if locator.is_answered() { Ok(locator) } else { Err(Failure::Config(problems)) }
}

/// The command for a gateway of the same config set. A project file is found from its folder, any other is named.
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

fn view(args: &StdioArgs) -> Option<String> {
    if args.lean {
        return Some("lean".to_owned());
    }
    match (args.hub, &args.profile, &args.upstream) {
        (true, ..) => Some("hub".to_owned()),
        (false, Some(profile), _) => Some(format!("p/{profile}")),
        (false, None, Some(upstream)) => Some(upstream.clone()),
        (false, None, None) => None,
    }
}
