//! A call of a model from beginning to end, in this order: hooks before it, the agent's context and the log line, the
//! credential, the semaphore of the model, the window over all models, the request. A refusal for too many requests
//! moves to the next credential, a failure of the server is tried once more, and some agents have a fallback. Hooks
//! after it see the answer last.

mod entry;
mod exchange;
mod hooked;
mod target;

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolyard_tool::host::Verdict;
use toolyard_tool::{Host, ToolError};

use crate::config::{Config, Kind};
use crate::conversation::{Reply, Turn, Usage};
use crate::gate::Gate;
use crate::http::Wire;
use crate::ledger::Ledger;
use crate::progress::Progress;
use crate::service::Service;
use crate::trouble::Trouble;

pub(crate) use target::Target;

/// The point of the hooks that see an answer before the caller does.
const AFTER: &str = "post_model_invoke";

/// What all tools of the pack share.
pub(crate) struct Models {
    pub(crate) config: Config,
    pub(crate) host: Host,
    services: Vec<Service>,
    gate: Gate,
    pub(crate) ledger: Ledger,
    wire: Arc<dyn Wire>,
    /// For how long a provider may send nothing.
    silence: Duration,
}

/// A call as a tool makes it.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    pub(crate) tool: &'static str,
    /// The kinds of providers that may answer; all if empty.
    pub(crate) kinds: &'static [Kind],
    /// As the caller names it.
    pub(crate) model: String,
    pub(crate) turn: Turn,
    pub(crate) agent: AgentContext,
    pub(crate) principal: Arc<str>,
}

/// For which agent and task a model is asked.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub(crate) struct AgentContext {
    /// The type of the agent, such as `explore`. It decides about the fallback and is shown in the log and in the cost report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent_type: Option<String>,
    /// The task that the call belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) task_id: Option<String>,
    /// What the call is for, in a few words. It is shown in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// The session that the cost report adds the call to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_id: Option<String>,
}

/// An answer with what it took.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) reply: Reply,
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) auth: &'static str,
    pub(crate) usage: Option<Usage>,
    pub(crate) cost: Option<f64>,
}

impl Models {
    pub(crate) fn new(config: Config, host: Host, wire: Arc<dyn Wire>) -> Result<Self, ToolError> {
        let services =
            config.providers.iter().map(|(name, provider)| Service::new(name, provider.clone())).collect();
        let (gate, ledger) = (Gate::new(&config), Ledger::open(&host)?);
        let silence = Duration::from_secs(config.timeout);
        Ok(Self { config, host, services, gate, ledger, wire, silence })
    }

    /// One question, one answer.
    pub(crate) async fn ask(
        &self,
        mut invocation: Invocation,
        progress: &Progress,
    ) -> Result<Answered, ToolError> {
        self.prepare(&mut invocation).await?;
        let mut answered = self.answer(&mut invocation, progress).await?;
        self.conclude(&invocation, &mut answered).await?;
        Ok(answered)
    }

    /// The hooks before a call, which may change it, and the log line.
    pub(crate) async fn prepare(&self, invocation: &mut Invocation) -> Result<(), ToolError> {
        self.hooks_before(invocation).await?;
        self.log(invocation, &invocation.model);
        Ok(())
    }

    async fn hooks_before(&self, invocation: &mut Invocation) -> Result<(), ToolError> {
        match self.host.hooks("pre_model_invoke", invocation.to_hook()).await {
            Verdict::Continue(changed) => invocation.take(changed),
            Verdict::Block(reason) => Err(blocked(&reason)),
        }
    }

