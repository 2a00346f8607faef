//! A call of a model as hooks before it see it, and what they may change: every text that is sent, and the settings.
//!
//! `prompt` is what is asked now. If there is more text, such as earlier messages, `messages` has the whole
//! conversation. A hook that knows only `prompt` changes it there, so a changed `prompt` counts more than `messages`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolyard_tool::ToolError;

use super::{AgentContext, Invocation};
use crate::conversation::{Effort, Image, Message, Part};

/// A message as hooks see it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Shown {
    role: Role,
    content: Vec<Block>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Block {
    Text {
        text: String,
    },
    /// The image of this number in the conversation, without its bytes.
    Image {
        image: usize,
    },
}

/// What hooks may change.
#[derive(Deserialize)]
struct Changed {
    model: Option<String>,
    prompt: Option<String>,
    messages: Option<Vec<Shown>>,
    system: Option<String>,
    temperature: Option<f64>,
    max_tokens: Option<u32>,
    thinking_budget: Option<u32>,
    reasoning_effort: Option<Effort>,
    agent_context: Option<AgentContext>,
}

impl Invocation {
    /// The text that is asked: the first of the last message of the user.
    pub(crate) fn prompt(&self) -> Option<&str> {
        let parts = self.turn.messages.iter().rev().find_map(|message| match message {
            Message::User(parts) => Some(parts),
            _ => None,
        })?;
        parts.iter().find_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Image(_) => None,
        })
    }

    fn set_prompt(&mut self, prompt: &str) {
        let parts = self.turn.messages.iter_mut().rev().find_map(|message| match message {
            Message::User(parts) => Some(parts),
            _ => None,
        });
        let text = parts.into_iter().flatten().find_map(|part| match part {
            Part::Text(text) => Some(text),
            Part::Image(_) => None,
        });
        if let Some(text) = text {
            prompt.clone_into(text);
        }
    }

    pub(super) fn to_hook(&self) -> Value {
        let mut event = json!({
            "tool": self.tool,
            "model": self.model,
            "prompt": self.prompt(),
            "system": self.turn.system,
            "temperature": self.turn.temperature,
            "max_tokens": self.turn.max_tokens,
            "thinking_budget": self.turn.thinking_budget,
            "reasoning_effort": self.turn.effort,
            "agent_context": self.agent,
        });
        let shown = self.shown();
        if texts(&shown) > 1 {
            event["messages"] = json!(shown);
        }
        event
    }

    /// Takes what hooks have changed. Members that they removed stay as they were.
    pub(super) fn take(&mut self, changed: Value) -> Result<(), ToolError> {
        let changed: Changed = serde_json::from_value(changed).map_err(|error| {
            ToolError::new(format!("a hook for `pre_model_invoke` returned an invalid value: {error}"))
                .hint("correct the hook, or switch it off")
        })?;
        if let Some(model) = changed.model {
            self.model = model;
        }
        let prompt = changed.prompt.filter(|prompt| self.prompt() != Some(prompt));
        let was_blank = self.prompt().is_some_and(|prompt| prompt.trim().is_empty());
        let messages = changed.messages.filter(|messages| *messages != self.shown());
        // A hook that removes empty messages has removed the one with an empty prompt.
        let is_gone = was_blank && messages.is_some();
        if let Some(messages) = messages {
            self.turn.messages = self.messages_of(messages)?;
        }
        if let Some(prompt) = prompt.filter(|_| !is_gone) {
            self.set_prompt(&prompt);
        }
        self.turn.system = changed.system.or(self.turn.system.take());
        self.turn.temperature = changed.temperature.or(self.turn.temperature);
        self.turn.max_tokens = changed.max_tokens.unwrap_or(self.turn.max_tokens);
        self.turn.thinking_budget = changed.thinking_budget.unwrap_or(self.turn.thinking_budget);
        self.turn.effort = changed.reasoning_effort.or(self.turn.effort);
        if let Some(agent) = changed.agent_context {
            self.agent = agent;
        }
        Ok(())
    }

    fn shown(&self) -> Vec<Shown> {
        let mut images = 0..;
        let mut block = |part: &Part| match part {
            Part::Text(text) => Block::Text { text: text.clone() },
            Part::Image(_) => Block::Image { image: images.next().unwrap_or_default() },
        };
        let shown = |message: &Message| match message {
            Message::User(parts) => {
                Some(Shown { role: Role::User, content: parts.iter().map(&mut block).collect() })
            }
            Message::Assistant(text) => {
                Some(Shown { role: Role::Assistant, content: vec![Block::Text { text: text.clone() }] })
            }
            // Hooks run before the first answer, so there is none of these.
            Message::Echo(_) | Message::Results(_) => None,
        };
        self.turn.messages.iter().filter_map(shown).collect()
    }

    /// The conversation that hooks have returned, with its images.
    fn messages_of(&self, shown: Vec<Shown>) -> Result<Vec<Message>, ToolError> {
        let parts = self.turn.messages.iter().flat_map(|message| match message {
            Message::User(parts) => parts.as_slice(),
            _ => &[],
        });
        let images: Vec<&Image> = parts
            .filter_map(|part| match part {
                Part::Image(image) => Some(image),
                Part::Text(_) => None,
            })
            .collect();
        let part = |block: Block| match block {
            Block::Text { text } => Ok(Part::Text(text)),
            Block::Image { image } => {
                let known = images.get(image).map(|image| Part::Image((*image).clone()));
                known.ok_or_else(|| unknown_image(image))
            }
        };
        let message = |Shown { role, content }| match role {
            Role::User => Ok(Message::User(content.into_iter().map(part).collect::<Result<_, _>>()?)),
            Role::Assistant => Ok(Message::Assistant(text_of(content))),
        };
        shown.into_iter().map(message).collect()
    }
}

fn texts(shown: &[Shown]) -> usize {
    let blocks = shown.iter().flat_map(|message| &message.content);
    blocks.filter(|block| matches!(block, Block::Text { .. })).count()
}

/// Messages of the assistant have no images.
fn text_of(content: Vec<Block>) -> String {
    let texts = content.into_iter().filter_map(|block| match block {
        Block::Text { text } => Some(text),
        Block::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn unknown_image(number: usize) -> ToolError {
    let message = format!("a hook for `pre_model_invoke` returned an image that it did not get: {number}");
    ToolError::new(message).hint("correct the hook, or switch it off")
}
