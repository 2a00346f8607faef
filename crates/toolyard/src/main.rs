//! The `toolyard` program. Here errors become exit codes; what the commands do is in their own files.

mod cli;
mod serve;
mod stdio;
mod validate;
mod commands;
mod settings;
mod plan;
mod pack_events;
mod pack_hooks;
mod pack_limits;
mod packs;
mod cluster;
mod connect;
mod sign_ins;
mod control;
mod doors;
mod apps;
mod known_listeners;
mod bind;
mod stop;
mod system;
mod traces;
mod address_file;
mod logging;
mod failure;
mod say;

use std::process::ExitCode;

use cli::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    if let Some(code) = toolyard_guard::run(std::env::args_os()) {
        return code;
    }
    if commands::answer_shell() {
        return ExitCode::SUCCESS;
    }
    let parsed = cli::parse();
    let mut cli = parsed.unwrap_or_else(|error| cli::explained(error, std::env::args_os()).exit());
    cli.common.config = cli.common.config.take().or_else(toolyard_config::of_the_proxy);
    let command = cli.command().unwrap_or_else(|error| error.exit());
    match run(&cli, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(cli: &Cli, command: Command) -> Result<(), Failure> {
    // The config of a gateway configures its log, so it is read first.
    if !matches!(command, Command::Serve(_)) {
        let wish = cli.common.log(matches!(command, Command::Stdio(_)));
        logging::start(&wish).map_err(Failure::Usage)?;
    }
    match command {
        Command::Serve(args) => serve::serve(&cli.common, &args),
        Command::Stdio(args) => stdio::stdio(&cli.common, &args),
        Command::Validate(args) => validate::validate(&cli.common, &args),
        Command::Other(command) => commands::run(&cli.common, command),
    }
}
