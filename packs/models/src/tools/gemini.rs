//! `invoke_gemini`: one question to a Gemini model.

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_tool::{Context, ToolError, tool};

use super::{Answer, WithText, temperature};
use crate::config::Kind;
use crate::conversation::{Message, Part, Turn};
use crate::models::{AgentContext, Invocation, Models};
use crate::progress::Progress;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Gemini {
    /// What to ask.
    #[schemars(length(min = 1))]
    pub(crate) prompt: String,
    /// The model.
    #[serde(default = "flash")]
    pub(crate) model: String,
    /// How freely the model chooses its words.
    #[serde(default = "temperature")]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub(crate) temperature: f64,
    /// The most tokens of the answer.
    #[serde(default = "max_tokens")]
    #[schemars(range(min = 1))]
    pub(crate) max_tokens: u32,
    /// Tokens to think with; 0 leaves that to the model.
    #[serde(default)]
    pub(crate) thinking_budget: u32,
    /// For which agent and task this is.
    #[serde(default)]
    pub(crate) agent_context: AgentContext,
}

pub(crate) fn flash() -> String {
    "gemini-3-flash".into()
}

fn max_tokens() -> u32 {
    8192
}

/// Asks a Gemini model and returns its answer. Parts of the answer are sent as progress.
#[tool(open_world)]
pub(crate) async fn invoke_gemini(
    models: &Models,
    context: &Context,
    args: Gemini,
) -> Result<WithText<Answer>, ToolError> {
    let progress = Progress::new(context);
    let answer: Answer = models.ask(args.invocation(&context.caller().principal), &progress).await?.into();
    let text = answer.with_head();
    Ok(WithText::new(answer, text))
}

impl Gemini {
    pub(crate) fn invocation(self, principal: &str) -> Invocation {
        Invocation {
            tool: "invoke_gemini",
            kinds: &[Kind::Gemini],
            model: self.model,
            turn: Turn {
                messages: vec![Message::User(vec![Part::Text(self.prompt)])],
                temperature: Some(self.temperature),
                max_tokens: self.max_tokens,
                thinking_budget: self.thinking_budget,
                ..Turn::default()
            },
            agent: self.agent_context,
            principal: principal.into(),
        }
    }
}
