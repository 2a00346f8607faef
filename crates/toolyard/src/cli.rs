//! The command line of the program.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::ArgValueCandidates;
use toolyard_config::LogConfig;
use toolyard_config::{DEFAULT_ADDRESS, parse_address};
use toolyard_config::{LogFormat, LogLevel};

use crate::commands;
use crate::logging::{Loudness, Wish};
use crate::settings;

const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 failure, 2 the command line or the config is invalid,
130 interrupted.
Logs go to stderr; TOOLYARD_LOG=debug (or upstream=trace, …) sets the level.";

/// The heading of global flags in the help.
const COMMON: &str = "For every command";

/// One endpoint for every tool: an MCP gateway. Runs the gateway if no command is given.
#[derive(Debug, Parser)]
#[command(name = "toolyard", version = env!("TOOLYARD_VERSION"), after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Flags of every command.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// The config: TOML, or a JSON file with `mcpServers` [default: toolyard/config.toml in
    /// `$XDG_CONFIG_HOME`, if it is there].
    #[arg(long, value_name = "FILE", global = true, help_heading = COMMON, env = "TOOLYARD_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The folder for state between runs [default: a folder for this config in `$XDG_STATE_HOME/toolyard`].
    #[arg(long, value_name = "DIR", global = true, help_heading = COMMON, env = "TOOLYARD_STATE_DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Log more; twice for everything.
    #[arg(short, long, global = true, help_heading = COMMON, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
    /// Print only the listen address, results and errors.
    #[arg(short, long, global = true, help_heading = COMMON)]
    pub(crate) quiet: bool,
    /// Log at this level; overrides `TOOLYARD_LOG`, -v and -q.
    #[arg(long, value_name = "LEVEL", global = true, help_heading = COMMON, env = "TOOLYARD_LOG_LEVEL", ignore_case = true, value_parser = level())]
    log_level: Option<LogLevel>,
    /// Log as text, or as one JSON object per line; JSON includes every call.
    #[arg(long, value_name = "FORMAT", global = true, help_heading = COMMON, env = "TOOLYARD_LOG_FORMAT", ignore_case = true, value_parser = format())]
    log_format: Option<LogFormat>,
    /// Whether the command was given `--json`; its errors are JSON, too.
    #[arg(skip)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the gateway.
    #[command(alias = "start")]
    Serve(ServeArgs),
    /// Serve MCP on stdin and stdout; this is the command for a client's config.
    #[command(after_help = "\
It joins the gateway that runs with this config, or starts one that ends soon after its last client. `toolyard
install CLIENT` writes it into the config of a client; or: claude mcp add -s user toolyard -- toolyard stdio")]
    Stdio(StdioArgs),
    /// Check the config and report its problems.
    Validate(ValidateArgs),
    #[command(flatten)]
    Other(commands::OtherCommand),
}

#[derive(Debug, Default, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 lets the system choose [default: 127.0.0.1:7777, or the next free port].
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Do not let apps register.
    #[arg(long)]
    pub(crate) no_apps: bool,
    /// Do not search for instances.
    #[arg(long)]
    pub(crate) no_instances: bool,
    /// End soon after the last client has disconnected.
    #[arg(long, hide = true)]
    pub(crate) while_needed: bool,
    /// Serve the dashboard from this folder, for its development.
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) ui_dir: Option<PathBuf>,
}

/// Which view is served.
#[derive(Debug, Args)]
pub(crate) struct StdioArgs {
    /// Serve only the tools of this profile.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["upstream", "hub", "lean"], add = ArgValueCandidates::new(commands::profiles))]
    pub(crate) profile: Option<String>,
    /// Serve only this upstream, under its own names.
    #[arg(long, value_name = "ID", conflicts_with_all = ["hub", "lean"], add = ArgValueCandidates::new(commands::servers))]
    pub(crate) upstream: Option<String>,
    /// Serve the hub: find instances, connect to one and use its tools.
    #[arg(long, conflicts_with = "lean")]
    pub(crate) hub: bool,
    /// Serve the lean view: a search for tools and a tool that calls them, instead of a list of all.
    #[arg(long)]
    pub(crate) lean: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of the program. Help is as wide as the terminal; what goes elsewhere is not wrapped, unless `COLUMNS`
/// sets a width.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let mut command = <Cli as CommandFactory>::command();
    if !std::io::stdout().is_terminal() {
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        command = command.term_width(columns.unwrap_or(0));
    }
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let read = |mut matches: ArgMatches| {
        let json = has_json(&matches);
        let mut cli = Cli::from_arg_matches_mut(&mut matches)?;
        cli.common.json = json;
        Ok(cli)
    };
    matches.and_then(read).map_err(|error: clap::Error| error.format(&mut command))
}

/// Whether the command, or a command below it, was given `--json`.
fn has_json(matches: &ArgMatches) -> bool {
    let own = matches.try_get_one::<bool>("json").ok().flatten().is_some_and(|json| *json);
    own || matches.subcommand().is_some_and(|(_, below)| has_json(below))
}

/// The same for a command line that could not be read. After `--` come the words of another program.
pub(crate) fn asks_for_json(arguments: impl IntoIterator<Item = OsString>) -> bool {
    arguments.into_iter().take_while(|word| word != "--").any(|word| word == "--json")
}

