//! The verdict that a command prints or a webhook returns.

use serde_json::{Map, Value};

use crate::Verdict;

/// Reads `{"change": {…}, "note": "…", "block": "…"}`; nothing at all is a pass.
pub(crate) fn read(text: &[u8]) -> Result<Verdict, String> {
    let text = String::from_utf8_lossy(text);
    let text = text.trim();
    if text.is_empty() {
        return Ok(Verdict::pass());
    }
    let value: Map<String, Value> = serde_json::from_str(text).map_err(|_| {
        let start: String = text.chars().take(80).collect();
        format!("it returned something other than a JSON object: {start:?}")
    })?;
    let string = |key: &str| match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{key}` in its answer is not a string")),
    };
    let change = match value.get("change") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(change)) => change.clone(),
        Some(_) => return Err("`change` in its answer is not an object".to_owned()),
    };
    Ok(Verdict { change, note: string("note")?, block: string("block")? })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_verdict_is_read_and_everything_else_is_a_failure() {
        assert_eq!(read(b" \n"), Ok(Verdict::pass()));
        assert_eq!(read(b"{}"), Ok(Verdict::pass()));
        let all = read(br#"{"change":{"arguments":{"a":1}},"note":"n","block":"b","other":1}"#).unwrap();
        assert_eq!(all.change["arguments"], json!({ "a": 1 }));
        assert_eq!((all.note.as_deref(), all.block.as_deref()), (Some("n"), Some("b")));
        for garbage in [&b"oops"[..], b"[]", b"{", b"{\"note\":1}", b"{\"change\":[]}", b"\xff\xfe"] {
            assert!(read(garbage).is_err(), "{garbage:?}");
        }
    }
}
