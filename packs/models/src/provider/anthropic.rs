//! Anthropic Messages, with server-sent events.

use serde_json::{Value, json};

use super::{Reader, arguments, count_at, failed, parameters, text_at};
use crate::conversation::{Effort, Image, Message, Part, Piece, Reply, ToolCall, Turn, Usage};
use crate::trouble::Trouble;

/// The least that the provider accepts for thinking.
const LEAST_THINKING: u32 = 1024;

pub(super) fn body(turn: &Turn) -> Value {
    let messages: Vec<Value> = turn.messages.iter().map(message).collect();
    let mut body = json!({ "model": turn.model, "stream": true, "messages": messages });
    let thinking = match (turn.thinking_budget, turn.effort) {
        (0, None | Some(Effort::Low)) => 0,
        (0, Some(Effort::Medium)) => 4 * LEAST_THINKING,
        (0, Some(Effort::High)) => 16 * LEAST_THINKING,
        (budget, _) => budget.max(LEAST_THINKING),
    };
    // The budget for thinking must be smaller than that of the answer, which it is part of.
    body["max_tokens"] = turn.max_tokens.saturating_add(thinking).into();
    if thinking > 0 {
        body["thinking"] = json!({ "type": "enabled", "budget_tokens": thinking });
    } else if let Some(temperature) = turn.temperature {
        body["temperature"] = temperature.into();
    }
    if let Some(system) = &turn.system {
        body["system"] = system.clone().into();
    }
    if !turn.stop.is_empty() {
        body["stop_sequences"] = json!(turn.stop);
    }
    if !turn.tools.is_empty() {
        let tools = turn.tools.iter().map(|tool| {
            json!({ "name": tool.name, "description": tool.description, "input_schema": parameters(&tool.schema) })
        });
        body["tools"] = tools.collect();
    }
    body
}

fn message(message: &Message) -> Value {
    match message {
        Message::User(parts) => {
            json!({ "role": "user", "content": parts.iter().map(part).collect::<Vec<_>>() })
        }
        Message::Assistant(text) => {
            json!({ "role": "assistant", "content": [{ "type": "text", "text": text }] })
        }
        Message::Echo(blocks) => json!({ "role": "assistant", "content": blocks }),
        Message::Results(outcomes) => {
            let blocks: Vec<Value> = outcomes
                .iter()
                .map(|outcome| {
                    json!({
                        "type": "tool_result",
                        "tool_use_id": outcome.id,
                        "content": outcome.text,
                        "is_error": outcome.is_error,
                    })
                })
                .collect();
            json!({ "role": "user", "content": blocks })
        }
    }
}

fn part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Image(Image { mime_type, data }) => {
            json!({ "type": "image", "source": { "type": "base64", "media_type": mime_type, "data": data } })
        }
    }
}

#[derive(Default)]
pub(super) struct Events {
    reply: Reply,
    /// The arguments of the block that is being received.
    input: String,
    is_complete: bool,
}

impl Reader for Events {
    fn event(&mut self, event: Value) -> Result<Option<Piece>, Trouble> {
        match text_at(&event, "/type").unwrap_or_default() {
            "message_start" => self.usage(event.pointer("/message/usage")),
            "content_block_start" => {
                self.input.clear();
                self.reply.echo.push(event.get("content_block").cloned().unwrap_or_default());
            }
            "content_block_delta" => return Ok(self.delta(event.get("delta").unwrap_or(&Value::Null))),
            "content_block_stop" => self.end_block(),
            "message_delta" => {
                self.usage(event.get("usage"));
                self.reply.stop = text_at(&event, "/delta/stop_reason").map(ToOwned::to_owned);
            }
            "message_stop" => self.is_complete = true,
            "error" => {
                let message = text_at(&event, "/error/message").unwrap_or("an error without a message");
                return Err(failed(text_at(&event, "/error/type").unwrap_or_default(), message));
            }
            "" => return Err(Trouble::Garbage("an event without a type".into())),
            _ => {}
        }
        Ok(None)
    }

    fn usage(&self) -> Option<Usage> {
        self.reply.usage
    }

    fn finish(self: Box<Self>) -> Option<Reply> {
        self.is_complete.then_some(self.reply)
    }
}

impl Events {
    fn delta(&mut self, delta: &Value) -> Option<Piece> {
        let block = self.reply.echo.last_mut()?;
        match text_at(delta, "/type")? {
            "text_delta" => {
                let text = text_at(delta, "/text")?;
                append(block, "text", text);
                self.reply.text.push_str(text);
                Some(Piece::Text(text.to_owned()))
            }
            "thinking_delta" => {
                let text = text_at(delta, "/thinking")?;
                append(block, "thinking", text);
                self.reply.thinking.push_str(text);
                Some(Piece::Thought(text.to_owned()))
            }
            "signature_delta" => {
                append(block, "signature", text_at(delta, "/signature")?);
                None
            }
            "input_json_delta" => {
                self.input.push_str(text_at(delta, "/partial_json")?);
                None
            }
            _ => None,
        }
    }

    fn end_block(&mut self) {
        let Some(block) = self.reply.echo.last_mut() else { return };
        if text_at(block, "/type") != Some("tool_use") {
            return;
        }
        let input = arguments(&std::mem::take(&mut self.input));
        // The provider accepts only objects, also for what it has written itself.
        block["input"] = if input.is_object() { input.clone() } else { json!({}) };
        self.reply.calls.push(ToolCall {
            id: text_at(block, "/id").unwrap_or_default().to_owned(),
            name: text_at(block, "/name").unwrap_or_default().to_owned(),
            arguments: input,
        });
    }

    fn usage(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let known = self.reply.usage.get_or_insert_default();
        if usage.get("input_tokens").is_some_and(Value::is_u64) {
            known.cached_tokens = count_at(usage, "cache_read_input_tokens");
            known.input_tokens = count_at(usage, "input_tokens")
                + count_at(usage, "cache_creation_input_tokens")
                + known.cached_tokens;
        }
        known.output_tokens = known.output_tokens.max(count_at(usage, "output_tokens"));
    }
}

fn append(block: &mut Value, key: &str, more: &str) {
    let text = block.get(key).and_then(Value::as_str).unwrap_or_default();
    block[key] = format!("{text}{more}").into();
}
