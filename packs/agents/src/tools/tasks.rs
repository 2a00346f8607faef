//! `task_spawn`, `task_status`, `task_list`: the same runs under the names of background tasks.

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_tool::{Context, ToolError, tool};

use super::{WithText, readable};
use crate::agents::{Agents, Wanted};
use crate::store::Run;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Spawn {
    /// What is to be done.
    #[schemars(length(min = 1))]
    prompt: String,
    /// The model, if not the one of the type.
    model: Option<String>,
    /// The folder to work in; the only one of the config if it is left out.
    project_path: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Which {
    /// The task.
    task_id: String,
}

/// The type of agent for tasks: `task` if there is one, else `explore`, else the first.
fn agent_type(agents: &Agents) -> Result<String, ToolError> {
    let types = &agents.config.types;
    let preferred = ["task", "explore"].into_iter().find(|name| types.contains_key(*name));
    let name = preferred.or_else(|| types.keys().next().map(String::as_str));
    name.map(ToOwned::to_owned).ok_or_else(|| ToolError::new("no type of agent is configured"))
}

/// Starts a task in the background and returns its id.
#[tool(open_world)]
pub(crate) async fn task_spawn(
    agents: &Agents,
    context: &Context,
    args: Spawn,
) -> Result<WithText<Run>, ToolError> {
    if agents.type_of_caller(context)?.is_some() {
        return Err(ToolError::new(
            "an agent cannot use `task_spawn`; start others with `agent_spawn` and give the reason",
        ));
    }
    let wanted = Wanted {
        prompt: args.prompt,
        agent_type: agent_type(agents)?,
        description: None,
        model: args.model,
        timeout: 3600,
        folder: agents.project(args.project_path.as_deref())?,
    };
    let run = agents.start(context, wanted)?;
    let text = format!("Task {} started", run.id);
    Ok(WithText::new(run, text))
}

/// The status of a task, with its result once it has ended.
#[tool(read_only)]
pub(crate) fn task_status(
    agents: &Agents,
    context: &Context,
    args: Which,
) -> Result<WithText<Run>, ToolError> {
    let run = agents.store.get(&context.caller().principal, &args.task_id)?;
    let text = readable(&run);
    Ok(WithText::new(run, text))
}

/// Lists your tasks, newest first.
#[tool(read_only)]
pub(crate) fn task_list(agents: &Agents, context: &Context) -> Result<WithText<Vec<Run>>, ToolError> {
    let runs = agents.store.list(&context.caller().principal, 1000)?;
    let lines: Vec<String> = runs.iter().map(|run| format!("{} ({})", run.id, run.status.as_str())).collect();
    let text = if lines.is_empty() { "There are no tasks.".to_owned() } else { lines.join("\n") };
    Ok(WithText::new(runs, text))
}
