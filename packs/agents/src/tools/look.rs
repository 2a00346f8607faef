//! `agent_output`, `agent_progress`, `agent_cancel`, `agent_list`, `agent_cleanup`: agents that were started.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Context, ToolError, clamp, tool};

use super::{WithText, readable};
use crate::agents::Agents;
use crate::store::{Run, Status, now, shortened};

/// The most agents that a list shows.
const MOST: usize = 1000;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Output {
    /// The agent.
    task_id: String,
    /// Wait until it has ended. Its questions are put to the user meanwhile.
    #[serde(default)]
    block: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Which {
    /// The agent.
    task_id: String,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Progress {
    /// The agent.
    task_id: String,
    /// How many lines to show.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 1000), transform = clamp)]
    lines: usize,
}

fn twenty() -> usize {
    20
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct List {
    /// Also list agents that have ended.
    #[serde(default = "yes")]
    show_all: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Cleanup {
    /// Only agents that ended at least so many minutes ago.
    #[serde(default = "thirty")]
    max_age_minutes: u32,
    /// Only agents with one of these statuses.
    #[serde(default = "ended")]
    statuses: Vec<Status>,
}

fn thirty() -> u32 {
    30
}

fn ended() -> Vec<Status> {
    vec![Status::Completed, Status::Failed, Status::Cancelled]
}

/// The result of an agent, or how far it is.
#[tool(read_only)]
pub(crate) async fn agent_output(
    agents: &Agents,
    context: &Context,
    args: Output,
) -> Result<WithText<Run>, ToolError> {
    let mut run = agents.store.get(&context.caller().principal, &args.task_id)?;
    if args.block {
        run = agents.wait(context, &run).await?;
    }
    let mut text = readable(&run);
    let family = agents.under_way(&run).map(|live| agents.family(&live)).unwrap_or_default();
    for question in family.iter().filter_map(|live| live.waits_for()) {
        let who_answers = if context.caller().runs.is_empty() {
            "Call `agent_output` with `block` to answer."
        } else {
            "The user who started you can answer."
        };
        let _ = write!(text, "\n\nIt waits for an answer: {question}\n{who_answers}");
    }
    Ok(WithText::new(run, text))
}

/// What an agent has written so far.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Written {
    id: String,
    status: Status,
    lines: Vec<String>,
}

/// The last lines that an agent has written, also while it runs.
#[tool(read_only)]
pub(crate) fn agent_progress(
    agents: &Agents,
    context: &Context,
    args: Progress,
) -> Result<WithText<Written>, ToolError> {
    let run = agents.store.get(&context.caller().principal, &args.task_id)?;
    let lines = agents.store.tail(&run.id, args.lines);
    let text = format!("{} ({}): {}\n\n{}", run.id, run.agent_type, run.status.as_str(), lines.join("\n"));
    Ok(WithText::new(Written { id: run.id, status: run.status, lines }, text))
}

/// Stops an agent with everything that it has started.
#[tool(idempotent)]
pub(crate) async fn agent_cancel(
    agents: &Agents,
    context: &Context,
    args: Which,
) -> Result<WithText<Run>, ToolError> {
    let run = agents.store.get(&context.caller().principal, &args.task_id)?;
    let family = agents.cancel(&run);
    for live in &family {
        live.ended().await;
    }
    if family.is_empty() && run.status == Status::Running && !agents.store.is_own(&run.id)? {
        let what = format!("`{}` runs at another gateway with this state directory", run.id);
        return Err(ToolError::new(what).hint("cancel it there"));
    }
    let run = agents.store.get(&run.owner, &run.id)?;
    let text = readable(&run);
    Ok(WithText::new(run, text))
}

/// Lists your agents and those that they have started, newest first.
#[tool(read_only)]
pub(crate) fn agent_list(
    agents: &Agents,
    context: &Context,
    args: List,
) -> Result<WithText<Vec<Run>>, ToolError> {
    let mut runs = agents.store.list(&context.caller().principal, MOST)?;
    runs.retain(|run| args.show_all || run.status == Status::Running);
    for run in &mut runs {
        run.result = run.result.take().map(|result| shortened(&result, 200));
    }
    let mut text = String::new();
    for run in &runs {
        let about = run.description.as_deref().unwrap_or_default();
        let _ = writeln!(text, "• {} ({}) - {} {about}", run.id, run.status.as_str(), run.agent_type);
    }
    if runs.is_empty() {
        text.push_str("There are no agents.");
    }
    Ok(WithText::new(runs, text))
}

/// Removes agents that have ended, with their output. Worktrees with changes stay and are named.
#[tool(destructive, idempotent)]
pub(crate) async fn agent_cleanup(
    agents: &Agents,
    context: &Context,
    args: Cleanup,
) -> Result<String, ToolError> {
    let owner = context.caller().principal;
    let before = now() - i64::from(args.max_age_minutes) * 60;
    let mut removed = 0;
    for run in agents.store.list(&owner, MOST)? {
        let is_old = run.ended.is_some_and(|ended| ended <= before);
        if run.status != Status::Running && is_old && args.statuses.contains(&run.status) {
            agents.store.remove(&run.id)?;
            removed += 1;
        }
    }
    let mut text = format!("Removed {removed} agents");
    for worktree in agents.store.worktrees_left(Some(&owner))? {
        if !worktree.remove_if_clean(&agents.host, &agents.store).await {
            let _ = write!(text, "\nA worktree with changes stays: {}", worktree.folder.display());
        }
    }
    Ok(text)
}
