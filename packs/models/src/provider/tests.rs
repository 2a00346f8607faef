//! Requests and answers of each provider as they are on the wire.

use serde_json::{Value, json};

use crate::config::Kind;
use crate::conversation::{Effort, Image, Message, Outcome, Part, Piece, Reply, ToolSpec, Turn, Usage};

fn turn() -> Turn {
    Turn {
        model: "m".into(),
        system: Some("Be brief.".into()),
        messages: vec![
            Message::User(vec![
                Part::Text("What is this?".into()),
                Part::Image(Image { mime_type: "image/png".into(), data: "AAAA".into() }),
            ]),
            Message::Assistant("A picture.".into()),
            Message::Echo(vec![json!({ "own": "form" })]),
            Message::Results(vec![Outcome {
                id: "c1".into(),
                name: "look".into(),
                text: "blue".into(),
                is_error: false,
            }]),
        ],
        temperature: Some(0.5),
        max_tokens: 100,
        thinking_budget: 0,
        effort: None,
        stop: vec!["END".into()],
        tools: vec![ToolSpec {
            name: "look".into(),
            description: "Looks.".into(),
            schema: json!({ "$schema": "x", "type": "object" }),
        }],
    }
}

#[test]
fn requests_have_the_form_of_their_provider() {
    let tool = json!({ "type": "object" });
    assert_eq!(
        Kind::Gemini.body(&turn()),
        json!({
            "contents": [
                { "role": "user", "parts": [{ "text": "What is this?" }, { "inlineData": { "mimeType": "image/png", "data": "AAAA" } }] },
                { "role": "model", "parts": [{ "text": "A picture." }] },
                { "role": "model", "parts": [{ "own": "form" }] },
                { "role": "user", "parts": [{ "functionResponse": { "name": "look", "response": { "result": "blue" }, "id": "c1" } }] },
            ],
            "generationConfig": { "maxOutputTokens": 100, "temperature": 0.5, "stopSequences": ["END"] },
            "systemInstruction": { "parts": [{ "text": "Be brief." }] },
            "tools": [{ "functionDeclarations": [{ "name": "look", "description": "Looks.", "parametersJsonSchema": tool }] }],
        })
    );
    assert_eq!(
        Kind::OpenAi.body(&turn()),
        json!({
            "model": "m", "store": false, "stream": true,
            "input": [
                { "role": "user", "content": [{ "type": "input_text", "text": "What is this?" }, { "type": "input_image", "image_url": "data:image/png;base64,AAAA" }] },
                { "role": "assistant", "content": [{ "type": "output_text", "text": "A picture." }] },
                { "own": "form" },
                { "type": "function_call_output", "call_id": "c1", "output": "blue" },
            ],
            "max_output_tokens": 100, "instructions": "Be brief.", "temperature": 0.5,
            "tools": [{ "type": "function", "name": "look", "description": "Looks.", "parameters": tool, "strict": false }],
        })
    );
    assert_eq!(
        Kind::Anthropic.body(&turn()),
        json!({
            "model": "m", "stream": true,
            "messages": [
                { "role": "user", "content": [{ "type": "text", "text": "What is this?" }, { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AAAA" } }] },
                { "role": "assistant", "content": [{ "type": "text", "text": "A picture." }] },
                { "role": "assistant", "content": [{ "own": "form" }] },
                { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "c1", "content": "blue", "is_error": false }] },
            ],
            "max_tokens": 100, "temperature": 0.5, "system": "Be brief.", "stop_sequences": ["END"],
            "tools": [{ "name": "look", "description": "Looks.", "input_schema": tool }],
        })
    );
    assert_eq!(
        Kind::Compatible.body(&turn()),
        json!({
            "model": "m",
            "messages": [
                { "role": "system", "content": "Be brief." },
                { "role": "user", "content": [{ "type": "text", "text": "What is this?" }, { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } }] },
                { "role": "assistant", "content": "A picture." },
                { "own": "form" },
                { "role": "tool", "tool_call_id": "c1", "content": "blue" },
            ],
            "max_tokens": 100, "stream": true, "stream_options": { "include_usage": true }, "temperature": 0.5, "stop": ["END"],
            "tools": [{ "type": "function", "function": { "name": "look", "description": "Looks.", "parameters": tool } }],
        })
    );
}

