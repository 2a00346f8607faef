//! Converts an app's answer into the result of a tool: texts stay text, data becomes JSON, pictures become
//! images, failures are marked as such, and answers in MCP's own form are passed on unchanged.

use serde_json::json;

use crate::Raw;
use crate::splice::elements;

/// The kinds of content that MCP knows.
const CONTENT: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];

/// The result for an answer without one.
pub fn missing_result() -> Raw {
    failed("Missing result property", None)
}

/// Converts `{success, data, error}`, or a result in MCP's own form (`content`, `isError`, …).
pub fn to_tool_result(result: &Raw) -> Raw {
    if result.is_null() {
        return failed("Null result", None);
    }
    if !result.is_object() {
        return failed("its answer is not an object with `success`", None);
    }
    match result.member("success").and_then(|success| success.read::<bool>().ok()) {
        Some(true) => succeeded(&result.member("data").unwrap_or_else(|| json!(null).into())),
        Some(false) => {
            let reported = result.member("error").filter(|error| !error.is_null());
            let reported =
                reported.map(|error| error.as_string().unwrap_or_else(|| error.as_str().to_owned()));
            let data = result.member("data").filter(|data| !data.is_null());
            failed(
                reported.as_deref().unwrap_or("the app reported a failure without a reason"),
                data.as_ref(),
            )
        }
        None if result.member("content").is_some_and(|content| content.as_bytes().starts_with(b"[")) => {
            complete(result)
        }
        None => failed("its answer has neither `success` nor MCP `content`", None),
    }
}

/// Wraps a result that is plain JSON rather than a tool result; `None` if it is a tool result already.
pub fn wrap_plain_result(result: &Raw) -> Option<Raw> {
    const OWN: [&str; 4] = ["structuredContent", "task", "toolResult", "resultType"];
    let has_content = result.member("content").is_some_and(|content| content.as_bytes().starts_with(b"["));
    if has_content || OWN.iter().any(|key| result.member(key).is_some()) {
        return None;
    }
    let (content, is_structured) = content_of(result);
    let wrapped = Raw::empty_object().with("content", &Raw::array(&content));
    Some(if is_structured { wrapped.with("structuredContent", result) } else { wrapped })
}

fn complete(result: &Raw) -> Raw {
    let kind = Raw::from_serialize(&"complete");
    if result.member("resultType").is_some() { result.clone() } else { result.with("resultType", &kind) }
}

fn failed(message: &str, data: Option<&Raw>) -> Raw {
    let mut content = vec![text(message)];
    content.extend(data.map(|data| text(data.as_str())));
    Raw::empty_object()
        .with("content", &Raw::array(&content))
        .with("isError", &json!(true).into())
        .with("resultType", &Raw::from_serialize(&"complete"))
}

fn text(text: &str) -> Raw {
    json!({ "type": "text", "text": text }).into()
}

fn succeeded(data: &Raw) -> Raw {
    if data.member("content").is_some_and(|content| is_content(&content)) {
        return complete(data);
    }
    let (content, structured) = content_of(data);
    let result = Raw::empty_object().with("content", &Raw::array(&content));
    let result = if structured { result.with("structuredContent", data) } else { result };
    complete(&result)
}

/// The content to show, and whether the data is structured content, too.
fn content_of(data: &Raw) -> (Vec<Raw>, bool) {
    if let Some(printed) = data.text() {
        let picture = printed.strip_prefix("data:").and_then(|url| url.split_once(";base64,"));
        return match picture.filter(|(kind, _)| kind.starts_with("image/")) {
            Some((kind, bytes)) => (vec![image(&Raw::from_serialize(&bytes), kind)], false),
            None => (vec![text(&printed)], false),
        };
    }
    if is_content(data) {
        return (elements(data.as_bytes()).map(|range| data.slice(range)).collect(), false);
    }
    if is_item(data) {
        return (vec![data.clone()], false);
    }
    if let Some(bytes) = data.member("base64Data").filter(|bytes| bytes.text().is_some()) {
        let format = data.member("format").and_then(|format| format.as_string());
        let shown = image(&bytes, &kind_of(&bytes, format.as_deref()));
        let rest = data.without(&["base64Data"]);
        return (vec![shown, text(rest.as_str())], false);
    }
    (vec![text(data.as_str())], data.is_object())
}

fn image(bytes: &Raw, kind: &str) -> Raw {
    let image = json!({ "type": "image", "mimeType": kind });
    Raw::from(image).with("data", bytes)
}

/// The kind of the image by its first bytes, in base64, whatever its label is.
fn kind_of(base64: &Raw, format: Option<&str>) -> String {
    const FIRST: [(&[u8], &str); 4] = [
        (b"\"iVBORw0KGgo", "image/png"),
        (b"\"/9j/", "image/jpeg"),
        (b"\"R0lGOD", "image/gif"),
        (b"\"UklGR", "image/webp"),
    ];
    let known = FIRST.iter().find(|(first, _)| base64.as_bytes().starts_with(first));
    match (known, format) {
        (Some((_, kind)), _) => (*kind).to_owned(),
        (None, Some("jpg")) => "image/jpeg".into(),
        (None, Some(format)) if format.starts_with("image/") => format.into(),
        (None, Some(format)) => format!("image/{}", format.to_ascii_lowercase()),
        (None, None) => "image/png".into(),
    }
}

/// Whether it is a non-empty array of content.
fn is_content(value: &Raw) -> bool {
    let mut items = elements(value.as_bytes()).map(|range| value.slice(range)).peekable();
    items.peek().is_some() && items.all(|item| is_item(&item))
}

fn is_item(value: &Raw) -> bool {
    let has = |key: &str| value.member(key).is_some();
    let kind = value.member("type").and_then(|kind| kind.as_string()).unwrap_or_default();
    CONTENT.contains(&kind.as_str())
        && match kind.as_str() {
            "text" => has("text"),
            "image" | "audio" => has("data") && has("mimeType"),
            "resource" => has("resource"),
            _ => has("uri"),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_json_is_wrapped_and_a_tool_result_is_not_touched() {
        for own in [
            r#"{"content":[]}"#,
            r#"{"structuredContent":{},"isError":true}"#,
            r#"{"task":{"taskId":"1"}}"#,
            r#"{"resultType":"input_required"}"#,
        ] {
            assert_eq!(wrap_plain_result(&own.parse_raw()), None, "{own}");
        }
        for (plain, wrapped) in [
            (
                r#"{"scripts":{}}"#,
                json!({ "content": [{ "type": "text", "text": r#"{"scripts":{}}"# }], "structuredContent": { "scripts": {} } }),
            ),
            (
                r#"{"content":"hi"}"#,
                json!({ "content": [{ "type": "text", "text": r#"{"content":"hi"}"# }], "structuredContent": { "content": "hi" } }),
            ),
            (r#"[{"id":1}]"#, json!({ "content": [{ "type": "text", "text": r#"[{"id":1}]"# }] })),
            (r#""done""#, json!({ "content": [{ "type": "text", "text": "done" }] })),
            ("null", json!({ "content": [{ "type": "text", "text": "null" }] })),
        ] {
            let got: serde_json::Value = wrap_plain_result(&plain.parse_raw()).unwrap().read().unwrap();
            assert_eq!(got, wrapped, "{plain}");
        }
    }

    trait ParseRaw {
        fn parse_raw(&self) -> Raw;
    }

    impl ParseRaw for str {
        fn parse_raw(&self) -> Raw {
            Raw::parse(bytes::Bytes::copy_from_slice(self.as_bytes())).unwrap()
        }
    }
}
