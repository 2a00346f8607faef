//! What a client of each revision may see, and what it answers.

use serde_json::{Value, json};
use toolyard_proto::Revision;

/// A result has the stamps of its revision, and no others.
pub(super) fn check_result(revision: Revision, method: &str, result: &Value) -> Result<(), Value> {
    let has = |key: &str| result.get(key).is_some();
    if revision.is_modern() != has("resultType") {
        return Err(json!(format!("`resultType` in {result}")));
    }
    let is_list = method.ends_with("/list") || method == "resources/read";
    if is_list && revision.is_modern() != (has("ttlMs") && has("cacheScope")) {
        return Err(json!(format!("cache hints in {result}")));
    }
    if revision < Revision::V2025_06_18 && has("structuredContent") {
        return Err(json!(format!("structured content in {result}")));
    }
    for tool in result["tools"].as_array().into_iter().flatten() {
        if revision < Revision::V2025_06_18 && tool.get("outputSchema").is_some() {
            return Err(json!(format!("an output schema in {tool}")));
        }
    }
    for prompt in result["prompts"].as_array().into_iter().flatten() {
        if revision < Revision::V2025_06_18 && prompt.get("title").is_some() {
            return Err(json!(format!("a title in {prompt}")));
        }
    }
    Ok(())
}

/// A question is in the words of its revision.
pub(super) fn check_ask(revision: Revision, ask: &Value) -> Result<(), Value> {
    if ask["method"] != "elicitation/create" {
        return Ok(());
    }
    let params = &ask["params"];
    let is_url = params["mode"] == "url";
    let fits = match revision {
        Revision::V2026_07_28 => params.get("elicitationId").is_none(),
        Revision::V2025_11_25 => !is_url || params.get("elicitationId").is_some(),
        _ => params.get("mode").is_none(),
    };
    if fits { Ok(()) } else { Err(json!(format!("{revision} does not know {params}"))) }
}

pub(super) fn answer_to(ask: &Value) -> Value {
    match ask["method"].as_str() {
        Some("elicitation/create") if ask["params"]["mode"] == "url" => json!({ "action": "accept" }),
        Some("elicitation/create") => json!({ "action": "accept", "content": { "name": "Ann" } }),
        Some("sampling/createMessage") => {
            json!({ "role": "assistant", "content": { "type": "text", "text": "sampled" }, "model": "m" })
        }
        Some("roots/list") => json!({ "roots": [{ "uri": "file:///root" }] }),
        _ => json!({}),
    }
}
