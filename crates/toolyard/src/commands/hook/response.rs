//! The response of a client's own tool as a result that hooks read, and a changed result as a response again. A
//! response keeps its form: Claude Code ignores another one for its own tools.

use serde_json::{Map, Value, json};

/// The response as a result: its texts, and the whole of it as structured content where it is an object.
pub(super) fn as_result(response: &Value) -> Value {
    if response["content"].is_array() {
        return response.clone();
    }
    if is_content(response) {
        return json!({ "content": response });
    }
    let texts: Vec<&str> =
        places(response).iter().filter_map(|place| response.pointer(place)?.as_str()).collect();
    let content: Vec<Value> = if texts.is_empty() {
        vec![block(&response.to_string())]
    } else {
        texts.into_iter().map(block).collect()
    };
    let mut result = Map::from_iter([("content".to_owned(), Value::from(content))]);
    if response.is_object() {
        result.insert("structuredContent".to_owned(), response.clone());
    }
    result.into()
}

fn block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Blocks, as an MCP tool returns them.
fn is_content(response: &Value) -> bool {
    let blocks = response.as_array().filter(|blocks| !blocks.is_empty());
    blocks.is_some_and(|blocks| blocks.iter().all(|block| block["type"].is_string()))
}

/// Where the texts of a response are. A `type` is a name and not a text.
fn places(response: &Value) -> Vec<String> {
    fn walk(value: &Value, place: &str, found: &mut Vec<String>) {
        match value {
            Value::String(text) if !text.is_empty() => found.push(place.to_owned()),
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    walk(item, &format!("{place}/{at}"), found);
                }
            }
            Value::Object(members) => {
                for (key, member) in members.iter().filter(|(key, _)| *key != "type") {
                    walk(member, &format!("{place}/{}", key.replace('~', "~0").replace('/', "~1")), found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(response, "", &mut found);
    found
}

/// The response as a hook has changed its result. The response of an MCP tool may have any form.
pub(super) fn changed(response: &Value, result: &Value, is_mcp: bool) -> Value {
    if response["content"].is_array() {
        let mut new = response.clone();
        for (key, member) in result.as_object().into_iter().flatten() {
            new[key] = member.clone();
        }
        return new;
    }
    if is_content(response) {
        return result["content"].clone();
    }
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    let places = places(response);
    let structured =
        Some(&result["structuredContent"]).filter(|value| value.is_object() && response.is_object());
    let mut new = structured.unwrap_or(response).clone();
    if texts.len() == places.len() {
        for (place, text) in places.iter().zip(texts) {
            let is_new = response.pointer(place).is_none_or(|old| old != text);
            if let Some(member) = new.pointer_mut(place).filter(|_| is_new) {
                *member = text.into();
            }
        }
        return new;
    }
    if is_mcp {
        return result["content"].clone();
    }
    // Another result: it takes the place of the longest text.
    let length = |place: &&String| response.pointer(place).and_then(Value::as_str).map_or(0, str::len);
    let longest = places.iter().max_by_key(length);
    if let Some(member) = longest.and_then(|place| new.pointer_mut(place)) {
        *member = texts.join("\n").into();
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(response: &Value) -> Vec<String> {
        let result = as_result(response);
        let blocks = result["content"].as_array().unwrap().clone();
        blocks.iter().map(|block| block["text"].as_str().unwrap().to_owned()).collect()
    }

    /// The response after a hook has made all texts of its result capital letters.
    fn shouted(response: &Value) -> Value {
        let mut result = as_result(response);
        for block in result["content"].as_array_mut().unwrap() {
            block["text"] = block["text"].as_str().unwrap().to_uppercase().into();
        }
        changed(response, &result, false)
    }

    #[test]
    fn the_texts_of_a_response_are_the_texts_of_its_result() {
        let bash = json!({ "stdout": "out", "stderr": "", "interrupted": false, "isImage": false });
        assert_eq!(texts(&bash), ["out"]);
        let read =
            json!({ "type": "text", "file": { "filePath": "/a/b", "content": "x\ny", "numLines": 2 } });
        assert_eq!(texts(&read), ["/a/b", "x\ny"]);
        assert_eq!(as_result(&read)["structuredContent"], read);
        assert_eq!(texts(&json!("plain")), ["plain"]);
        assert_eq!(texts(&json!({ "success": true })), [r#"{"success":true}"#]);
        assert_eq!(texts(&json!([{ "type": "text", "text": "mcp" }])), ["mcp"]);
        assert_eq!(
            texts(&json!({ "status": "done", "content": [{ "type": "text", "text": "agent" }] })),
            ["agent"]
        );
    }

    #[test]
    fn a_changed_response_has_the_form_of_the_first() {
        for (response, expected) in [
            (json!("plain"), json!("PLAIN")),
            (
                json!({ "stdout": "out", "stderr": "", "isImage": false }),
                json!({ "stdout": "OUT", "stderr": "", "isImage": false }),
            ),
            (
                json!({ "type": "text", "file": { "a/b": "x", "numLines": 2 } }),
                json!({ "type": "text", "file": { "a/b": "X", "numLines": 2 } }),
            ),
            (json!([{ "type": "text", "text": "mcp" }]), json!([{ "type": "text", "text": "MCP" }])),
            (
                json!({ "status": "done", "content": [{ "type": "text", "text": "agent" }] }),
                json!({ "status": "done", "content": [{ "type": "text", "text": "AGENT" }] }),
            ),
            (json!({ "success": true }), json!({ "success": true })),
        ] {
            assert_eq!(shouted(&response), expected);
        }
    }

    #[test]
    fn another_result_takes_the_place_of_the_longest_text() {
        let response = json!({ "stdout": "long enough", "stderr": "err", "isImage": false });
        let result = json!({ "content": [block("new")] });
        let expected = json!({ "stdout": "new", "stderr": "err", "isImage": false });
        assert_eq!(changed(&response, &result, false), expected);
        assert_eq!(
            changed(&response, &result, true),
            json!([block("new")]),
            "an MCP tool may return any form"
        );
    }

    #[test]
    fn a_change_of_the_structured_content_counts() {
        let response = json!({ "stdout": "key=secret", "stderr": "" });
        let mut result = as_result(&response);
        result["structuredContent"]["stderr"] = json!("seen");
        assert_eq!(changed(&response, &result, false), json!({ "stdout": "key=secret", "stderr": "seen" }));
    }
}
