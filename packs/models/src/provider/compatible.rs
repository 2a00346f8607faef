//! Chat completions, the form that most other servers have: Ollama, vLLM, LM Studio, OpenRouter.

use serde_json::{Value, json};

use super::{Reader, arguments, count_at, failed, parameters, text_at};
use crate::conversation::{Effort, Image, Message, Part, Piece, Reply, ToolCall, Turn, Usage};
use crate::trouble::Trouble;

/// The most calls of one answer; more have no room in any conversation.
const MOST_CALLS: usize = 128;

pub(super) fn body(turn: &Turn) -> Value {
    let system = turn.system.as_ref().map(|system| json!({ "role": "system", "content": system }));
    let messages: Vec<Value> = system.into_iter().chain(turn.messages.iter().flat_map(messages)).collect();
    let mut body = json!({
        "model": turn.model,
        "messages": messages,
        "max_tokens": turn.max_tokens,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if let Some(temperature) = turn.temperature {
        body["temperature"] = temperature.into();
    }
    let effort = if turn.thinking_budget > 0 { Some(Effort::High) } else { turn.effort };
    if let Some(effort) = effort {
        body["reasoning_effort"] = effort.as_str().into();
    }
    if !turn.stop.is_empty() {
        body["stop"] = json!(turn.stop);
    }
    if !turn.tools.is_empty() {
        let tools = turn.tools.iter().map(|tool| {
            let schema = parameters(&tool.schema);
            json!({ "type": "function", "function": { "name": tool.name, "description": tool.description, "parameters": schema } })
        });
        body["tools"] = tools.collect();
    }
    body
}

fn messages(message: &Message) -> Vec<Value> {
    match message {
        // Many servers take a list of parts only if there is a picture.
        Message::User(parts) => match &parts[..] {
            [Part::Text(text)] => vec![json!({ "role": "user", "content": text })],
            parts => vec![json!({ "role": "user", "content": parts.iter().map(part).collect::<Vec<_>>() })],
        },
        Message::Assistant(text) => vec![json!({ "role": "assistant", "content": text })],
        Message::Echo(messages) => messages.clone(),
        Message::Results(outcomes) => outcomes
            .iter()
            .map(|outcome| json!({ "role": "tool", "tool_call_id": outcome.id, "content": outcome.text }))
            .collect(),
    }
}

fn part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Image(Image { mime_type, data }) => {
            json!({ "type": "image_url", "image_url": { "url": format!("data:{mime_type};base64,{data}") } })
        }
    }
}

#[derive(Default)]
pub(super) struct Events {
    reply: Reply,
    calls: Vec<Call>,
    is_complete: bool,
}

#[derive(Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Reader for Events {
    fn event(&mut self, event: Value) -> Result<Option<Piece>, Trouble> {
        if let Some(error) = event.get("error") {
            let code =
                error.get("code").map(|code| code.as_str().map_or_else(|| code.to_string(), Into::into));
            let message = text_at(error, "/message").unwrap_or("an error without a message");
            return Err(failed(&code.unwrap_or_default(), message));
        }
        if let Some(usage) = event.get("usage").filter(|usage| usage.is_object()) {
            self.reply.usage = Some(Usage {
                input_tokens: count_at(usage, "prompt_tokens"),
                cached_tokens: usage
                    .get("prompt_tokens_details")
                    .map_or(0, |details| count_at(details, "cached_tokens")),
                output_tokens: count_at(usage, "completion_tokens"),
            });
        }
        let Some(choice) = event.pointer("/choices/0") else { return Ok(None) };
        if let Some(reason) = text_at(choice, "/finish_reason") {
            self.reply.stop = Some(reason.to_owned());
            self.is_complete = true;
        }
        let delta = choice.get("delta").unwrap_or(&Value::Null);
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.call(call)?;
        }
        // One chunk may have both.
        let thought = text_at(delta, "/reasoning_content").or_else(|| text_at(delta, "/reasoning"));
        self.reply.thinking.push_str(thought.unwrap_or_default());
        let text = text_at(delta, "/content");
        self.reply.text.push_str(text.unwrap_or_default());
        let shown = text.map(|text| Piece::Text(text.to_owned()));
        Ok(shown.or_else(|| thought.map(|thought| Piece::Thought(thought.to_owned()))))
    }

    fn usage(&self) -> Option<Usage> {
        self.reply.usage
    }

    fn finish(mut self: Box<Self>) -> Option<Reply> {
        if !self.is_complete {
            return None;
        }
        let calls: Vec<Value> = self
            .calls
            .iter()
            .map(|call| {
                let function = json!({ "name": call.name, "arguments": call.arguments });
                json!({ "id": call.id, "type": "function", "function": function })
            })
            .collect();
        let mut message = json!({ "role": "assistant", "content": self.reply.text });
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        self.reply.echo = vec![message];
        let calls = self.calls.into_iter();
        self.reply.calls = calls
            .map(|call| ToolCall { id: call.id, name: call.name, arguments: arguments(&call.arguments) })
            .collect();
        Some(self.reply)
    }
}

impl Events {
    fn call(&mut self, delta: &Value) -> Result<(), Trouble> {
        let at = delta.get("index").and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok());
        // Some servers leave the index out and send each call as a whole.
        let at = at.unwrap_or(self.calls.len());
        if at >= MOST_CALLS {
            return Err(Trouble::Garbage(format!("more than {MOST_CALLS} calls of tools in one answer")));
        }
        while self.calls.len() <= at {
            let id = format!("call-{}", self.calls.len() + 1);
            self.calls.push(Call { id, ..Call::default() });
        }
        let call = &mut self.calls[at];
        if let Some(id) = text_at(delta, "/id") {
            id.clone_into(&mut call.id);
        }
        call.name.push_str(text_at(delta, "/function/name").unwrap_or_default());
        call.arguments.push_str(text_at(delta, "/function/arguments").unwrap_or_default());
        Ok(())
    }
}
