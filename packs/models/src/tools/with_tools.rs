//! `invoke_gemini_agentic` and `ask_model_with_tools`: a model that calls tools.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Context, ToolError, tool};

use super::gemini::flash;
use super::{WithText, temperature};
use crate::agentic::{Bounds, CallersTools, Run, StoppedBy, Toolbox, TurnReport, choose};
use crate::config::Kind;
use crate::conversation::{Message, Part, Turn, Usage};
use crate::models::{AgentContext, Invocation, Models};
use crate::progress::Progress;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct GeminiAgentic {
    /// What to do.
    #[schemars(length(min = 1))]
    prompt: String,
    /// The model.
    #[serde(default = "flash")]
    model: String,
    /// How often the model may be asked.
    #[serde(default = "max_turns")]
    #[schemars(range(min = 1, max = 100))]
    max_turns: u32,
    /// Seconds until the work is stopped, without the time in which the user is asked.
    #[serde(default = "timeout")]
    #[schemars(range(min = 1, max = 3600))]
    timeout: u64,
    /// Which tools the model may call, as patterns such as `code:*`; those of the config if it is left out.
    tools: Option<Vec<String>>,
    /// For which agent and task this is.
    #[serde(default)]
    agent_context: AgentContext,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct WithTools {
    /// What to do.
    #[schemars(length(min = 1))]
    prompt: String,
    /// `MODEL` or `PROVIDER/MODEL`; the default of the config if it is left out.
    model: Option<String>,
    /// Instructions for the model.
    system: Option<String>,
    /// Which tools the model may call, as patterns such as `code:*`; those of the config if it is left out.
    tools: Option<Vec<String>>,
    /// How often the model may be asked.
    #[serde(default = "max_turns")]
    #[schemars(range(min = 1, max = 100))]
    max_turns: u32,
    /// Seconds until the work is stopped, without the time in which the user is asked.
    #[serde(default = "timeout")]
    #[schemars(range(min = 1, max = 3600))]
    timeout: u64,
    /// The most tokens of each answer.
    #[serde(default = "max_tokens")]
    #[schemars(range(min = 1))]
    max_tokens: u32,
    /// The most tokens of the whole work, sent and received.
    #[schemars(range(min = 1))]
    max_total_tokens: Option<u64>,
    /// What the whole work may cost, in the currency of the configured prices.
    #[schemars(range(min = 0.0))]
    max_cost: Option<f64>,
    /// For which agent and task this is.
    #[serde(default)]
    agent_context: AgentContext,
}

fn max_turns() -> u32 {
    10
}

fn timeout() -> u64 {
    120
}

fn max_tokens() -> u32 {
    8192
}

/// What a model with tools came to.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Worked {
    text: String,
    provider: Option<String>,
    model: String,
    stopped_by: StoppedBy,
    /// The error that stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    turns: Vec<TurnReport>,
    /// The tokens of all turns; missing if a provider did not report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    /// What it cost; missing if a price is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    #[serde(skip)]
    auth: &'static str,
}

/// Lets a Gemini model work on a task with tools of this gateway: those that you may use yourself. Tools that may
/// destroy something are called after a question to the user.
#[tool(open_world)]
pub(crate) async fn invoke_gemini_agentic(
    models: &Models,
    context: &Context,
    args: GeminiAgentic,
) -> Result<WithText<Worked>, ToolError> {
    let invocation = Invocation {
        tool: "invoke_gemini_agentic",
        kinds: &[Kind::Gemini],
        model: args.model,
        turn: Turn {
            messages: vec![Message::User(vec![Part::Text(args.prompt)])],
            temperature: Some(temperature()),
            max_tokens: max_tokens(),
            ..Turn::default()
        },
        agent: args.agent_context,
        principal: context.caller().principal.into(),
    };
    let time = Duration::from_secs(args.timeout);
    let bounds = Bounds { turns: args.max_turns, time, tokens: None, cost: models.config.max_cost };
    let worked = models.work_for(context, invocation, args.tools, bounds).await?;
    let text = format!("[Auth: {} | Model: {}]\n\n{}", worked.auth, worked.model, worked.text);
    Ok(worked.into_answer(text))
}

