//! `agent_spawn` and `agent_retry`: start an agent.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolyard_tool::{Context, ToolError, tool};

use super::{WithText, readable};
use crate::agents::{Agents, Wanted};
use crate::config::Tier;
use crate::store::Run;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Spawn {
    /// What the agent is to do.
    #[schemars(length(min = 1))]
    prompt: String,
    /// The type of the agent.
    #[serde(default = "explore")]
    agent_type: String,
    /// What it is for, in a few words.
    description: Option<String>,
    /// The model, if not the one of the type.
    model: Option<String>,
    /// Kept for compatibility: the programs choose how much they think.
    #[serde(default)]
    #[expect(dead_code, reason = "the tool accepts it for callers that pass it")]
    thinking_budget: u32,
    /// Seconds until the agent is stopped.
    #[serde(default = "timeout")]
    #[schemars(range(min = 1, max = 86400))]
    timeout: u64,
    /// Wait for the agent and return its result.
    #[serde(default)]
    blocking: bool,
    /// The folder to work in; the only one of the config if it is left out.
    project_path: Option<String>,
    /// Search the code for the prompt first, and give the agent what was found.
    #[serde(default)]
    semantic_first: bool,
    /// The type of the agent that spawns this one. An agent with a token of this gateway need not pass it.
    spawning_agent: Option<String>,
    /// Why the work is delegated; an agent that spawns must say it.
    delegation_reason: Option<String>,
    /// What is to come out; an agent that spawns must say it.
    expected_outcome: Option<String>,
    /// Tools that the work needs; an agent that spawns must name them.
    required_tools: Option<Vec<String>>,
}

fn explore() -> String {
    "explore".into()
}

fn timeout() -> u64 {
    300
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Retry {
    /// The agent to run again.
    task_id: String,
    /// Another prompt.
    new_prompt: Option<String>,
    /// Another time limit, in seconds.
    #[schemars(range(min = 1, max = 86400))]
    new_timeout: Option<u64>,
}

/// Starts an agent that works on a task by itself. Returns its id at once, or its result with `blocking`.
#[tool(open_world, task, asks_first, keep = "7d")]
pub(crate) async fn agent_spawn(
    agents: &Agents,
    context: &Context,
    args: Spawn,
) -> Result<WithText<Run>, ToolError> {
    args.check_delegation(agents, context)?;
    let folder = agents.project(args.project_path.as_deref())?;
    let prompt = if args.semantic_first {
        with_search(context, &args.prompt, &folder.display().to_string()).await?
    } else {
        args.prompt
    };
    let wanted = Wanted {
        prompt,
        agent_type: args.agent_type,
        description: args.description,
        model: args.model,
        timeout: args.timeout,
        folder,
    };
    let run = agents.start(context, wanted)?;
    if args.blocking {
        let cancel = CancelOnDrop { agents, run: &run };
        let ended = agents.wait(context, &run).await?;
        std::mem::forget(cancel);
        let text = readable(&ended);
        return Ok(WithText::new(ended, text));
    }
    let text = started(agents, &run);
    Ok(WithText::new(run, text))
}

/// Runs an agent again, as a new one of the same type.
#[tool(open_world)]
pub(crate) async fn agent_retry(
    agents: &Agents,
    context: &Context,
    args: Retry,
) -> Result<WithText<Run>, ToolError> {
    let owner = context.caller().principal;
    let old = agents.store.get(&owner, &args.task_id)?;
    let wanted = Wanted {
        prompt: args.new_prompt.unwrap_or(old.prompt),
        agent_type: old.agent_type,
        description: old.description,
        model: old.model,
        timeout: args.new_timeout.unwrap_or(old.timeout),
        folder: agents.project(Some(&old.folder))?,
    };
    let run = agents.start(context, wanted)?;
    let text = started(agents, &run);
    Ok(WithText::new(run, text))
}

fn started(agents: &Agents, run: &Run) -> String {
    let tier = match agents.config.tier(&run.agent_type) {
        Tier::Cheap => "cheap",
        Tier::Medium => "medium",
        Tier::Expensive => "expensive",
    };
    let model = run.model.as_deref().unwrap_or("default model");
    format!("✓ {}:{model} → {} ({tier})", run.agent_type, run.id)
}

/// A blocking call that is cancelled cancels its agent.
struct CancelOnDrop<'a> {
    agents: &'a Agents,
    run: &'a Run,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        self.agents.cancel(self.run);
    }
}

impl Spawn {
    /// What one agent must say to spawn another, and whether it may. What the token of the caller proves counts before
    /// what the caller passes.
    fn check_delegation(&self, agents: &Agents, context: &Context) -> Result<(), ToolError> {
        let proven = agents.type_of_caller(context)?;
        let Some(spawning) = proven.as_ref().or(self.spawning_agent.as_ref()) else { return Ok(()) };
        if !agents.config.may_spawn(spawning) {
            return Err(ToolError::new(format!("an agent of type `{spawning}` may not spawn agents"))
                .hint("do the work yourself, or report what is missing"));
        }
        let missing: Vec<&str> = [
            ("delegation_reason", self.delegation_reason.is_none()),
            ("expected_outcome", self.expected_outcome.is_none()),
            ("required_tools", self.required_tools.is_none()),
        ]
        .into_iter()
        .filter_map(|(name, is_missing)| is_missing.then_some(name))
        .collect();
        if !missing.is_empty() {
            return Err(ToolError::new(format!(
                "an agent that spawns another must pass {}",
                missing.join(", ")
            )));
        }
        let lacking =
            agents.config.lacks(&self.agent_type, self.required_tools.as_deref().unwrap_or_default());
        if !lacking.is_empty() {
            return Err(ToolError::new(format!(
                "an agent of type `{}` does not have {}",
                self.agent_type,
                lacking.join(", ")
            ))
            .hint("choose another type, or set `tools` of this type in [packs.agents.types]"));
        }
        Ok(())
    }
}

/// The prompt below what a search for it has found.
async fn with_search(context: &Context, prompt: &str, folder: &str) -> Result<String, ToolError> {
    let arguments = json!({ "query": prompt, "n_results": 5, "project_path": folder });
    let tools = context.tools()?;
    let found = match tools.call("code__semantic_search", arguments.clone()).await?.into_result() {
        Ok(found) => found,
        // A view with bare names has it without the pack.
        Err(error) => {
            let bare = tools.call("semantic_search", arguments).await?.into_result();
            bare.map_err(|_| error)?
        }
    };
    Ok(format!("Code that may matter:\n\n{}\n\n---\n\n{prompt}", found.text()))
}
