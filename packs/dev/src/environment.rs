//! The tools about the environment: the version, the programs that are there, the project, a search for tools, and why
//! a gateway is not restarted by a tool.

mod project;

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolyard_tool::{Context, Host, ToolError, WithText, tool};

pub(crate) use project::get_project_context;

/// Programs that agents often need.
const PROGRAMS: [&str; 15] = [
    "git", "gh", "rg", "fd", "sg", "ruff", "tsc", "node", "python3", "cargo", "go", "claude", "codex",
    "gemini", "opencode",
];

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
    /// The accounts of the config (`[logins.NAME]`).
    logins: Vec<Login>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Login {
    name: String,
    /// Whether the user has signed in. The provider was not asked.
    is_signed_in: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Program {
    name: &'static str,
    /// Whether there is a file of this name in `PATH`. It was not run.
    is_there: bool,
}

/// Which programs that agents often need are in PATH, and which accounts of the config are signed in.
#[tool(read_only, idempotent)]
pub(crate) async fn get_system_health(host: &Host) -> WithText<Health> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let suffix = std::env::consts::EXE_SUFFIX;
    let is_there = |name: &str| folders.iter().any(|folder| folder.join(format!("{name}{suffix}")).is_file());
    let programs: Vec<Program> =
        PROGRAMS.into_iter().map(|name| Program { name, is_there: is_there(name) }).collect();
    let logins = host.sign_ins().await.into_iter();
    let logins: Vec<Login> =
        logins.map(|login| Login { name: login.provider, is_signed_in: login.is_signed_in }).collect();
    let mark = |is_so: bool| if is_so { 'x' } else { ' ' };
    let mut text = String::from("Programs:\n");
    for Program { name, is_there } in &programs {
        let _ = writeln!(text, "- [{}] {name}", mark(*is_there));
    }
    if !logins.is_empty() {
        text.push_str("\nAccounts that are signed in:\n");
    }
    for Login { name, is_signed_in } in &logins {
        let how = if *is_signed_in { String::new() } else { format!(": `toolyard login {name}`") };
        let _ = writeln!(text, "- [{}] {name}{how}", mark(*is_signed_in));
    }
    text.push_str("\n`toolyard doctor` checks the gateway and its servers, also their sign-ins.");
    WithText::new(Health { programs, logins }, text)
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
    let found = context.tools()?.search(&args.query).await?;
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

/// By the server or pack, or by how the tool's own name begins: `lsp` matches `code:lsp_hover`. The id has both,
/// whatever name the view shows.
fn is_of(tool: &Value, category: Option<&str>) -> bool {
    let Some(category) = category else { return true };
    let id = tool["id"].as_str().or(tool["name"].as_str()).unwrap_or_default();
    let (upstream, own) = id.split_once(':').unwrap_or(("", id));
    upstream == category || own.starts_with(category)
}

/// Does not restart the gateway, and explains who can.
#[tool(read_only, idempotent)]
pub(crate) fn system_restart() -> Result<String, ToolError> {
    Err(ToolError::new("the gateway is not restarted by a tool, since other clients use it as well")
        .hint("a changed config is applied at once; an operator restarts the gateway with `toolyard stop` and `toolyard serve`, or with `toolyard service install` if it runs as a service"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_category_is_a_server_or_the_beginning_of_a_name() {
        let check = |name: &str, category: &str, expected: bool| {
            let tool = json!({ "name": "shown", "id": name });
            assert_eq!(is_of(&tool, Some(category)), expected, "{name} {category}");
        };
        check("code:lsp_hover", "code", true);
        check("code:lsp_hover", "lsp", true);
        check("code:grep_search", "lsp", false);
        check("music:code_page", "code", true);
        check("github:get_issue", "git", false);
    }
}
