//! Payloads without what looks like a secret: values whose key is called a password, a token or the like.

use serde_json::Value;

/// The text that replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// Parts of keys, without case and separators.
const SECRET: [&str; 10] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "authorization",
    "privatekey",
    "credential",
    "cookie",
];
/// Keys that contain such a part and hold no secret.
const HARMLESS: [&str; 8] = [
    "progresstoken",
    "tokens",
    "maxtokens",
    "nextpagetoken",
    "pagetoken",
    "nexttoken",
    "tokencount",
    "continuationtoken",
];

/// The text of a payload, and whether anything in it was replaced. What is not JSON is returned as it is.
pub fn payload(bytes: &[u8]) -> (String, bool) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let Ok(mut value) = serde_json::from_str::<Value>(&text) else { return (text, false) };
    if redact(&mut value) { (value.to_string(), true) } else { (text, false) }
}

/// Replaces secrets; whether there were any.
pub fn redact(value: &mut Value) -> bool {
    match value {
        Value::Object(members) => members.iter_mut().fold(false, |found, (key, value)| {
            let is_secret = is_secret(key) && !value.is_object() && !value.is_null();
            if is_secret {
                *value = REDACTED.into();
            }
            redact(value) || is_secret || found
        }),
        Value::Array(items) => items.iter_mut().map(redact).fold(false, |found, is_secret| found | is_secret),
        _ => false,
    }
}

fn is_secret(key: &str) -> bool {
    let key: String =
        key.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    SECRET.iter().any(|part| key.contains(part)) && !HARMLESS.iter().any(|harmless| key.ends_with(harmless))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_replaced_and_everything_else_keeps_its_bytes() {
        let check = |json: &str, expected: Option<&str>| {
            let (text, was_replaced) = payload(json.as_bytes());
            assert_eq!(
                (text.as_str(), was_replaced),
                (expected.unwrap_or(json), expected.is_some()),
                "{json}"
            );
        };
        check(r#"{ "path" : "/srv" , "max_tokens": 5, "_meta": {"progressToken":1}}"#, None);
        check(r#"{"a":[{"API-Key":"x1"}]}"#, Some(r#"{"a":[{"API-Key":"[redacted]"}]}"#));
        check(r#"{"token":{"id":1}}"#, None);
        check(r#"{"clientSecret":["a"]}"#, Some(r#"{"clientSecret":"[redacted]"}"#));
        check("data: not json", None);
    }
}
