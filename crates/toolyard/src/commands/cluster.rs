//! `toolyard cluster`: the nodes of the cluster and what they own, as the running gateway sees them; and the copies of
//! the audits of all nodes, which it reads from NATS itself.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::live;
use super::manage::{Address, control, no_socket, running};
use crate::cli::Common;
use crate::failure::{Failure, refused};
use crate::{cluster, say, settings};

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show the nodes of the cluster and what they own.
    Status(StatusArgs),
    /// Print the records of calls that nodes have copied into NATS, one JSON object per line.
    Audit(AuditArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Print new records as they are copied.
    #[arg(short, long)]
    follow: bool,
}

pub(super) fn cluster(common: &Common, command: &ClusterCommand) -> Result<(), Failure> {
    match command {
        ClusterCommand::Status(args) => status(common, args),
        ClusterCommand::Audit(args) => audit(common, args),
    }
}

/// Fails if the program was built without clusters.
pub(super) fn needs_clusters() -> Result<(), Failure> {
    if cfg!(feature = "cluster") {
        return Ok(());
    }
    Err(refused("this program was built without clusters", "build it with `--features cluster`"))
}

fn audit(common: &Common, args: &AuditArgs) -> Result<(), Failure> {
    let settings = settings::read(common)?;
    let Some(cluster) = &settings.config.cluster else {
        let help = "name the config of a node with --config, or join a cluster with `toolyard join`";
        return Err(refused("the config has no [cluster]", help));
    };
    needs_clusters()?;
    let mut unread = 0_u64;
    let show = |node, record: Option<Value>| {
        match record {
            Some(mut record) => {
                record["node"] = Value::String(node);
                say::result(record);
            }
            None => unread += 1,
        }
        !say::is_lost()
    };
    live::block_on(cluster::read_audit(cluster, args.follow, show))??;
    if unread > 0 {
        say::line(format_args!(
            "note: {unread} messages of the stream were left out: the `key` of [cluster] does not open them"
        ));
    }
    Ok(())
}

fn status(common: &Common, args: &StatusArgs) -> Result<(), Failure> {
    let running = running(common)?;
    let socket = running.socket.as_deref().ok_or_else(no_socket)?;
    let status = live::block_on(control(&Address::Socket(socket), "/cluster", None))??;
    if args.json {
        return Ok(say::json(&status)?);
    }
    show(&status);
    Ok(())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}

fn node_row(node: &Value) -> [String; 8] {
    let is_self = node["self"] == true;
    let state = match (is_self, node["alive"] == true) {
        (true, _) => "this node",
        (false, true) => "alive",
        (false, false) => "silent",
    };
    let link = match node["link"]["by"].as_str() {
        Some("direct") => format!("direct, {} ms", node["link"]["connectMs"]),
        Some("nats") => format!("through NATS, {} ms", node["link"]["connectMs"]),
        Some(_) => format!("fails: {}", text(&node["link"]["error"])),
        None => "-".to_owned(),
    };
    let silence = node["silentMs"].as_u64().unwrap_or_default() / 1_000;
    let lag = if is_self { "-".to_owned() } else { format!("{silence} s") };
    let config = if node["sameConfig"] == true { "same" } else { "differs" };
    let name = text(&node["node"]);
    let address = text(&node["address"]);
    let version = text(&node["version"]);
    [name, state.to_owned(), address, link, lag, version, node["owns"].to_string(), config.to_owned()]
}

fn show(status: &Value) {
    let store = if status["connected"] == true { "connected to NATS" } else { "NOT connected to NATS" };
    let left = status["leaseMsLeft"].as_u64().unwrap_or_default() / 1_000;
    say::result(format_args!("node {}: {store}, lease valid for {left} s", text(&status["node"])));
    if let Some(problem) = status["problem"].as_str() {
        say::line(format_args!("note: {problem}"));
    }
    let heading = ["NODE", "STATE", "ADDRESS", "LINK", "LAG", "VERSION", "OWNS", "CONFIG"].map(str::to_owned);
    let nodes = status["nodes"].as_array().into_iter().flatten().map(node_row);
    say::table(&[heading].into_iter().chain(nodes).collect::<Vec<_>>());
    let heading = ["UPSTREAM", "KIND", "NODE", "FENCE"].map(str::to_owned);
    let row = |owner: &Value| {
        let node = text(&owner["node"]);
        let node = if owner["alive"] == true { node } else { format!("{node} (gone)") };
        [text(&owner["id"]), text(&owner["kind"]), node, owner["fence"].to_string()]
    };
    let owners: Vec<_> = status["owners"].as_array().into_iter().flatten().map(row).collect();
    if !owners.is_empty() {
        say::table(&[heading].into_iter().chain(owners).collect::<Vec<_>>());
    }
}
