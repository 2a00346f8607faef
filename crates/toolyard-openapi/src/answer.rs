//! Converts a response of the service to the result of a call.

use bytes::Bytes;
use data_encoding::BASE64;
use http::Response;
use http::header::{CONTENT_TYPE, LOCATION};
use serde_json::{Value, json};

/// A result as `tools/call` answers with it.
pub(crate) fn result(response: &Response<Bytes>, uri: &str) -> Value {
    let status = response.status();
    let mut result = json!({ "content": [content(response, uri)] });
    if let Some(object) = structured(response) {
        result["structuredContent"] = object;
    }
    if !status.is_success() {
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let location = location.map(|place| format!(", redirects to {place}")).unwrap_or_default();
        let head = json!({ "type": "text", "text": format!("the service answered with {status}{location}") });
        if let Some(content) = result["content"].as_array_mut() {
            content.insert(0, head);
        }
        result["isError"] = true.into();
    }
    result
}

fn kind(response: &Response<Bytes>) -> String {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().to_lowercase()
}

fn structured(response: &Response<Bytes>) -> Option<Value> {
    let kind = kind(response);
    if kind != "application/json" && !kind.ends_with("+json") {
        return None;
    }
    serde_json::from_slice(response.body()).ok().filter(Value::is_object)
}

fn content(response: &Response<Bytes>, uri: &str) -> Value {
    let (kind, body) = (kind(response), response.body());
    let data = || BASE64.encode(body);
    match kind.split('/').next().unwrap_or_default() {
        "image" if kind != "image/svg+xml" => {
            json!({ "type": "image", "mimeType": kind, "data": data() })
        }
        "audio" => json!({ "type": "audio", "mimeType": kind, "data": data() }),
        _ => match std::str::from_utf8(body) {
            Ok("") => json!({ "type": "text", "text": format!("status {}", response.status()) }),
            Ok(text) => json!({ "type": "text", "text": text }),
            Err(_) => {
                let resource = json!({ "uri": uri, "mimeType": kind, "blob": data() });
                json!({ "type": "resource", "resource": resource })
            }
        },
    }
}
