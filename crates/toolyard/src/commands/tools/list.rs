//! `toolyard tools list`.

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde_json::json;

use super::{Direct, Tool, Tools, upstream_in, with_server};
use crate::cli::Common;
use crate::commands::completions;
use crate::failure::{Failure, refused};
use crate::say;

/// The length of a description that fits a line.
const FIRST_WORDS: usize = 72;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only tools of this server.
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completions::servers))]
    upstream: Option<String>,
    /// Print them as JSON, schemas included.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    direct: Direct,
}

pub(super) fn list(common: &Common, args: &ListArgs) -> Result<(), Failure> {
    let only = args.upstream.as_deref().and_then(|name| upstream_in(common, name));
    let (tools, left_out) = with_server(common, only.as_deref(), &args.direct, async |client, settings| {
        let tools = Tools::of(client, settings, args.direct.id().or(args.upstream.as_deref())).await?;
        let left_out: Vec<_> = tools.all.iter().map(|tool| tool.left_out(&settings.config)).collect();
        Ok((tools, left_out))
    })?;
    check_upstream(args, &tools)?;
    let off = switched_off(args, &tools);
    if args.json {
        let entry = |tool: &Tool| json!({ "id": tool.canonical(), "name": tool.shown, "upstream": tool.upstream, "definition": tool.definition });
        let off = off.iter().map(|(upstream, id)| json!({ "id": id, "upstream": upstream, "off": true }));
        let tools: Vec<_> = tools.all.iter().map(entry).chain(off).collect();
        return Ok(say::json(&tools)?);
    }
    let on = tools.all.iter().zip(&left_out).map(|(tool, left_out)| match left_out {
        Some(fault) => [tool.canonical(), format!("only at /mcp/{}: {fault}", tool.upstream)],
        None => [tool.canonical(), first_words(tool)],
    });
    let off = off.iter().map(|(_, id)| [(*id).to_owned(), format!("off: `toolyard tools enable {id}`")]);
    let rows: Vec<[String; 2]> = on.chain(off).collect();
    say::table(&rows);
    for (id, why) in tools.missing.iter().filter(|_| !common.quiet) {
        say::line(format_args!("warning: {id} is not active: {why}"));
    }
    Ok(())
}

/// The tools that an operator has switched off, after their upstream.
fn switched_off<'a>(args: &ListArgs, tools: &'a Tools) -> Vec<(&'a str, &'a str)> {
    let is_asked = |id: &str| args.upstream.as_deref().is_none_or(|only| only.eq_ignore_ascii_case(id));
    let states = tools.states.iter().filter(|state| is_asked(&state.id));
    states.flat_map(|state| state.off.iter().map(|id| (state.id.as_str(), id.as_str()))).collect()
}

fn check_upstream(args: &ListArgs, tools: &Tools) -> Result<(), Failure> {
    let Some(name) = &args.upstream else { return Ok(()) };
    let mut ids: Vec<&str> = tools.states.iter().map(|state| state.id.as_str()).collect();
    ids.push("yard");
    if ids.iter().any(|id| id.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    Err(refused(format!("there is no server `{name}`"), crate::commands::remove::known(name, &ids)))
}

fn first_words(tool: &Tool) -> String {
    let text = tool.text("description").or_else(|| tool.text("title")).unwrap_or_default();
    let line = text.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(FIRST_WORDS) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line.to_owned(),
    }
}