/// Frequent mistakes get a more helpful message than "unexpected argument".
pub(crate) fn explained(
    mut error: clap::Error,
    arguments: impl IntoIterator<Item = OsString>,
) -> clap::Error {
    let words: Vec<OsString> = arguments.into_iter().collect();
    let has = |word: &str| words.iter().any(|given| given == word);
    let is_slip = error.get(ContextKind::SuggestedArg).is_some();
    if error.kind() == ErrorKind::UnknownArgument && has("add") && !has("--") && !is_slip {
        let tip = "a program and its arguments come after `--`: toolyard add NAME -- COMMAND…";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

impl Cli {
    /// The command to run. Flags of `serve` may be given without a command, but not before another command.
    pub(crate) fn command(&mut self) -> Result<Command, clap::Error> {
        let alone = std::mem::take(&mut self.serve);
        match self.command.take() {
            None => Ok(Command::Serve(alone)),
            Some(Command::Serve(own)) => {
                let while_needed = own.while_needed || alone.while_needed;
                let no_apps = own.no_apps || alone.no_apps;
                let no_instances = own.no_instances || alone.no_instances;
                Ok(Command::Serve(ServeArgs {
                    listen: own.listen.or(alone.listen),
                    no_apps,
                    no_instances,
                    while_needed,
                    ui_dir: own.ui_dir.or(alone.ui_dir),
                }))
            }
            Some(other) if alone.listen.is_none() => Ok(other),
            Some(_) => Err(<Self as CommandFactory>::command()
                .error(ErrorKind::ArgumentConflict, "`--listen` goes only with `serve`")),
        }
    }
}

impl Common {
    /// The log settings of flags and environment; those of the config come later.
    pub(crate) fn log(&self, serves: bool) -> Wish {
        Wish {
            level: self.log_level,
            detail: settings::variable(crate::logging::VARIABLE),
            loudness: self.loudness(serves),
            format: self.log_format,
            config: LogConfig::default(),
        }
    }

    /// A command that ends by itself logs little: its log is not part of its answer.
    fn loudness(&self, serves: bool) -> Loudness {
        match (self.quiet, self.verbose) {
            (true, _) => Loudness::Quiet,
            (false, 0) if !serves => Loudness::Brief,
            (false, 0) => Loudness::Normal,
            (false, 1) => Loudness::Verbose,
            (false, _) => Loudness::Everything,
        }
    }
}

/// The levels, also under the names that mcpproxy uses.
fn level() -> impl TypedValueParser<Value = LogLevel> {
    let alias = |name| match name {
        "off" => Some("none"),
        "warn" => Some("warning"),
        "info" => Some("information"),
        _ => None,
    };
    one_of(LogLevel::ALL.map(|(name, level)| (name, alias(name), level)).to_vec())
}

fn format() -> impl TypedValueParser<Value = LogFormat> {
    one_of(LogFormat::ALL.map(|(name, format)| (name, None, format)).to_vec())
}

/// Reads one of these names, or its alias.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static>(
    values: Vec<(&'static str, Option<&'static str>, T)>,
) -> impl TypedValueParser<Value = T> {
    let names = values.iter().map(|(name, alias, _)| PossibleValue::new(*name).aliases(*alias));
    PossibleValuesParser::new(names.collect::<Vec<_>>()).try_map(move |text| {
        let is_it = |own: &str| own.eq_ignore_ascii_case(&text);
        let found = values.iter().find(|(name, alias, _)| is_it(name) || alias.is_some_and(is_it));
        found.map(|(.., value)| *value).ok_or(text)
    })
}

fn address(text: &str) -> Result<SocketAddr, String> {
    parse_address(text).ok_or_else(|| format!("expected ADDRESS:PORT, such as {DEFAULT_ADDRESS} or [::1]:0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &[&str], expected: Result<Option<&str>, ErrorKind>) {
        let parsed = Cli::try_parse_from([&["toolyard"], arguments].concat());
        let command = parsed.and_then(|mut cli| cli.command());
        let got = command.map_err(|error| error.kind()).map(|command| match command {
            Command::Serve(serve) => serve.listen.map(|address| address.to_string()),
            Command::Validate(_) => Some("validate".into()),
            Command::Stdio(_) => Some("stdio".into()),
            Command::Other(_) => Some("other".into()),
        });
        assert_eq!(got.as_ref().map(Option::as_deref), expected.as_ref().copied(), "{arguments:?}");
    }

    #[test]
    fn serving_needs_no_command() {
        check(&[], Ok(None));
        check(&["--listen", "localhost:0"], Ok(Some("127.0.0.1:0")));
        check(&["serve", "--listen", "[::1]:1"], Ok(Some("[::1]:1")));
        check(&["-v", "--config", "a", "serve"], Ok(None));
        check(&["-v", "validate"], Ok(Some("validate")));
        check(&["pack", "dev", "-v", "--http", "127.0.0.1:0"], Ok(Some("other")));
        check(&["--listen", "127.0.0.1:1", "validate"], Err(ErrorKind::ArgumentConflict));
        check(&["stdio", "--profile", "work"], Ok(Some("stdio")));
        check(&["stdio", "--profile", "work", "--hub"], Err(ErrorKind::ArgumentConflict));
        check(&["--listen", "here"], Err(ErrorKind::ValueValidation));
        check(&["-v", "-q"], Err(ErrorKind::ArgumentConflict));
    }

    #[test]
    fn the_command_line_is_well_formed() {
        <Cli as CommandFactory>::command().debug_assert();
    }
}