#[test]
fn a_budget_for_thinking_is_sent_in_the_form_of_the_provider() {
    let turn = Turn { thinking_budget: 2000, effort: Some(Effort::Low), ..turn() };
    assert_eq!(Kind::Gemini.body(&turn)["generationConfig"]["thinkingConfig"]["thinkingBudget"], 2000);
    assert_eq!(Kind::OpenAi.body(&turn)["reasoning"]["effort"], "high");
    assert_eq!(Kind::OpenAi.body(&turn)["temperature"], Value::Null);
    let body = Kind::Anthropic.body(&turn);
    assert_eq!(body["thinking"], json!({ "type": "enabled", "budget_tokens": 2000 }));
    assert_eq!((&body["max_tokens"], &body["temperature"]), (&json!(2100), &Value::Null));
    assert_eq!(Kind::Compatible.body(&turn)["reasoning_effort"], "high");
    let most = Turn { thinking_budget: u32::MAX, ..turn };
    assert_eq!(Kind::Anthropic.body(&most)["max_tokens"], u32::MAX);
}

/// The pieces and the answer that these events make.
fn read(kind: Kind, events: Vec<Value>) -> (Vec<Piece>, Reply) {
    let mut reader = kind.reader();
    let pieces = events.into_iter().filter_map(|event| reader.event(event).unwrap()).collect();
    (pieces, reader.finish().expect("the answer is complete"))
}

fn check(kind: Kind, events: &[Value], echo: &Value) {
    let (pieces, reply) = read(kind, events.to_vec());
    let words = |text: &str| Piece::Text(text.to_owned());
    assert_eq!(pieces, [Piece::Thought("Hm.".into()), words("Hel"), words("lo")], "{kind:?}");
    assert_eq!((reply.text.as_str(), reply.thinking.as_str()), ("Hello", "Hm."), "{kind:?}");
    assert_eq!(reply.calls.len(), 1, "{kind:?}");
    assert_eq!(reply.calls[0].name, "look", "{kind:?}");
    assert_eq!(reply.calls[0].arguments, json!({ "at": "sky" }), "{kind:?}");
    assert_eq!(reply.usage, Some(Usage { input_tokens: 10, cached_tokens: 4, output_tokens: 7 }), "{kind:?}");
    assert_eq!(&json!(reply.echo), echo, "{kind:?}");
    // Without its last event the answer is not complete.
    let mut reader = kind.reader();
    for event in &events[..events.len() - 1] {
        reader.event(event.clone()).unwrap();
    }
    assert!(reader.finish().is_none(), "{kind:?}");
}

#[test]
fn answers_of_gemini_are_read() {
    let call =
        json!({ "functionCall": { "name": "look", "args": { "at": "sky" } }, "thoughtSignature": "sig" });
    let chunk = |part: Value| json!({ "candidates": [{ "content": { "role": "model", "parts": [part] } }] });
    let usage = json!({ "promptTokenCount": 10, "cachedContentTokenCount": 4, "candidatesTokenCount": 5, "thoughtsTokenCount": 2 });
    let events = vec![
        chunk(json!({ "text": "Hm.", "thought": true })),
        chunk(json!({ "text": "Hel" })),
        chunk(json!({ "text": "lo" })),
        json!({ "candidates": [{ "content": { "parts": [call] }, "finishReason": "STOP" }], "usageMetadata": usage }),
    ];
    let echo = json!([{ "text": "Hm.", "thought": true }, { "text": "Hel" }, { "text": "lo" }, call]);
    check(Kind::Gemini, &events, &echo);
}

#[test]
fn answers_of_openai_are_read() {
    let call =
        json!({ "type": "function_call", "call_id": "c1", "name": "look", "arguments": "{\"at\":\"sky\"}" });
    let reasoning = json!({ "type": "reasoning", "encrypted_content": "xyz" });
    let usage =
        json!({ "input_tokens": 10, "input_tokens_details": { "cached_tokens": 4 }, "output_tokens": 7 });
    let events = vec![
        json!({ "type": "response.created", "response": {} }),
        json!({ "type": "response.reasoning_summary_text.delta", "delta": "Hm." }),
        json!({ "type": "response.output_item.done", "item": reasoning }),
        json!({ "type": "response.output_text.delta", "delta": "Hel" }),
        json!({ "type": "response.output_text.delta", "delta": "lo" }),
        json!({ "type": "response.output_item.done", "item": call }),
        json!({ "type": "response.completed", "response": { "status": "completed", "usage": usage } }),
    ];
    check(Kind::OpenAi, &events, &json!([reasoning, call]));
}

