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
mod browser;
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
    let mut cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return report_usage(&cli::explained(error, std::env::args_os())),
    };
    cli.common.config = cli.common.config.take().or_else(toolyard_config::of_the_proxy);
    let command = match cli.command() {
        Ok(command) => command,
        Err(error) => return report_usage(&error),
    };
    let done = run(&cli, command);
    match (done, say::finish()) {
        (Ok(()), Ok(())) => ExitCode::SUCCESS,
        (Ok(()), Err(lost)) => Failure::Other(lost).report(),
        (Err(failure), _) if cli.common.json => failure.report_as_json(),
        (Err(failure), _) => failure.report(),
    }
}

/// Help, the version, or what is wrong with the command line.
fn report_usage(error: &clap::Error) -> ExitCode {
    let code = u8::try_from(error.exit_code()).unwrap_or(2);
    if error.use_stderr() && cli::asks_for_json(std::env::args_os()) {
        let text = error.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
        return Failure::Usage(text.to_owned()).report_as_json();
    }
    let printed = error.print();
    if error.use_stderr() {
        return ExitCode::from(code);
    }
    say::keep_error(printed);
    say::finish().map_or_else(|lost| Failure::Other(lost).report(), |()| ExitCode::from(code))
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
