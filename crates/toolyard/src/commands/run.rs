//! `toolyard run`: lists the scripts of the project in this folder, and runs one in the foreground under the guard, so
//! that nothing that it has started stays when it ends or this program is killed. Agents do the same with the pack
//! `scripts`.

mod running;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};
use toolyard_config::{Config, PackConfig};
use toolyard_model::{Peer, View};
use toolyard_proto::{Method, Raw};

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

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolyard run
  toolyard run dev
  toolyard run dev --level warn
  toolyard run dev --log dev.log
  toolyard run -- python3 -m http.server
  toolyard run --status
  toolyard run --stop dev

Ctrl-C stops the script with everything that it has started. The exit code is that of the script. To let agents run
scripts, add [packs.scripts] with the `root` of the project to the config, and trust the project.")]
pub(crate) struct RunArgs {
    /// The script, such as `npm:dev`, or `dev` if only one script has this name; without it, the scripts are listed.
    #[arg(conflicts_with = "command")]
    script: Option<String>,
    /// List what runs, in every folder, instead.
    #[arg(long, conflicts_with_all = ["script", "command", "stop", "level", "matching", "log"])]
    status: bool,
    /// Stop a script that another `toolyard run` has started in this folder.
    #[arg(long, value_name = "SCRIPT", conflicts_with_all = ["script", "command", "level", "matching", "log"])]
    stop: Option<String>,
    /// Append the lines that are printed to this file, too.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Print only lines of this level and above.
    #[arg(long, value_parser = ["debug", "info", "warn", "error"])]
    level: Option<String>,
    /// Print only lines that match this regular expression.
    #[arg(long, value_name = "REGEX")]
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
    let settings =
        Settings { found: settings::find(common), config: config(args, &root), remarks: Vec::new() };
    live::block_on(async {
        let mut stop = Stop::new()?;
        // A user who runs a script by its name trusts it; an agent needs `toolyard trust`.
        let client = Client::of_own_trusting(common, &settings, root.clone());
        let outcome = match args.script.as_deref().or((!args.command.is_empty()).then_some(COMMAND)) {
            None => list(&client, args.json).await,
            Some(script) => tokio::select! {
                outcome = follow(&client, script, args, &root) => outcome,
                _ = stop.signal() => Err(Failure::AlreadyReported(INTERRUPTED)),
            },
        };
        client.end().await;
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
async fn follow(client: &Client, script: &str, args: &RunArgs, root: &Path) -> Result<(), Failure> {
    let mut log = opened(args)?;
    let started = call(client, "run", json!({ "script": script })).await?;
    let _entry = running::Entry::new(&started, root, args.log.as_deref());
    let mut after = json!(0);
    loop {
        let mut wanted = json!({ "script": started["id"], "after": after, "limit": 1000, "wait": 30 });
        for (key, value) in [("level", &args.level), ("matching", &args.matching)] {
            if let Some(value) = value {
                wanted[key] = json!(value);
            }
        }
        let read = call(client, "logs", wanted).await?;
        if read["left_out"].as_u64().unwrap_or(0) + read["lost"].as_u64().unwrap_or(0) > 0 {
            say::line("warning: lines were left out: the script prints faster than they are read");
        }
        for line in read["lines"].as_array().into_iter().flatten() {
            let text = if args.json {
                line.to_string()
            } else {
                line["text"].as_str().unwrap_or_default().to_owned()
            };
            if let Some(log) = &mut log {
                writeln!(log, "{text}").map_err(|error| unwritable(args, &error))?;
            }
            say::result(text);
        }
        after = read["last"].clone();
        if read["state"] == "exited" {
            return exit(&read["exit_code"]);
        }
    }
}

/// The file of `--log`, at its end.
fn opened(args: &RunArgs) -> Result<Option<File>, Failure> {
    let Some(path) = &args.log else { return Ok(None) };
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map(Some).map_err(|error| unwritable(args, &error))
}

fn unwritable(args: &RunArgs, error: &std::io::Error) -> Failure {
    let path = args.log.as_deref().unwrap_or(Path::new("")).display();
    refused(format!("cannot write the log {path}: {error}"), "name another file with --log")
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