    /// The answer of the model, or of the fallback of this agent. Hooks before a call see the fallback, too, and may
    /// change the call or refuse it.
    pub(crate) async fn answer(
        &self,
        invocation: &mut Invocation,
        progress: &Progress,
    ) -> Result<Answered, ToolError> {
        let target = self.target(&invocation.model, invocation.kinds)?;
        let trouble = match self.exchange(&target, invocation, progress).await {
            Ok(answered) => return Ok(answered),
            Err(trouble) => trouble,
        };
        let Some(other) = self.fallback(invocation, &target, &trouble)? else {
            return Err(trouble.into_error(&target.service.name, target.model));
        };
        let failed = format!("`{}` {trouble}", target.model);
        (invocation.model, invocation.kinds) = (other, &[]);
        self.hooks_before(invocation).await?;
        let other = self.target(&invocation.model, invocation.kinds)?;
        self.log(invocation, other.model);
        progress.note(format!("{failed}; asking `{}`", other.model));
        let answered = self.exchange(&other, invocation, progress).await;
        answered.map_err(|trouble| trouble.into_error(&other.service.name, other.model))
    }

    /// The answer of the model alone, for a conversation that cannot move to another one.
    pub(crate) async fn answer_without_fallback(
        &self,
        invocation: &Invocation,
        progress: &Progress,
    ) -> Result<Answered, ToolError> {
        let target = self.target(&invocation.model, invocation.kinds)?;
        let answered = self.exchange(&target, invocation, progress).await;
        answered.map_err(|trouble| trouble.into_error(&target.service.name, target.model))
    }

    /// Whether the cost of the model can be known.
    pub(crate) fn has_prices(&self, invocation: &Invocation) -> Result<bool, ToolError> {
        let target = self.target(&invocation.model, invocation.kinds)?;
        Ok(target.settings.is_some_and(|settings| settings.cost(Usage::default()).is_some()))
    }

    /// The name of the model that is asked instead.
    fn fallback(
        &self,
        invocation: &Invocation,
        failed: &Target<'_>,
        trouble: &Trouble,
    ) -> Result<Option<String>, ToolError> {
        let has_fallback = |agent: &String| self.config.fallback_agents.contains(agent);
        let is_wanted =
            trouble.has_no_response() && invocation.agent.agent_type.as_ref().is_some_and(has_fallback);
        let Some(model) = self.config.fallback.as_ref().filter(|_| is_wanted) else { return Ok(None) };
        let target = self.target(model, &[])?;
        let is_same = target.model == failed.model && target.service.name == failed.service.name;
        Ok((!is_same).then(|| model.clone()))
    }

    /// The hooks after a call, which may change the text and the thoughts.
    pub(crate) async fn conclude(
        &self,
        invocation: &Invocation,
        answered: &mut Answered,
    ) -> Result<(), ToolError> {
        let about = json!({
            "tool": invocation.tool,
            "model": answered.model,
            "provider": answered.provider,
            "agent_context": invocation.agent,
            "text": answered.reply.text,
            "thinking": answered.reply.thinking,
            "usage": answered.usage,
            "cost": answered.cost,
        });
        match self.host.hooks(AFTER, about).await {
            Verdict::Continue(mut changed) => {
                let mut changed = |member: &str| changed.get_mut(member).map(Value::take);
                if let Some(Value::String(text)) = changed("text") {
                    answered.reply.text = text;
                }
                if let Some(Value::String(thinking)) = changed("thinking") {
                    answered.reply.thinking = thinking;
                }
                Ok(())
            }
            Verdict::Block(reason) => Err(blocked(&reason)),
        }
    }

    fn log(&self, invocation: &Invocation, model: &str) {
        let agent = invocation.agent.agent_type.as_deref().unwrap_or("direct");
        let prompt = invocation.prompt().filter(|_| self.config.log_prompts);
        let about = invocation.agent.description.as_deref().or(prompt).unwrap_or(invocation.tool);
        let about: String = about.chars().take(120).map(|c| if c.is_control() { ' ' } else { c }).collect();
        tracing::info!(target: "models", "[{agent}] → {model}: {about}...");
    }
}

#[cfg(test)]
impl Models {
    pub(crate) fn running(&self, model: &str) -> usize {
        self.gate.running(model)
    }
}

fn blocked(reason: &str) -> ToolError {
    ToolError::new(format!("a hook refused this call of a model: {reason}"))
}
