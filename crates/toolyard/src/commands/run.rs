//! `toolyard run`: lists the scripts of the project in this folder, and runs one in the foreground under the guard, so
//! that nothing that it has started stays when it ends or this program is killed. Agents do the same with the pack
//! `scripts`.

mod readers;
mod running;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};
use toolyard_config::{Config, PackConfig};
use toolyard_model::{Peer, Scope, View};
use toolyard_proto::{Method, Raw};

use self::readers::Readers;
use super::live::{self, Client};
use crate::cli::Common;
use crate::failure::{Failure, refused};
use crate::packs;
use crate::say;
use crate::settings::{self, Settings};
use crate::stop::Stop;

const PACK: &str = "scripts";
/// The name of the command after `--`.
const COMMAND: &str = "command";
/// The exit code of a script that was interrupted.
const INTERRUPTED: u8 = 130;
/// How many seconds the pack waits for lines.
const WAIT: u64 = 30;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolyard run
  toolyard run dev
  toolyard run dev --level warn
  toolyard run dev --log dev.log
  toolyard run -- python3 -m http.server
  toolyard run --status
  toolyard run --logs dev --since 10m
  toolyard run --logs dev -f --level warn
  toolyard run --stop dev

Ctrl-C stops the script with everything that it has started. The exit code is that of the script. To let agents run
scripts, add [packs.scripts] with the `root` of the project to the config, and trust the project.")]
pub(crate) struct RunArgs {
    /// The script, such as `npm:dev`, or `dev` if only one script has this name; without it, the scripts are listed.
    #[arg(conflicts_with = "command")]
    script: Option<String>,
    /// List the running scripts of all folders instead.
    #[arg(long, conflicts_with_all = ["script", "command", "stop", "logs", "level", "matching", "log"])]
    status: bool,
    /// Stop a script that another `toolyard run` has started in this folder.
    #[arg(long, value_name = "SCRIPT", conflicts_with_all = ["script", "command", "level", "matching", "log"])]
    stop: Option<String>,
    /// Print the log of a script that another `toolyard run` runs in this folder: its last 1,000 lines.
    #[arg(long, value_name = "SCRIPT", conflicts_with_all = ["script", "command", "stop", "log"])]
    logs: Option<String>,
    /// With --logs: print new lines as they arrive, until the script ends.
    #[arg(short, long, requires = "logs", conflicts_with_all = ["script", "command"])]
    follow: bool,
    /// With --logs: print only lines since this time ago, such as 30s, 10m or 2h.
    #[arg(long, value_name = "TIME", requires = "logs", value_parser = ago, conflicts_with_all = ["script", "command"])]
    since: Option<Duration>,
    /// Append the lines that are printed to this file, too.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Print only lines of this level and above.
    #[arg(long, value_parser = ["debug", "info", "warn", "error"])]
    level: Option<String>,
    /// Print only lines that match this regular expression.
    #[arg(long, value_name = "REGEX", visible_alias = "grep")]
    matching: Option<String>,
    /// List the scripts as JSON, or print each line of the log as a JSON object.
    #[arg(long)]
    json: bool,
    /// A program and its arguments, to be run instead of a script.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(super) fn run(common: &Common, args: &RunArgs) -> Result<(), Failure> {
    if packs::find(PACK).is_none() {
        let why = packs::not_here(PACK).unwrap_or_default();
        return Err(refused("scripts cannot be run here", why));
    }
    if args.status {
        return running::status(args.json);
    }
    let root = std::env::current_dir()?;
    if let Some(name) = &args.stop {
        return running::stop(name, &root);
    }
    let lines = Lines::of(args);
    if let Some(script) = &args.logs {
        let wanted = readers::Wanted { script, lines: &lines, since: args.since, follow: args.follow };
        return readers::logs(&wanted, &root);
    }
    let settings =
        Settings { found: settings::find(common), config: config(args, &root), remarks: Vec::new() };
    live::block_on(async {
        let mut stop = Stop::new()?;
        // A user who runs a script by its name trusts it; an agent needs `toolyard trust`.
        let client = Arc::new(Client::of_own_trusting(common, &settings, root.clone()));
        let scope = Scope::new();
        let outcome = match args.script.as_deref().or((!args.command.is_empty()).then_some(COMMAND)) {
            None => list(&client, args.json).await,
            Some(script) => tokio::select! {
                outcome = follow(&client, script, &lines, args.log.as_deref(), (&root, &scope)) => outcome,
                _ = stop.signal() => Err(Failure::AlreadyReported(INTERRUPTED)),
            },
        };
        // No reader holds the client any more then.
        scope.end().await;
        if let Some(client) = Arc::into_inner(client) {
            client.end().await;
        }
        outcome
    })?
}

/// A config with nothing but the scripts of this folder.
fn config(args: &RunArgs, root: &std::path::Path) -> Config {
    let mut keys = Map::from_iter([("root".to_owned(), json!(root))]);
    if !args.command.is_empty() {
        keys.insert("commands".to_owned(), json!({ COMMAND: args.command }));
    }
    let packs = vec![PackConfig { name: PACK, enabled: true, missing: None, keys }];
    Config { packs, ..Config::default() }
}

