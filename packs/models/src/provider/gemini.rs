//! Gemini: `streamGenerateContent` with server-sent events.

use serde_json::{Value, json};

use super::{Reader, count_at, failed, parameters, text_at};
use crate::conversation::{Image, Message, Part, Piece, Reply, ToolCall, Turn, Usage};
use crate::trouble::Trouble;

pub(super) fn body(turn: &Turn) -> Value {
    let mut generation = json!({ "maxOutputTokens": turn.max_tokens });
    if let Some(temperature) = turn.temperature {
        generation["temperature"] = temperature.into();
    }
    if turn.thinking_budget > 0 {
        generation["thinkingConfig"] =
            json!({ "includeThoughts": true, "thinkingBudget": turn.thinking_budget });
    }
    if !turn.stop.is_empty() {
        generation["stopSequences"] = json!(turn.stop);
    }
    let contents: Vec<Value> = turn.messages.iter().map(content).collect();
    let mut body = json!({ "contents": contents, "generationConfig": generation });
    if let Some(system) = &turn.system {
        body["systemInstruction"] = json!({ "parts": [{ "text": system }] });
    }
    if !turn.tools.is_empty() {
        let tools: Vec<Value> = turn
            .tools
            .iter()
            .map(|tool| {
                let schema = parameters(&tool.schema);
                json!({ "name": tool.name, "description": tool.description, "parametersJsonSchema": schema })
            })
            .collect();
        body["tools"] = json!([{ "functionDeclarations": tools }]);
    }
    body
}

fn content(message: &Message) -> Value {
    match message {
        Message::User(parts) => {
            json!({ "role": "user", "parts": parts.iter().map(part).collect::<Vec<_>>() })
        }
        Message::Assistant(text) => json!({ "role": "model", "parts": [{ "text": text }] }),
        Message::Echo(parts) => json!({ "role": "model", "parts": parts }),
        Message::Results(outcomes) => {
            let parts: Vec<Value> = outcomes
                .iter()
                .map(|outcome| {
                    let key = if outcome.is_error { "error" } else { "result" };
                    let mut response = json!({ "name": outcome.name, "response": { key: outcome.text } });
                    if !outcome.id.starts_with(OWN_ID) {
                        response["id"] = outcome.id.clone().into();
                    }
                    json!({ "functionResponse": response })
                })
                .collect();
            json!({ "role": "user", "parts": parts })
        }
    }
}

/// Calls without an id get one that is not sent back.
const OWN_ID: &str = "call-";

fn part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({ "text": text }),
        Part::Image(Image { mime_type, data }) => {
            json!({ "inlineData": { "mimeType": mime_type, "data": data } })
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
        if let Some(error) = event.get("error") {
            let name = error.get("status").and_then(Value::as_str).unwrap_or_default();
            return Err(failed(name, text_at(error, "/message").unwrap_or("an error without a message")));
        }
        if let Some(reason) = text_at(&event, "/promptFeedback/blockReason") {
            return Err(Trouble::Empty(format!("the prompt was blocked: {reason}")));
        }
        if let Some(usage) = event.get("usageMetadata") {
            self.reply.usage = Some(Usage {
                input_tokens: count_at(usage, "promptTokenCount"),
                cached_tokens: count_at(usage, "cachedContentTokenCount"),
                output_tokens: count_at(usage, "candidatesTokenCount")
                    + count_at(usage, "thoughtsTokenCount"),
            });
        }
        let Some(candidate) = event.pointer("/candidates/0") else { return Ok(None) };
        if let Some(reason) = text_at(candidate, "/finishReason") {
            self.reply.stop = Some(reason.to_owned());
            self.is_complete = true;
        }
        let parts = candidate.pointer("/content/parts").and_then(Value::as_array);
        Ok(self.parts(parts.map_or(&[][..], Vec::as_slice)))
    }

    fn usage(&self) -> Option<Usage> {
        self.reply.usage
    }

    fn finish(self: Box<Self>) -> Option<Reply> {
        self.is_complete.then_some(self.reply)
    }
}

impl Events {
    fn parts(&mut self, parts: &[Value]) -> Option<Piece> {
        let (mut text, mut thought) = (String::new(), String::new());
        for part in parts {
            self.reply.echo.push(part.clone());
            if let Some(call) = part.get("functionCall") {
                let own_id = || format!("{OWN_ID}{}", self.reply.calls.len() + 1);
                let id = text_at(call, "/id").map_or_else(own_id, ToOwned::to_owned);
                let name = text_at(call, "/name").unwrap_or_default().to_owned();
                let arguments = call.get("args").cloned().unwrap_or_else(|| json!({}));
                self.reply.calls.push(ToolCall { id, name, arguments });
            }
            let Some(words) = text_at(part, "/text") else { continue };
            if part.get("thought") == Some(&Value::Bool(true)) { &mut thought } else { &mut text }
                .push_str(words);
        }
        self.reply.text.push_str(&text);
        self.reply.thinking.push_str(&thought);
        match (text.is_empty(), thought.is_empty()) {
            (false, _) => Some(Piece::Text(text)),
            (true, false) => Some(Piece::Thought(thought)),
            (true, true) => None,
        }
    }
}
