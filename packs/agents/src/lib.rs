//! The pack `agents`: run other agents as tasks.
//!
//! `agents` starts runs and knows those under way, `store` keeps their rows and output. `run` is one run: `lines` speaks
//! with programs that read a prompt and write lines, `acp` speaks the Agent Client Protocol, `worktree` gives writers a
//! place of their own. `command` puts the command together, `tree` limits the agents that agents start. `tools` holds the functions that clients call.

mod agents;
mod command;
mod config;
mod run;
mod store;
mod tools;
mod tree;

use std::time::Duration;

use toolyard_tool::{Host, Pack, ToolSet};

use agents::Agents;
use config::Config;
use tools::{look, prompts, spawn, tasks};

/// A question to the user may take long.
const IDLE: Duration = Duration::from_mins(15);

/// The pack, as the gateway takes it in.
pub fn pack() -> Pack {
    Pack::with_host("agents", "Run other agents as tasks, with progress, questions and results", tools)
        .idle(IDLE)
        .also_check(config::wrongs)
}

fn tools(config: Config, host: Host) -> ToolSet<Agents> {
    ToolSet::new("toolyard-agents", env!("CARGO_PKG_VERSION"))
        .title("Toolyard: agents")
        .proven_users_only()
        .instructions(
            "Runs other agents. `agent_spawn` starts one and returns its id; `agent_output` returns its result. Start \
             several at the same time for independent work.",
        )
        .state_with(move || {
            let agents = Agents::new(config.clone(), host.clone());
            async { agents }
        })
        .with::<spawn::agent_spawn>()
        .with::<look::agent_output>()
        .with::<look::agent_progress>()
        .with::<look::agent_cancel>()
        .with::<look::agent_list>()
        .with::<spawn::agent_retry>()
        .with::<look::agent_cleanup>()
        .with::<tasks::task_spawn>()
        .with::<tasks::task_status>()
        .with::<tasks::task_list>()
        .with::<prompts::stravinsky>()
        .with::<prompts::delphi>()
        .with::<prompts::dewey>()
        .with::<prompts::explore>()
        .with::<prompts::frontend>()
        .with::<prompts::document_writer>()
        .with::<prompts::multimodal>()
}

#[cfg(test)]
mod tests;
