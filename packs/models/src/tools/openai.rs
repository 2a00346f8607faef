//! `invoke_openai`: one question to a model of OpenAI.

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_tool::{Context, ToolError, tool};

use super::{Answer, WithText, temperature};
use crate::config::Kind;
use crate::conversation::{Effort, Message, Part, Turn};
use crate::models::{AgentContext, Invocation, Models};
use crate::progress::Progress;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct OpenAi {
    /// What to ask.
    #[schemars(length(min = 1))]
    pub(crate) prompt: String,
    /// The model.
    #[serde(default = "model")]
    pub(crate) model: String,
    /// How freely the model chooses its words. Models that reason ignore it.
    #[serde(default = "temperature")]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub(crate) temperature: f64,
    /// The most tokens of the answer.
    #[serde(default = "max_tokens")]
    #[schemars(range(min = 1))]
    pub(crate) max_tokens: u32,
    /// Anything above 0 means the effort `high`.
    #[serde(default)]
    pub(crate) thinking_budget: u32,
    /// How hard the model thinks.
    #[serde(default = "medium")]
    pub(crate) reasoning_effort: Effort,
    /// For which agent and task this is.
    #[serde(default)]
    pub(crate) agent_context: AgentContext,
}

fn model() -> String {
    "gpt-5.2".into()
}

fn max_tokens() -> u32 {
    4096
}

fn medium() -> Effort {
    Effort::Medium
}

/// Asks a model of OpenAI and returns its answer. Parts of the answer are sent as progress.
#[tool(open_world)]
pub(crate) async fn invoke_openai(
    models: &Models,
    context: &Context,
    args: OpenAi,
) -> Result<WithText<Answer>, ToolError> {
    let progress = Progress::new(context);
    let answer: Answer = models.ask(args.invocation(&context.caller().principal), &progress).await?.into();
    let text = answer.readable();
    Ok(WithText::new(answer, text))
}

impl OpenAi {
    pub(crate) fn invocation(self, principal: &str) -> Invocation {
        Invocation {
            tool: "invoke_openai",
            kinds: &[Kind::OpenAi, Kind::Compatible],
            model: self.model,
            turn: Turn {
                messages: vec![Message::User(vec![Part::Text(self.prompt)])],
                temperature: Some(self.temperature),
                max_tokens: self.max_tokens,
                thinking_budget: self.thinking_budget,
                effort: Some(self.reasoning_effort),
                ..Turn::default()
            },
            agent: self.agent_context,
            principal: principal.into(),
        }
    }
}