/// Lets a configured model work on a task with tools of this gateway: those that you may use yourself. Tools that may
/// destroy something are called after a question to the user.
#[tool(open_world)]
pub(crate) async fn ask_model_with_tools(
    models: &Models,
    context: &Context,
    args: WithTools,
) -> Result<WithText<Worked>, ToolError> {
    let invocation = Invocation {
        tool: "ask_model_with_tools",
        kinds: &[],
        model: models.default_model(args.model)?,
        turn: Turn {
            system: args.system,
            messages: vec![Message::User(vec![Part::Text(args.prompt)])],
            max_tokens: args.max_tokens,
            ..Turn::default()
        },
        agent: args.agent_context,
        principal: context.caller().principal.into(),
    };
    // The config bounds what a call may allow itself.
    let cost = match (args.max_cost, models.config.max_cost) {
        (Some(asked), Some(most)) => Some(asked.min(most)),
        (asked, most) => asked.or(most),
    };
    let time = Duration::from_secs(args.timeout);
    let bounds = Bounds { turns: args.max_turns, time, tokens: args.max_total_tokens, cost };
    let worked = models.work_for(context, invocation, args.tools, bounds).await?;
    let text = worked.text.clone();
    Ok(worked.into_answer(text))
}

impl Models {
    async fn work_for(
        &self,
        context: &Context,
        invocation: Invocation,
        patterns: Option<Vec<String>>,
        bounds: Bounds,
    ) -> Result<Worked, ToolError> {
        let toolbox = Arc::new(CallersTools::new(context)?);
        let patterns = patterns.as_ref().unwrap_or(&self.config.tools);
        let chosen = choose(toolbox.list().await?, patterns, &self.config.approved_tools)?;
        let model = invocation.model.clone();
        let run = self.work(invocation, chosen, toolbox, bounds, &Progress::new(context)).await?;
        Ok(Worked::new(run, model))
    }
}

impl Worked {
    fn new(run: Run, model: String) -> Self {
        let text = match run.stopped_by {
            StoppedBy::Answer => {
                run.answered.as_ref().map(|answered| answered.reply.text.clone()).unwrap_or_default()
            }
            StoppedBy::MaxTurns => "Max turns reached without final response".to_owned(),
            StoppedBy::Timeout => "The time was up before the final response".to_owned(),
            StoppedBy::MaxTokens if run.usage.is_none() => {
                "Stopped by `max_total_tokens`, because the provider reports no tokens".to_owned()
            }
            StoppedBy::MaxTokens => "Max tokens reached without final response".to_owned(),
            StoppedBy::MaxCost => "Max cost reached without final response".to_owned(),
            StoppedBy::Error => run.error_with_calls(),
        };
        let auth = run.answered.as_ref().map_or("none", |answered| answered.auth);
        let (provider, model) = match run.answered {
            Some(answered) => (Some(answered.provider), answered.model),
            None => (None, model),
        };
        let Run { turns, stopped_by, usage, cost, .. } = run;
        let error = run.error.map(|error| error.to_string());
        Self { text, provider, model, stopped_by, error, turns, usage, cost, auth }
    }

    /// A run that an error has ended is a failure.
    fn into_answer(self, text: String) -> WithText<Self> {
        let has_failed = self.error.is_some();
        let answer = WithText::new(self, text);
        if has_failed { answer.failed() } else { answer }
    }
}

impl Run {
    /// The error that ended the run, and which tools were called before, for callers that read only the text.
    fn error_with_calls(&self) -> String {
        let error = self.error.as_ref().map(ToString::to_string).unwrap_or_default();
        let calls = self.turns.iter().flat_map(|turn| &turn.calls).map(|call| call.tool.as_str());
        let calls: Vec<&str> = calls.collect();
        format!("{error}\nThis ended the work after calls of {}.", calls.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agentic::CallReport;

    #[test]
    fn the_text_of_a_run_that_was_stopped_states_the_reason() {
        let check = |stopped_by, usage, text: &str| {
            let run = Run { answered: None, turns: Vec::new(), stopped_by, error: None, usage, cost: None };
            assert_eq!(Worked::new(run, "m".into()).text, text);
        };
        let usage = Some(Usage::default());
        check(StoppedBy::MaxTokens, usage, "Max tokens reached without final response");
        let unknown = "Stopped by `max_total_tokens`, because the provider reports no tokens";
        check(StoppedBy::MaxTokens, None, unknown);
        check(StoppedBy::MaxTurns, None, "Max turns reached without final response");
    }

    #[test]
    fn the_text_of_a_run_that_failed_names_the_error_and_the_calls_before_it() {
        let call = |tool: &str| CallReport {
            tool: tool.to_owned(),
            failed: false,
            unfinished: false,
            duration_ms: 1,
        };
        let turns = ["code__read", "git__log"]
            .map(|tool| TurnReport { text: String::new(), calls: vec![call(tool)] })
            .into();
        let (stopped_by, error) = (StoppedBy::Error, Some(ToolError::new("no answer")));
        let run = Run { answered: None, turns, stopped_by, error, usage: None, cost: None };
        let worked = Worked::new(run, "m".into());
        assert_eq!(worked.text, "no answer\nThis ended the work after calls of code__read, git__log.");
        assert_eq!((worked.error.as_deref(), worked.turns.len()), (Some("no answer"), 2));
    }
}
