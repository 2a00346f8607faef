//! `ask_model`: one question to any configured model.

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_tool::{Context, ToolError, tool};

use super::{Answer, WithText};
use crate::conversation::{Effort, Image, Message, Part, Turn};
use crate::models::{AgentContext, Invocation, Models};
use crate::progress::Progress;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Ask {
    /// What to ask.
    #[schemars(length(min = 1))]
    prompt: String,
    /// `MODEL` or `PROVIDER/MODEL`; the default of the config if it is left out.
    model: Option<String>,
    /// Instructions for the model.
    system: Option<String>,
    /// Pictures that belong to the question.
    #[serde(default)]
    #[schemars(length(max = 16))]
    images: Vec<Image>,
    /// How freely the model chooses its words.
    #[schemars(range(min = 0.0, max = 2.0))]
    temperature: Option<f64>,
    /// The most tokens of the answer.
    #[serde(default = "max_tokens")]
    #[schemars(range(min = 1))]
    max_tokens: u32,
    /// Tokens to think with; 0 leaves that to the model.
    #[serde(default)]
    thinking_budget: u32,
    /// How hard the model thinks, if it can.
    reasoning_effort: Option<Effort>,
    /// For which agent and task this is.
    #[serde(default)]
    agent_context: AgentContext,
}

fn max_tokens() -> u32 {
    8192
}

/// Asks a configured model and returns its answer. Parts of the answer are sent as progress.
#[tool(open_world)]
pub(crate) async fn ask_model(
    models: &Models,
    context: &Context,
    args: Ask,
) -> Result<WithText<Answer>, ToolError> {
    let progress = Progress::new(context);
    let model = models.default_model(args.model)?;
    let mut parts = vec![Part::Text(args.prompt)];
    parts.extend(args.images.into_iter().map(Part::Image));
    let invocation = Invocation {
        tool: "ask_model",
        kinds: &[],
        model,
        turn: Turn {
            system: args.system,
            messages: vec![Message::User(parts)],
            temperature: args.temperature,
            max_tokens: args.max_tokens,
            thinking_budget: args.thinking_budget,
            effort: args.reasoning_effort,
            ..Turn::default()
        },
        agent: args.agent_context,
        principal: context.caller().principal.into(),
    };
    let answer: Answer = models.ask(invocation, &progress).await?.into();
    let text = answer.readable();
    Ok(WithText::new(answer, text))
}

impl Models {
    /// The named model, or the one of the config, or the only one there is.
    pub(crate) fn default_model(&self, named: Option<String>) -> Result<String, ToolError> {
        if let Some(model) = named.or_else(|| self.config.default_model.clone()) {
            return Ok(model);
        }
        let mut known = self.names();
        match known.len() {
            1 => Ok(known.remove(0)),
            _ => Err(ToolError::new("no model was named, and the config has no default").hint(format!(
                "pass `model`, or set `default_model` in [packs.models]; known: {}",
                known.join(", ")
            ))),
        }
    }
}
