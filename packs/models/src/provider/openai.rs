//! OpenAI Responses. Nothing is stored at the provider: thoughts come back encrypted and are sent again.

use serde_json::{Value, json};

use super::{Reader, arguments, count_at, failed, parameters, text_at};
use crate::conversation::{Effort, Image, Message, Part, Piece, Reply, ToolCall, Turn, Usage};
use crate::trouble::Trouble;

pub(super) fn body(turn: &Turn) -> Value {
    let input: Vec<Value> = turn.messages.iter().flat_map(items).collect();
    let mut body = json!({
        "model": turn.model,
        "store": false,
        "stream": true,
        "input": input,
        "max_output_tokens": turn.max_tokens,
    });
    if let Some(system) = &turn.system {
        body["instructions"] = system.clone().into();
    }
    let effort = if turn.thinking_budget > 0 { Some(Effort::High) } else { turn.effort };
    if let Some(effort) = effort {
        body["reasoning"] = json!({ "effort": effort.as_str(), "summary": "auto" });
        body["include"] = json!(["reasoning.encrypted_content"]);
    } else if let Some(temperature) = turn.temperature {
        // Models that reason refuse it.
        body["temperature"] = temperature.into();
    }
    if !turn.tools.is_empty() {
        let tools = turn.tools.iter().map(|tool| {
            let schema = parameters(&tool.schema);
            json!({ "type": "function", "name": tool.name, "description": tool.description, "parameters": schema, "strict": false })
        });
        body["tools"] = tools.collect();
    }
    body
}

fn items(message: &Message) -> Vec<Value> {
    match message {
        Message::User(parts) => {
            vec![json!({ "role": "user", "content": parts.iter().map(part).collect::<Vec<_>>() })]
        }
        Message::Assistant(text) => {
            vec![json!({ "role": "assistant", "content": [{ "type": "output_text", "text": text }] })]
        }
        Message::Echo(items) => items.clone(),
        Message::Results(outcomes) => outcomes
            .iter()
            .map(|outcome| json!({ "type": "function_call_output", "call_id": outcome.id, "output": outcome.text }))
            .collect(),
    }
}

fn part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({ "type": "input_text", "text": text }),
        Part::Image(Image { mime_type, data }) => {
            json!({ "type": "input_image", "image_url": format!("data:{mime_type};base64,{data}") })
        }
    }
}

#[derive(Default)]
pub(super) struct Events {
    reply: Reply,
    is_complete: bool,
}

impl Reader for Events {
    fn event(&mut self, event: Value) -> Result<Option<Piece>, Trouble> {
        let delta = || text_at(&event, "/delta").map(ToOwned::to_owned);
        match text_at(&event, "/type").unwrap_or_default() {
            "response.output_text.delta" => Ok(delta().map(|text| {
                self.reply.text.push_str(&text);
                Piece::Text(text)
            })),
            "response.reasoning_summary_text.delta" => Ok(delta().map(|text| {
                self.reply.thinking.push_str(&text);
                Piece::Thought(text)
            })),
            "response.output_item.done" => {
                self.item(event.get("item").cloned().unwrap_or_default());
                Ok(None)
            }
            "response.completed" | "response.incomplete" => {
                self.end(event.get("response").unwrap_or(&Value::Null));
                Ok(None)
            }
            "response.failed" => Err(refusal(event.pointer("/response/error").unwrap_or(&Value::Null))),
            "error" => Err(refusal(event.get("error").unwrap_or(&event))),
            "" => Err(Trouble::Garbage("an event without a type".into())),
            _ => Ok(None),
        }
    }

    fn usage(&self) -> Option<Usage> {
        self.reply.usage
    }

    fn finish(self: Box<Self>) -> Option<Reply> {
        self.is_complete.then_some(self.reply)
    }
}

impl Events {
    fn item(&mut self, item: Value) {
        if text_at(&item, "/type") == Some("function_call") {
            self.reply.calls.push(ToolCall {
                id: text_at(&item, "/call_id").unwrap_or_default().to_owned(),
                name: text_at(&item, "/name").unwrap_or_default().to_owned(),
                arguments: arguments(text_at(&item, "/arguments").unwrap_or_default()),
            });
        }
        self.reply.echo.push(item);
    }

    fn end(&mut self, response: &Value) {
        self.is_complete = true;
        let stop = text_at(response, "/incomplete_details/reason").or_else(|| text_at(response, "/status"));
        self.reply.stop = stop.map(ToOwned::to_owned);
        if let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) {
            self.reply.usage = Some(Usage {
                input_tokens: count_at(usage, "input_tokens"),
                cached_tokens: usage
                    .get("input_tokens_details")
                    .map_or(0, |details| count_at(details, "cached_tokens")),
                output_tokens: count_at(usage, "output_tokens"),
            });
        }
    }
}

fn refusal(error: &Value) -> Trouble {
    failed(
        text_at(error, "/code").unwrap_or_default(),
        text_at(error, "/message").unwrap_or("an error without a message"),
    )
}
