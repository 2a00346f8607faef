//! `toolyard tools`: shows and calls tools, through the gateway that runs with this config, or through one that
//! is started for this command alone.

mod list;
mod get;
mod call;
mod find;
mod direct;
mod arguments;
mod ask;
mod saved;
mod progress;
mod schema;
mod show;
mod switch;

use clap::Subcommand;
use serde_json::{Map, Value};
use toolyard_proto::CallError;
use toolyard_proto::error::code;

use super::live::{self, Client};
use crate::cli::Common;
use crate::failure::{Failure, refused};
use crate::settings::{self, Settings};
use crate::stop::Stop;

pub(super) use find::{Tool, Tools};

use direct::Direct;

/// The exit code of a command that was interrupted from the keyboard.
const INTERRUPTED: u8 = 130;

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List the tools of all servers, or of one.
    List(list::ListArgs),
    /// Show one tool: its description and its arguments.
    Get(get::GetArgs),
    /// Call a tool and print its answer.
    Call(call::CallArgs),
    /// Switch single tools off, until they are enabled; clients do not see them and cannot call them.
    Disable(switch::SwitchArgs),
    /// Switch tools on that were disabled.
    Enable(switch::SwitchArgs),
}

pub(super) fn tools(common: &Common, command: ToolsCommand) -> Result<(), Failure> {
    match command {
        ToolsCommand::List(args) => list::list(common, &args),
        ToolsCommand::Get(args) => get::get(common, &args),
        ToolsCommand::Call(args) => call::call(common, &args),
        ToolsCommand::Disable(args) => switch::switch(common, &args, "disable"),
        ToolsCommand::Enable(args) => switch::switch(common, &args, "enable"),
    }
}

/// Runs `f` with a client of the gateway, until it is done or interrupted. If a gateway is
/// started for this, it starts only the upstream `only`.
pub(super) fn with_client<T>(
    common: &Common,
    only: Option<&str>,
    work: impl AsyncFnOnce(&Client, &Settings) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (mut settings, running) = settings::read_for_gateway(common)?;
    if let Some(only) = only {
        settings.config.upstreams.on.retain(|upstream| upstream.id.as_str() == only);
    }
    let client = |settings: &Settings| match &running {
        Some(running) => Client::of_running(running, Some(&settings.config), settings.config.auth.as_ref()),
        None => Client::of_own(common, settings),
    };
    with(&settings, client, work)
}

/// The same for the server that the command line names, or else for the config.
fn with_server<T>(
    common: &Common,
    only: Option<&str>,
    direct: &Direct,
    work: impl AsyncFnOnce(&Client, &Settings) -> Result<T, Failure>,
) -> Result<T, Failure> {
    match direct.settings()? {
        Some(settings) => with(&settings, Client::of_direct, work),
        None => with_client(common, only, work),
    }
}

fn with<T>(
    settings: &Settings,
    client: impl FnOnce(&Settings) -> Client,
    work: impl AsyncFnOnce(&Client, &Settings) -> Result<T, Failure>,
) -> Result<T, Failure> {
    live::block_on(async {
        let mut stop = Stop::new()?;
        let client = client(settings);
        let outcome = tokio::select! {
            outcome = work(&client, settings) => outcome,
            _ = stop.signal() => Err(Failure::AlreadyReported(INTERRUPTED)),
        };
        client.end().await;
        outcome
    })?
}

/// The upstream that a name or a flag refers to, if it is in the config.
pub(super) fn upstream_in(common: &Common, name: &str) -> Option<String> {
    let prefix = name.split_once(':').or_else(|| name.split_once("__")).map_or(name, |(prefix, _)| prefix);
    // The values of the config are not needed here, and reading them might run commands.
    settings::server_ids(common).into_iter().find(|id| id.eq_ignore_ascii_case(prefix))
}

fn failed(tool: &str, error: &CallError) -> Failure {
    if error.code() != code::MISSING_CAPABILITY {
        return refused(error.message(), String::new());
    }
    let required = error.to_raw().at(&["data", "requiredCapabilities"]);
    let required =
        required.and_then(|required| required.read::<Map<String, Value>>().ok()).unwrap_or_default();
    if required.contains_key("elicitation") {
        let message = format!("`{tool}` asks the user a question, and there is no terminal to answer on");
        return refused(
            message,
            "run the command in a terminal, with stdin not redirected, or call the tool from a client",
        );
    }
    let names: Vec<String> = required.keys().map(|name| format!("`{name}`")).collect();
    let message = format!("`{tool}` needs {}, which only a client can offer", names.join(" and "));
    refused(message, "call it from a client that offers it")
}
