//! `toolyard tools call`: calls a tool and prints its answer.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde_json::{Value, json};
use toolyard_core::catalog::param_headers;
use toolyard_model::{Ask, Back as _, Peer, View};
use toolyard_proto::{Method, Raw};

use super::progress::Progress;
use super::{Direct, Tool, Tools, arguments, failed, saved, show, upstream_in, with_server};
use crate::cli::Common;
use crate::commands::completions;
use crate::commands::live::Client;
use crate::failure::{Failure, refused};
use crate::say;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolyard tools call files:read_file path=/srv/notes.txt
  toolyard tools call get-sum a=1 b=2
  toolyard tools call search query='open issues' labels:='[\"bug\"]' --json
  toolyard tools call screenshot --out page.png
  toolyard tools call echo text=hi --url http://127.0.0.1:3000/mcp
  toolyard tools call read_file path=notes.txt -- npx -y @modelcontextprotocol/server-filesystem .

If the tool asks a question, you are asked on the terminal. Ctrl-C cancels the call. The exit code is 1 if the tool reports a failure.")]
pub(crate) struct CallArgs {
    /// `upstream:tool`, the name that clients see, or the tool's own name if only one server has it.
    #[arg(add = ArgValueCandidates::new(completions::tools))]
    name: String,
    /// name=text, or name:=json.
    #[arg(add = ArgValueCandidates::new(completions::parameters))]
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
    /// Save images, sound and other files of the answer: one to this file, several with numbers. Into a folder if it
    /// is one.
    #[arg(short, long, value_name = "PATH")]
    out: Option<PathBuf>,
    #[command(flatten)]
    direct: Direct,
}

/// How often a tool may ask before it has to finish.
const MOST_ROUNDS: usize = 20;

pub(super) fn call(common: &Common, args: &CallArgs) -> Result<(), Failure> {
    let whole = whole(args)?;
    let only = args.direct.id().map(str::to_owned).or_else(|| upstream_in(common, &args.name));
    let (tool, result) = with_server(common, only.as_deref(), &args.direct, async |client, settings| {
        let tools = Tools::for_name(client, settings, only.as_deref(), &args.name).await?;
        let tool = tools.find(&args.name)?;
        let schema =
            tool.definition.member("inputSchema").and_then(|schema| schema.read().ok()).unwrap_or_default();
        let arguments =
            arguments::read(&args.arguments, whole.as_deref(), &schema).map_err(Failure::Usage)?;
        Ok((tool.own.clone(), send(client, tool, arguments.into(), common.quiet).await?))
    })?;
    let mut value: Value = result.read().map_err(anyhow::Error::from)?;
    if let Some(out) = &args.out {
        saved::save(&mut value, out, &tool)?;
    }
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

/// Calls the tool, and calls it again with the user's answers for as long as it asks questions.
async fn send(client: &Client, tool: &Tool, arguments: Value, quiet: bool) -> Result<Raw, Failure> {
    let base: Raw =
        json!({ "name": tool.own, "arguments": arguments, "_meta": { "progressToken": 1 } }).into();
    let view = View::Upstream(tool.upstream.as_str().into());
    let headers = if client.is_own() { None } else { param_headers(&tool.definition, &base) };
    let progress = Progress::new(&tool.canonical(), quiet);
    let (capabilities, mut params) = (progress.capabilities(), base.clone());
    for _ in 0..MOST_ROUNDS {
        let (peer, method) = (Peer::new(progress.clone()), Method::new("tools/call"));
        let call = client.request_with(capabilities.clone(), &view, method, &params, headers.clone(), peer);
        let result = progress.watch(call).await.map_err(|error| failed(&tool.canonical(), &error))?;
        if result.member("resultType").is_none_or(|kind| kind.as_bytes() != b"\"input_required\"") {
            return Ok(result);
        }
        params = answered(&base, &result, &progress).await?;
    }
    Err(refused(format!("{} asked {MOST_ROUNDS} times without finishing", tool.canonical()), ""))
}

/// The parameters of the next round: the user's answers, and the state with which the tool continues.
async fn answered(base: &Raw, result: &Raw, progress: &Progress) -> Result<Raw, Failure> {
    let asked: BTreeMap<String, Raw> =
        result.member("inputRequests").and_then(|asked| asked.read().ok()).unwrap_or_default();
    let mut answers = Raw::empty_object();
    for (key, request) in asked {
        let method = request.member("method").and_then(|method| method.as_string()).unwrap_or_default();
        let ask = Ask { method: Method::new(&method), params: request.member("params") };
        let answer = progress.ask(ask).await.map_err(|error| refused(error.to_string(), ""))?;
        answers = answers.with(&key, &answer);
    }
    let params = base.with("inputResponses", &answers);
    Ok(match result.member("requestState") {
        Some(state) => params.with("requestState", &state),
        None => params,
    })
}
