//! `toolyard cluster status`: the nodes of the cluster and what they own, as the running gateway sees them.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::live;
use super::manage::{Address, control, no_socket, running};
use crate::cli::Common;
use crate::failure::Failure;
use crate::say;

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show the nodes of the cluster and what they own.
    Status(StatusArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn cluster(common: &Common, command: &ClusterCommand) -> Result<(), Failure> {
    let ClusterCommand::Status(args) = command;
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