#[test]
fn answers_of_anthropic_are_read() {
    let start = |index: u32, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let delta =
        |index: u32, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let stop = |index: u32| json!({ "type": "content_block_stop", "index": index });
    let usage = json!({ "input_tokens": 4, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4, "output_tokens": 1 });
    let events = vec![
        json!({ "type": "message_start", "message": { "usage": usage } }),
        start(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "Hm." })),
        delta(0, json!({ "type": "signature_delta", "signature": "sig" })),
        stop(0),
        json!({ "type": "ping" }),
        start(1, json!({ "type": "text", "text": "" })),
        delta(1, json!({ "type": "text_delta", "text": "Hel" })),
        delta(1, json!({ "type": "text_delta", "text": "lo" })),
        stop(1),
        start(2, json!({ "type": "tool_use", "id": "t1", "name": "look", "input": {} })),
        delta(2, json!({ "type": "input_json_delta", "partial_json": "{\"at\":" })),
        delta(2, json!({ "type": "input_json_delta", "partial_json": "\"sky\"}" })),
        stop(2),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 7 } }),
        json!({ "type": "message_stop" }),
    ];
    let echo = json!([
        { "type": "thinking", "thinking": "Hm.", "signature": "sig" },
        { "type": "text", "text": "Hello" },
        { "type": "tool_use", "id": "t1", "name": "look", "input": { "at": "sky" } },
    ]);
    check(Kind::Anthropic, &events, &echo);
}

#[test]
fn answers_of_compatible_servers_are_read() {
    let chunk = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] });
    let usage = json!({ "prompt_tokens": 10, "prompt_tokens_details": { "cached_tokens": 4 }, "completion_tokens": 7 });
    let first = json!({ "index": 0, "id": "c1", "function": { "name": "look", "arguments": "{\"at\":" } });
    let second = json!({ "index": 0, "function": { "arguments": "\"sky\"}" } });
    let events = vec![
        chunk(json!({ "role": "assistant", "reasoning_content": "Hm." })),
        chunk(json!({ "content": "Hel" })),
        chunk(json!({ "content": "lo" })),
        chunk(json!({ "tool_calls": [first] })),
        chunk(json!({ "tool_calls": [second] })),
        json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }], "usage": usage }),
    ];
    let function = json!({ "name": "look", "arguments": "{\"at\":\"sky\"}" });
    let call = json!({ "id": "c1", "type": "function", "function": function });
    check(
        Kind::Compatible,
        &events,
        &json!([{ "role": "assistant", "content": "Hello", "tool_calls": [call] }]),
    );
}

#[test]
fn an_answer_of_a_compatible_server_may_come_with_its_thoughts_in_one_chunk() {
    for thoughts in ["reasoning_content", "reasoning"] {
        let delta = json!({ thoughts: "Hm.", "content": "Hello" });
        let events = vec![json!({ "choices": [{ "delta": delta, "finish_reason": "stop" }] })];
        let (pieces, reply) = read(Kind::Compatible, events);
        assert_eq!(pieces, [Piece::Text("Hello".into())], "{thoughts}");
        assert_eq!((reply.text.as_str(), reply.thinking.as_str()), ("Hello", "Hm."), "{thoughts}");
        assert_eq!(reply.echo, [json!({ "role": "assistant", "content": "Hello" })], "{thoughts}");
    }
}

#[test]
fn errors_within_an_answer_are_errors_of_that_status() {
    let check = |kind: Kind, event: Value, status: u16| {
        let error = kind.reader().event(event).unwrap_err().to_string();
        assert!(error.starts_with(&format!("answered with status {status}: Busy")), "{kind:?}: {error}");
    };
    check(Kind::Gemini, json!({ "error": { "code": 503, "message": "Busy", "status": "UNAVAILABLE" } }), 503);
    check(Kind::OpenAi, json!({ "type": "error", "code": "server_error", "message": "Busy" }), 500);
    let failed = json!({ "error": { "code": "rate_limit_exceeded", "message": "Busy" } });
    check(Kind::OpenAi, json!({ "type": "response.failed", "response": failed }), 429);
    check(
        Kind::Anthropic,
        json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Busy" } }),
        529,
    );
    check(Kind::Compatible, json!({ "error": { "code": 502, "message": "Busy" } }), 503);
}

#[test]
fn arguments_that_are_not_json_are_kept_as_text() {
    let call = json!({ "type": "function_call", "call_id": "c", "name": "look", "arguments": "{oops" });
    let events = vec![
        json!({ "type": "response.output_item.done", "item": call }),
        json!({ "type": "response.completed", "response": {} }),
    ];
    assert_eq!(read(Kind::OpenAi, events).1.calls[0].arguments, json!("{oops"));
}
