//! `toolyard join`: makes this gateway a node of a team's cluster, and shows the others only what is named.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use toml_edit::{Array, Table, value};
use toolyard_config::ProblemKind;

use super::edit::{Draft, Where};
use crate::cli::Common;
use crate::failure::{Failure, refused};
use crate::say;

const KEY_VARIABLE: &str = "${TOOLYARD_CLUSTER_KEY}";

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  toolyard join nats://127.0.0.1:4222 --domain hub --creds ~/team.creds --key-file ~/team.key --export notes

The other nodes see no upstream of this gateway except those that --export names. Nothing has to be reachable on this
machine: the nodes that cannot connect to it use NATS.")]
pub(crate) struct JoinArgs {
    /// The address of a NATS server of the team, or of a leaf node on this machine.
    url: String,
    /// The file with the credentials for NATS.
    #[arg(long, value_name = "FILE")]
    creds: Option<PathBuf>,
    /// The file with the key of the cluster [default: the variable `TOOLYARD_CLUSTER_KEY`, when the gateway starts].
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// An upstream that other nodes may use, or a pattern like `notes*`. Can be repeated.
    #[arg(long, value_name = "ID")]
    export: Vec<String>,
    /// The name of this node [default: the name of this machine].
    #[arg(long)]
    node: Option<String>,
    /// The `JetStream` domain of the team, if URL is a leaf node.
    #[arg(long)]
    domain: Option<String>,
    /// The prefix of the names that the cluster uses in NATS [default: toolyard].
    #[arg(long)]
    prefix: Option<String>,
    /// Print the outcome as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn join(common: &Common, args: &JoinArgs) -> Result<(), Failure> {
    super::cluster::needs_clusters()?;
    let mut draft = Draft::open(common, &Where { project: false })?;
    let table = section(args)?;
    if !draft.insert_section("cluster", table) {
        let message = format!("{} has a [cluster] already", draft.path.display());
        return Err(refused(message, "remove that section first, or change it by hand"));
    }
    let problems = draft.new_problems();
    // The variable may well be set only where the gateway runs.
    if problems.iter().any(|problem| problem.is_error() && !problem.is(&ProblemKind::UnsetVariable)) {
        return Err(Failure::Config(problems));
    }
    draft.save()?;
    let file = draft.path.display();
    if args.json {
        return Ok(say::json(&json!({ "file": file.to_string(), "export": args.export }))?);
    }
    let exported = if args.export.is_empty() { "nothing".to_owned() } else { args.export.join(", ") };
    say::result(format_args!("added [cluster] to {file}; other nodes see {exported} of this gateway"));
    say::line("note: it takes effect when the gateway is started again");
    problems.iter().for_each(say::line);
    Ok(())
}

fn section(args: &JoinArgs) -> Result<Table, Failure> {
    let mut table = Table::new();
    table.insert("nats", value(args.url.as_str()));
    let key = match &args.key_file {
        Some(file) => format!("${{file:{}}}", absolute(file)?),
        None => KEY_VARIABLE.to_owned(),
    };
    table.insert("key", value(key));
    if let Some(creds) = &args.creds {
        table.insert("creds", value(absolute(creds)?));
    }
    for (name, text) in [("node", &args.node), ("domain", &args.domain), ("prefix", &args.prefix)] {
        if let Some(text) = text {
            table.insert(name, value(text.as_str()));
        }
    }
    table.insert("export", value(args.export.iter().map(String::as_str).collect::<Array>()));
    Ok(table)
}

/// The config may be read from another folder.
fn absolute(file: &Path) -> Result<String, Failure> {
    let missing = |error| {
        refused(format!("cannot read {}: {error}", file.display()), "name the file that your team gave you")
    };
    Ok(file.canonicalize().map_err(missing)?.display().to_string())
}
