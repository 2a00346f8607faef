//! `toolyard approve` and `deny`: shows and decides what waits for an operator.

use clap::Args;
use serde_json::{Value, json};

use super::tools::with_client;
use crate::cli::Common;
use crate::failure::Failure;
use crate::say;

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// What to approve: the id of a call, `upstream:tool` for a changed tool, or an upstream for all its changed
    /// tools. Shows what waits if not given.
    id: Option<String>,
    /// Show the call that waits under this id, with all of its arguments, and do not decide.
    #[arg(long, requires = "id")]
    show: bool,
    /// Print what waits as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    /// The id of the call to deny.
    id: String,
}

pub(super) fn approve(common: &Common, args: &ApproveArgs) -> Result<(), Failure> {
    let Some(id) = &args.id else { return show(common, args.json) };
    if args.show {
        return show_call(common, id, args.json);
    }
    let approved = decide(common, "/approvals/approve", id)?;
    for id in approved["approved"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        say::result(format_args!("approved {id}"));
    }
    Ok(())
}

pub(super) fn deny(common: &Common, args: &DenyArgs) -> Result<(), Failure> {
    decide(common, "/approvals/deny", &args.id)?;
    say::result(format_args!("denied {}", args.id));
    Ok(())
}

fn decide(common: &Common, path: &str, id: &str) -> Result<Value, Failure> {
    with_client(common, None, async |client, _| {
        client.settled().await?;
        client.control(path, Some(&json!({ "id": id }))).await
    })
}

/// Shows one call with all of its arguments.
fn show_call(common: &Common, id: &str, as_json: bool) -> Result<(), Failure> {
    let call = with_client(common, None, async |client, _| {
        client.settled().await?;
        client.control(&format!("/approvals/{id}"), None).await
    })?;
    if as_json {
        return Ok(say::json(&call)?);
    }
    say_call(&call);
    let text = |key: &str| call[key].as_str().unwrap_or_default();
    for key in ["digest", "rule", "since", "expires"] {
        say::result(format_args!("    {key}: {}", text(key)));
    }
    Ok(())
}

/// Arguments that are cut are named as such, with the digest that an approval covers.
fn say_call(call: &Value) {
    let text = |key: &str| call[key].as_str().unwrap_or_default();
    let id = text("id");
    let node = call["node"].as_str().map(|node| format!(" (at the node {node})")).unwrap_or_default();
    say::result(format_args!("{id}  {} calls {}{node}", text("principal"), text("tool")));
    if call["cut"] != true {
        say::result(format_args!("    arguments: {}", call["arguments"]));
        return;
    }
    let (shown, bytes) = (text("arguments"), &call["bytes"]);
    say::result(format_args!("    arguments, cut: {shown}…"));
    say::result(format_args!(
        "    these are {} of {bytes} bytes, with the digest {}; `toolyard approve {id} --show` shows all of them",
        shown.len(),
        text("digest")
    ));
}

fn show(common: &Common, as_json: bool) -> Result<(), Failure> {
    let waiting = with_client(common, None, async |client, _| {
        client.settled().await?;
        client.control("/approvals", None).await
    })?;
    if as_json {
        return Ok(say::json(&waiting)?);
    }
    let of = |key: &str| waiting[key].as_array().cloned().unwrap_or_default();
    let (calls, tools) = (of("calls"), of("tools"));
    calls.iter().for_each(say_call);
    for tool in &tools {
        let text = |key: &str| tool[key].as_str().unwrap_or_default();
        say::result(format_args!("{}  {}", text("id"), text("why")));
        for one in tool["differences"].as_array().into_iter().flatten() {
            let part = |key: &str| one[key].as_str().unwrap_or_default();
            say::result(format_args!("    {}: {}", part("place"), part("change")));
        }
    }
    if calls.is_empty() && tools.is_empty() && !common.quiet {
        say::line("nothing waits for approval");
    }
    Ok(())
}
