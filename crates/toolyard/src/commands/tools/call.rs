//! `toolyard tools call`: calls a tool and prints its answer.

use std::io::Read;

use clap::Args;
use serde_json::{Value, json};
use toolyard_core::catalog::param_headers;
use toolyard_model::{Peer, View};
use toolyard_proto::{Method, Raw};

use super::progress::Progress;
use super::{Tool, Tools, arguments, failed, show, upstream_in, with_client};
use crate::cli::Common;
use crate::commands::live::Client;
use crate::failure::Failure;
use crate::say;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolyard tools call files:read_file path=/srv/notes.txt
  toolyard tools call get-sum a=1 b=2
  toolyard tools call search query='open issues' labels:='[\"bug\"]' --json

Ctrl-C cancels the call. The exit code is 1 where the tool answers that it failed.")]
pub(crate) struct CallArgs {
    /// `upstream:tool`, the name that clients see, or the tool's own name if only one server has it.
    name: String,
    /// name=text, or name:=json.
    arguments: Vec<String>,
    /// All arguments as one JSON object; `-` reads it from stdin.
    #[arg(long, value_name = "JSON")]
    args: Option<String>,
    /// Print the whole result as JSON, as it came.
    #[arg(long)]
    json: bool,
    /// Print text byte for byte; control characters are escaped otherwise.
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

pub(super) fn call(common: &Common, args: &CallArgs) -> Result<(), Failure> {
    let whole = whole(args)?;
    let only = upstream_in(common, &args.name);
    let result = with_client(common, only.as_deref(), async |client, settings| {
        let tools = Tools::for_name(client, settings, only.as_deref(), &args.name).await?;
        let tool = tools.find(&args.name)?;
        let schema =
            tool.definition.member("inputSchema").and_then(|schema| schema.read().ok()).unwrap_or_default();
        let arguments =
            arguments::read(&args.arguments, whole.as_deref(), &schema).map_err(Failure::Usage)?;
        send(client, tool, arguments.into(), common.quiet).await
    })?;
    let value: Value = result.read().map_err(anyhow::Error::from)?;
    if args.json {
        say::json(&value)?;
    } else if args.raw {
        say::raw(format!("{}\n", show::text(&value)).as_bytes());
    } else {
        say::result(show::text(&value));
    }
    if value["isError"] == true { Err(Failure::AlreadyReported(1)) } else { Ok(()) }
}

fn whole(args: &CallArgs) -> Result<Option<String>, Failure> {
    if args.args.as_deref() != Some("-") {
        return Ok(args.args.clone());
    }
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| Failure::Usage(format!("--args -: cannot read stdin: {error}")))?;
    Ok(Some(text))
}

async fn send(client: &Client, tool: &Tool, arguments: Value, quiet: bool) -> Result<Raw, Failure> {
    let params: Raw =
        json!({ "name": tool.own, "arguments": arguments, "_meta": { "progressToken": 1 } }).into();
    let view = View::Upstream(tool.upstream.as_str().into());
    let headers = if client.is_own() { None } else { param_headers(&tool.definition, &params) };
    let progress = Progress::new(quiet);
    let call =
        client.request(&view, Method::new("tools/call"), &params, headers, Peer::new(progress.clone()));
    progress.watch(&tool.canonical(), call).await.map_err(|error| failed(&error))
}
