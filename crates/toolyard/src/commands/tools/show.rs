//! The answer of a tool, for people: text as it is, other content in a few words.

use std::fmt::Write;

use serde_json::Value;

pub(super) fn text(result: &Value) -> String {
    let content = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let structured = result.get("structuredContent").filter(|_| content.is_empty());
    let mut out = String::new();
    for item in content {
        let _ = writeln!(out, "{}", block(item));
    }
    if let Some(structured) = structured {
        let _ = writeln!(out, "{structured:#}");
    }
    out.trim_end_matches('\n').to_owned()
}

fn block(item: &Value) -> String {
    let word = |key: &str| item[key].as_str().unwrap_or_default();
    match word("type") {
        "text" => word("text").to_owned(),
        kind @ ("image" | "audio") => {
            format!("[{kind}, {}, {} bytes]", word("mimeType"), bytes(word("data")))
        }
        "resource_link" => format!("[resource {} at {}]", word("name"), word("uri")),
        "resource" => {
            let resource = &item["resource"];
            let uri = resource["uri"].as_str().unwrap_or_default();
            match (resource["text"].as_str(), resource["blob"].as_str()) {
                (Some(text), _) => format!("[resource {uri}]\n{text}"),
                (None, blob) => format!("[resource {uri}, {} bytes]", bytes(blob.unwrap_or_default())),
            }
        }
        _ => item.to_string(),
    }
}

/// The number of bytes that base64 text holds.
fn bytes(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_content_is_shown() {
        let check = |item: Value, expected: &str| assert_eq!(text(&json!({ "content": [item] })), expected);
        check(json!({ "type": "text", "text": "a\nb\n" }), "a\nb");
        check(
            json!({ "type": "image", "mimeType": "image/png", "data": "AAAA" }),
            "[image, image/png, 3 bytes]",
        );
        check(json!({ "type": "resource_link", "name": "n", "uri": "u:x" }), "[resource n at u:x]");
        check(json!({ "type": "resource", "resource": { "uri": "u:x", "text": "t" } }), "[resource u:x]\nt");
        check(
            json!({ "type": "resource", "resource": { "uri": "u:x", "blob": "AA==" } }),
            "[resource u:x, 1 bytes]",
        );
        check(json!({ "type": "new", "x": 1 }), "{\"type\":\"new\",\"x\":1}");
        assert_eq!(text(&json!({ "content": [], "structuredContent": { "a": 1 } })), "{\n  \"a\": 1\n}");
    }
}