async fn list(client: &Client, json: bool) -> Result<(), Failure> {
    let found = call(client, "list", json!({})).await?;
    let scripts = found["scripts"].as_array().map(Vec::as_slice).unwrap_or_default();
    if json {
        return Ok(say::json(&scripts)?);
    }
    if scripts.is_empty() {
        say::line("no scripts here: there is no package.json, Cargo.toml, Makefile or justfile with any");
        return Ok(());
    }
    let cell = |script: &Value, key: &str| script[key].as_str().unwrap_or_default().to_owned();
    let mut rows = vec![["SCRIPT", "FROM", "WHAT"].map(str::to_owned)];
    rows.extend(scripts.iter().map(|script| ["id", "from", "does"].map(|key| cell(script, key))));
    say::table(&rows);
    Ok(())
}

/// Starts a script and prints its lines until it has ended.
async fn follow(
    client: &Arc<Client>,
    script: &str,
    lines: &Lines,
    log: Option<&Path>,
    (root, scope): (&Path, &Scope),
) -> Result<(), Failure> {
    let mut file = log.map(Log::open).transpose()?;
    let started = call(client, "run", json!({ "script": script })).await?;
    let readers = Readers::open(client, started["id"].as_str().unwrap_or_default(), scope);
    let _entry = running::Entry::new(&started, root, log, readers.socket.as_deref());
    let mut after = json!(0);
    loop {
        let mut wanted = lines.arguments();
        (wanted["script"], wanted["after"], wanted["wait"]) = (started["id"].clone(), after, json!(WAIT));
        let read = call(client, "logs", wanted).await?;
        lines.print_next(&read, file.as_mut())?;
        after = read["last"].clone();
        if is_read(&read) {
            readers.goodbye().await;
            return exit(&read["exit_code"]);
        }
    }
}

/// Which lines of a log are printed, and how.
struct Lines {
    level: Option<String>,
    matching: Option<String>,
    json: bool,
}

impl Lines {
    fn of(args: &RunArgs) -> Self {
        Self { level: args.level.clone(), matching: args.matching.clone(), json: args.json }
    }

    /// For the pack's tool `logs`.
    fn arguments(&self) -> Value {
        let mut wanted = json!({ "limit": 1000 });
        for (key, value) in [("level", &self.level), ("matching", &self.matching)] {
            if let Some(value) = value {
                wanted[key] = json!(value);
            }
        }
        wanted
    }

    /// Prints the last lines of a log.
    fn print_last(&self, read: &Value) -> Result<(), Failure> {
        if count(read, "left_out") + count(read, "lost") > 0 {
            say::line("warning: lines were left out: there are more than can be shown");
        }
        self.print(read, None)
    }

    /// Prints the lines that follow those of the answer before.
    fn print_next(&self, read: &Value, log: Option<&mut Log<'_>>) -> Result<(), Failure> {
        let lost = count(read, "lost");
        if lost > 0 {
            say::line(format_args!(
                "warning: {lost} lines are missing here: the script printed faster than they were read"
            ));
        }
        self.print(read, log)
    }

    fn print(&self, read: &Value, mut log: Option<&mut Log<'_>>) -> Result<(), Failure> {
        for line in read["lines"].as_array().into_iter().flatten() {
            let text = if self.json {
                line.to_string()
            } else {
                line["text"].as_str().unwrap_or_default().to_owned()
            };
            if let Some(log) = &mut log {
                log.write(&text)?;
            }
            say::result(text);
        }
        Ok(())
    }
}

/// Whether the script has ended and this answer has its last lines.
fn is_read(read: &Value) -> bool {
    read["state"] == "exited" && count(read, "left_out") == 0
}

fn count(read: &Value, key: &str) -> u64 {
    read[key].as_u64().unwrap_or_default()
}

/// The file of `--log`, at its end.
struct Log<'a> {
    file: File,
    path: &'a Path,
}

impl<'a> Log<'a> {
    fn open(path: &'a Path) -> Result<Self, Failure> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self { file: file.map_err(|error| unwritable(path, &error))?, path })
    }

    fn write(&mut self, line: &str) -> Result<(), Failure> {
        writeln!(self.file, "{line}").map_err(|error| unwritable(self.path, &error))
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    refused(format!("cannot write the log {}: {error}", path.display()), "name another file with --log")
}

fn ago(text: &str) -> Result<Duration, String> {
    toolyard_config::parse_duration(text).ok_or_else(|| "expected a time such as 30s, 10m or 2h".to_owned())
}

fn exit(code: &Value) -> Result<(), Failure> {
    match code.as_u64().and_then(|code| u8::try_from(code).ok()) {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::AlreadyReported(code)),
        None => Err(refused("the script was killed by a signal", String::new())),
    }
}

/// Calls a tool of the pack.
async fn call(client: &Client, tool: &str, arguments: Value) -> Result<Value, Failure> {
    let params: Raw = json!({ "name": tool, "arguments": arguments }).into();
    let view = View::Upstream(PACK.into());
    let answer = client.request(&view, Method::new("tools/call"), &params, None, Peer::none()).await;
    let answer: Value = answer
        .and_then(|answer| {
            answer.read().map_err(|error| toolyard_proto::CallError::bad_answer(error.to_string()))
        })
        .map_err(|error| refused(error.message(), String::new()))?;
    if answer["isError"] == true {
        let text = answer["content"][0]["text"].as_str().unwrap_or_default();
        let (message, help) = text.split_once('\n').unwrap_or((text, ""));
        return Err(refused(message, help.trim()));
    }
    Ok(answer["structuredContent"].clone())
}
