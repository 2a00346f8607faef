//! `create_message`: answers a request in the form of the protocol's `sampling/createMessage`. The gateway calls it for
//! upstreams whose client cannot sample.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolyard_tool::{Context, ToolError, tool};

use crate::conversation::{Image, Message, Part, Turn};
use crate::models::{AgentContext, Invocation, Models};
use crate::progress::Progress;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreateMessage {
    /// `MODEL` or `PROVIDER/MODEL`; the default of the config if it is left out.
    model: Option<String>,
    /// The conversation so far.
    #[schemars(length(min = 1))]
    messages: Vec<SamplingMessage>,
    /// Instructions for the model.
    system_prompt: Option<String>,
    /// The most tokens of the answer.
    #[schemars(range(min = 1))]
    max_tokens: u32,
    /// How freely the model chooses its words.
    temperature: Option<f64>,
    /// Texts at which the answer ends.
    #[serde(default)]
    stop_sequences: Vec<String>,
    /// For which agent and task this is.
    #[serde(default)]
    agent_context: AgentContext,
}

#[derive(Deserialize, JsonSchema)]
struct SamplingMessage {
    role: Role,
    /// One block (`{"type": "text", "text": "…"}`, or an image), or a list of them.
    content: Value,
}

#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

/// What the model answered, in the form of the protocol.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Created {
    role: Role,
    content: Text,
    model: String,
    /// `endTurn`, `stopSequence`, `maxTokens`, or what the provider calls it.
    stop_reason: String,
}

#[derive(Serialize, JsonSchema)]
struct Text {
    r#type: String,
    text: String,
}

/// Answers a conversation with a configured model, in the form of the protocol's `sampling/createMessage`.
#[tool(open_world)]
pub(crate) async fn create_message(
    models: &Models,
    context: &Context,
    args: CreateMessage,
) -> Result<Created, ToolError> {
    let progress = Progress::new(context);
    let messages = args.messages.into_iter().map(SamplingMessage::read).collect::<Result<_, _>>()?;
    let invocation = Invocation {
        tool: "create_message",
        kinds: &[],
        model: models.default_model(args.model)?,
        turn: Turn {
            system: args.system_prompt,
            messages,
            temperature: args.temperature,
            max_tokens: args.max_tokens,
            stop: args.stop_sequences,
            ..Turn::default()
        },
        agent: args.agent_context,
        principal: context.caller().principal.into(),
    };
    let answered = models.ask(invocation, &progress).await?;
    Ok(Created {
        role: Role::Assistant,
        content: Text { r#type: "text".into(), text: answered.reply.text },
        model: answered.model,
        stop_reason: stop_reason(answered.reply.stop.as_deref()),
    })
}

fn stop_reason(stop: Option<&str>) -> String {
    match stop {
        None | Some("STOP" | "stop" | "end_turn" | "completed") => "endTurn",
        Some("MAX_TOKENS" | "max_tokens" | "length" | "max_output_tokens") => "maxTokens",
        Some("stop_sequence") => "stopSequence",
        Some(other) => other,
    }
    .to_owned()
}

impl SamplingMessage {
    fn read(self) -> Result<Message, ToolError> {
        let blocks = match self.content {
            Value::Array(blocks) => blocks,
            block => vec![block],
        };
        let parts: Vec<Part> = blocks.into_iter().map(part).collect::<Result<_, _>>()?;
        if self.role == Role::User {
            return Ok(Message::User(parts));
        }
        let texts = parts.into_iter().map(|part| match part {
            Part::Text(text) => Ok(text),
            Part::Image(_) => {
                Err(ToolError::new("a message of the assistant has an image, which no model can be given"))
            }
        });
        Ok(Message::Assistant(texts.collect::<Result<Vec<_>, _>>()?.join("\n")))
    }
}

fn part(block: Value) -> Result<Part, ToolError> {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind.as_str() {
        "text" => Ok(Part::Text(block.get("text").and_then(Value::as_str).unwrap_or_default().to_owned())),
        "image" => Ok(Part::Image(serde_json::from_value::<Image>(block)?)),
        other => {
            let known = json!(["text", "image"]);
            Err(ToolError::new(format!("models cannot be given content of type `{other}`"))
                .hint(format!("use one of {known}")))
        }
    }
}
