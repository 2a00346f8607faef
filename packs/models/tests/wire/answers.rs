//! Answers of each kind of provider, with partial text on the way.

use serde_json::{Value, json};

use crate::client::Client;
use crate::provider::{Provider, Step, event, head};

pub(crate) const KINDS: [&str; 4] = ["gemini", "openai", "anthropic", "compatible"];

/// The events of the answer `Hello`, in two parts.
pub(crate) fn hello(kind: &str) -> Vec<Value> {
    match kind {
        "gemini" => vec![
            json!({ "candidates": [{ "content": { "parts": [{ "text": "Hel" }] } }] }),
            json!({ "candidates": [{ "content": { "parts": [{ "text": "lo" }] }, "finishReason": "STOP" }],
                "usageMetadata": { "promptTokenCount": 3, "candidatesTokenCount": 2 } }),
        ],
        "openai" => vec![
            json!({ "type": "response.output_text.delta", "delta": "Hel" }),
            json!({ "type": "response.output_text.delta", "delta": "lo" }),
            json!({ "type": "response.completed", "response": { "status": "completed", "usage": { "input_tokens": 3, "output_tokens": 2 } } }),
        ],
        "anthropic" => vec![
            json!({ "type": "message_start", "message": { "usage": { "input_tokens": 3, "output_tokens": 0 } } }),
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "Hel" } }),
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "lo" } }),
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 2 } }),
            json!({ "type": "message_stop" }),
        ],
        _ => vec![
            json!({ "choices": [{ "delta": { "content": "Hel" } }] }),
            json!({ "choices": [{ "delta": { "content": "lo" }, "finish_reason": "stop" }] }),
            json!({ "choices": [], "usage": { "prompt_tokens": 3, "completion_tokens": 2 } }),
        ],
    }
}

pub(crate) fn config(kind: &str, url: &str) -> Value {
    json!({
        "providers": { "it": { "kind": kind, "base_url": url, "key": "the-key", "models": { "m": {} } } },
    })
}

#[tokio::test]
async fn every_kind_of_provider_answers_and_its_text_comes_in_parts() {
    for kind in KINDS {
        let mut script = vec![head(200, "")];
        for one in hello(kind) {
            script.extend([event(&one), Step::Wait(std::time::Duration::from_millis(50))]);
        }
        let provider = Provider::new(script).await;
        let mut client = Client::new(config(kind, &provider.url)).await;
        let result = client.call("ask_model", json!({ "prompt": "Hi" })).await;
        assert_eq!(result["content"][0]["text"], "Hello", "{kind}: {result}");
        let structured = &result["structuredContent"];
        assert_eq!(structured["usage"]["output_tokens"], 2, "{kind}: {structured}");
        assert_eq!((&structured["auth"], &structured["cost"]), (&json!("key"), &Value::Null), "{kind}");
        let partial = |message: &Value| {
            let text = &message["params"]["_meta"]["dev.toolyard/partial"][0]["text"];
            text.as_str().unwrap_or_default().to_owned()
        };
        let parts: String = client.notified.iter().map(partial).collect();
        assert_eq!(parts, "Hello", "{kind}: {:?}", client.notified);
        let (head, body) = &provider.asked()[0];
        assert!(head.contains("the-key"), "{kind}: {head}");
        assert!(body.to_string().contains("\"Hi\""), "{kind}: {body}");
    }
}

#[tokio::test]
async fn a_picture_reaches_every_kind_of_provider_in_its_form() {
    for kind in KINDS {
        let script = [head(200, "")].into_iter().chain(hello(kind).iter().map(event)).collect();
        let provider = Provider::new(script).await;
        let mut client = Client::new(config(kind, &provider.url)).await;
        let picture = json!({ "mimeType": "image/png", "data": "iVBORw0KGgo=" });
        let result = client.call("ask_model", json!({ "prompt": "What is it?", "images": [picture] })).await;
        assert_eq!(result["content"][0]["text"], "Hello", "{kind}: {result}");
        let body = &provider.asked()[0].1;
        let as_url = json!("data:image/png;base64,iVBORw0KGgo=");
        let (at, expected) = match kind {
            "gemini" => ("/contents/0/parts/1/inlineData/data", json!("iVBORw0KGgo=")),
            "openai" => ("/input/0/content/1/image_url", as_url),
            "anthropic" => ("/messages/0/content/1/source/data", json!("iVBORw0KGgo=")),
            _ => ("/messages/0/content/1/image_url/url", as_url),
        };
        assert_eq!(body.pointer(at), Some(&expected), "{kind}: {body}");
    }
}

#[tokio::test]
async fn the_tools_of_the_seed_have_their_names_and_a_line_about_the_model() {
    let script = [head(200, "")].into_iter().chain(hello("gemini").iter().map(event)).collect();
    let provider = Provider::new(script).await;
    let keys =
        json!({ "providers": { "google": { "kind": "gemini", "base_url": provider.url, "key": "k" } } });
    let mut client = Client::new(keys).await;
    let result = client.call("invoke_gemini", json!({ "prompt": "Hi" })).await;
    assert_eq!(result["content"][0]["text"], "[Auth: key | Model: gemini-3-flash]\n\nHello", "{result}");
    let result = client.call("invoke_openai", json!({ "prompt": "Hi" })).await;
    assert_eq!(result["isError"], true);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("no provider of kind `openai` or `compatible` is configured"), "{text}");
    let report = client.call("get_cost_report", json!({})).await;
    assert_eq!(report["structuredContent"]["total"]["requests"], 1, "{report}");
}

#[tokio::test]
async fn a_request_to_sample_is_answered_in_the_form_of_the_protocol() {
    let script = [head(200, "")].into_iter().chain(hello("anthropic").iter().map(event)).collect();
    let provider = Provider::new(script).await;
    let mut client = Client::new(config("anthropic", &provider.url)).await;
    let arguments = json!({
        "messages": [
            { "role": "user", "content": { "type": "text", "text": "One" } },
            { "role": "assistant", "content": [{ "type": "text", "text": "Two" }] },
            { "role": "user", "content": { "type": "text", "text": "Three" } },
        ],
        "systemPrompt": "Count.",
        "maxTokens": 50,
        "stopSequences": ["Four"],
    });
    let result = client.call("create_message", arguments).await;
    let expected = json!({ "role": "assistant", "content": { "type": "text", "text": "Hello" }, "model": "m", "stopReason": "endTurn" });
    assert_eq!(result["structuredContent"], expected);
    let body = &provider.asked()[0].1;
    assert_eq!(
        (&body["system"], &body["max_tokens"], &body["stop_sequences"]),
        (&json!("Count."), &json!(50), &json!(["Four"]))
    );
    assert_eq!(body["messages"][1]["content"][0]["text"], "Two");
}
