//! The tools about the environment: the version, the programs that are there, the project, a search for tools, and why
//! a gateway is not restarted by a tool.

mod project;

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolyard_tool::{Context, ToolError, WithText, tool};

pub(crate) use project::get_project_context;

/// Programs that agents often need.
const PROGRAMS: [&str; 12] =
    ["git", "gh", "rg", "fd", "node", "python3", "cargo", "go", "claude", "codex", "gemini", "opencode"];

#[derive(Serialize, JsonSchema)]
pub(crate) struct About {
    name: &'static str,
    version: &'static str,
    os: &'static str,
    arch: &'static str,
    /// The folder that the client works in, if it is known.
    folder: Option<String>,
}

/// The version of Toolyard and the system that it runs on.
#[tool(name = "stravinsky_version", read_only, idempotent)]
pub(crate) async fn version(context: &Context) -> WithText<About> {
    let folder = context.folder(None, &[]).await.ok().map(|folder| folder.display().to_string());
    let about = About {
        name: "toolyard",
        version: env!("CARGO_PKG_VERSION"),
        os: std::env::consts::OS,
        arch: std::env::consts::ARCH,
        folder,
    };
    let text = format!("toolyard {} ({} {})", about.version, about.os, about.arch);
    WithText::new(about, text)
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Health {
    programs: Vec<Program>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Program {
    name: &'static str,
    /// Whether there is a file of this name in `PATH`. It was not run.
    is_there: bool,
}

/// Which programs that agents often need are in PATH.
#[tool(read_only, idempotent)]
pub(crate) fn get_system_health() -> WithText<Health> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let suffix = std::env::consts::EXE_SUFFIX;
    let is_there = |name: &str| folders.iter().any(|folder| folder.join(format!("{name}{suffix}")).is_file());
    let programs: Vec<Program> =
        PROGRAMS.into_iter().map(|name| Program { name, is_there: is_there(name) }).collect();
    let mut text = String::new();
    for Program { name, is_there } in &programs {
        let _ = writeln!(text, "- [{}] {name}", if *is_there { 'x' } else { ' ' });
    }
    text.push_str("\n`toolyard doctor` checks the gateway and its servers.");
    WithText::new(Health { programs }, text)
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Search {
    /// Words that describe what the tool should do.
    #[schemars(length(min = 1))]
    query: String,
    /// Only tools of this server or pack, or whose name begins like this.
    category: Option<String>,
    /// How many tools to return.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 50))]
    top_k: usize,
}

fn five() -> usize {
    5
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Found {
    tools: Vec<FoundTool>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct FoundTool {
    name: String,
    description: String,
}

/// Finds tools of the gateway by words, best first.
#[tool(read_only, idempotent)]
pub(crate) async fn tool_search(context: &Context, args: Search) -> Result<WithText<Found>, ToolError> {
    let tools = context.tools()?;
    // The gateway's own search also finds tools that are not listed; not every view has it.
    let limit = if args.category.is_some() { 50 } else { args.top_k };
    let ranked = tools.call("yard__search_tools", json!({ "query": args.query, "limit": limit })).await;
    let ranked = ranked.ok().filter(|answer| !answer.is_error());
    let found = match ranked.as_ref().and_then(|answer| answer.structured()?["tools"].as_array()) {
        Some(found) => found.clone(),
        None => tools.search(&args.query).await?,
    };
    let text_of = |tool: &Value, key: &str| tool[key].as_str().unwrap_or_default().to_owned();
    let found = found.iter().filter(|tool| is_of(tool, args.category.as_deref()));
    let found = found
        .map(|tool| FoundTool { name: text_of(tool, "name"), description: text_of(tool, "description") });
    let found: Vec<FoundTool> = found.take(args.top_k).collect();
    let mut text = String::new();
    for FoundTool { name, description } in &found {
        let _ = writeln!(text, "- {name}: {}", description.lines().next().unwrap_or_default());
    }
    if found.is_empty() {
        text.push_str("No tool matches.");
    }
    Ok(WithText::new(Found { tools: found }, text))
}

/// By the server or pack, or by how the tool's own name begins: `lsp` matches `code__lsp_hover`.
fn is_of(tool: &Value, category: Option<&str>) -> bool {
    let Some(category) = category else { return true };
    let name = tool["name"].as_str().unwrap_or_default();
    let (upstream, own) = name.split_once("__").unwrap_or(("", name));
    upstream == category || tool["upstream"] == category || own.starts_with(category)
}

/// Does not restart the gateway, and explains who can.
#[tool(read_only, idempotent)]
pub(crate) fn system_restart() -> Result<String, ToolError> {
    Err(ToolError::new("the gateway is not restarted by a tool, since other clients use it as well")
        .hint("a changed config is applied at once; an operator restarts the gateway with the service manager or by starting it again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_category_is_a_server_or_the_beginning_of_a_name() {
        let check = |name: &str, category: &str, expected: bool| {
            assert_eq!(is_of(&json!({ "name": name }), Some(category)), expected, "{name} {category}");
        };
        check("code__lsp_hover", "code", true);
        check("code__lsp_hover", "lsp", true);
        check("lsp_hover", "lsp", true);
        check("code__grep_search", "lsp", false);
        check("music__code_page", "code", true);
        check("github__get_issue", "git", false);
    }
}
