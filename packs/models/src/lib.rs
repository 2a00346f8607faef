//! The pack `models`: ask models of any provider, with limits, retries, fallbacks, hooks and a cost report.
//!
//! `models` is a call from beginning to end, `agentic` a model that calls tools. `service` is a configured provider, `provider` the forms in which providers
//! speak, `http` and `sse` the wire. `gate` limits requests, `ledger` records what they took. `tools` holds the functions
//! that clients call.

mod agentic;
mod config;
mod conversation;
mod gate;
mod http;
mod ledger;
mod models;
mod progress;
mod provider;
mod service;
mod sse;
mod tools;
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use toolyard_tool::{Host, Pack, ToolSet};

use config::Config;
use http::Network;
use models::Models;
use tools::{ask, cost, gemini, openai, sampling, with_tools};

/// Longer than a provider may be silent by default.
const IDLE: Duration = Duration::from_mins(3);

/// The pack, as the gateway takes it in.
pub fn pack() -> Pack {
    Pack::with_host("models", "Ask models of any provider, within limits, and see what they cost", tools)
        .idle(IDLE)
}

fn tools(config: Config, host: Host) -> ToolSet<Models> {
    ToolSet::new("toolyard-models", env!("CARGO_PKG_VERSION"))
        .title("Toolyard: models")
        .proven_users_only()
        .instructions(
            "Asks other models. `ask_model` asks any configured model. Name the agent and the task in `agent_context`, \
             so that `get_cost_report` can tell them apart.",
        )
        .state_with(move || {
            let models = Models::new(config.clone(), host.clone(), Arc::new(Network::default()));
            async { models }
        })
        .with::<ask::ask_model>()
        .with::<gemini::invoke_gemini>()
        .with::<openai::invoke_openai>()
        .with::<with_tools::ask_model_with_tools>()
        .with::<with_tools::invoke_gemini_agentic>()
        .with::<sampling::create_message>()
        .with::<cost::get_cost_report>()
}

#[cfg(test)]
mod tests;
