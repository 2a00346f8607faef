//! Payloads without what looks like a secret: values whose key is called a password, a token or the like. They are
//! found in the text itself, since a payload need not be whole JSON: it may be an event stream, or be cut at its end.

use std::ops::Range;

use toolyard_proto::raw::without_half_pairs;

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

/// How deep JSON in strings of JSON is searched.
const DEEPEST: usize = 8;

/// The text of a payload, and whether anything in it was replaced. All other bytes are kept.
pub fn payload(bytes: &[u8]) -> (String, bool) {
    let text = String::from_utf8_lossy(bytes);
    match without_secrets(&text, 0) {
        Some(text) => (text, true),
        None => (text.into_owned(), false),
    }
}

/// Whether a value with this key is a secret.
pub fn is_secret(key: &str) -> bool {
    let key: String =
        key.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    SECRET.iter().any(|part| key.contains(part)) && !HARMLESS.iter().any(|harmless| key.ends_with(harmless))
}

/// The text with its secrets replaced; `None` if there are none.
fn without_secrets(text: &str, depth: usize) -> Option<String> {
    let (mut out, mut kept, mut at) = (String::new(), 0, 0);
    while let Some(start) = text[at..].find('"').map(|offset| at + offset) {
        let (end, is_closed) = string_end(text, start);
        let literal = &text[start..end];
        let value = value_after(text, end);
        let replaced = match value {
            Some(value) if is_secret(&unescaped(literal)) => {
                secret_at(text, value).map(|secret| (secret, format!("\"{REDACTED}\"")))
            }
            Some(_) => None,
            None => inside(literal, is_closed, depth).map(|literal| (start..end, literal)),
        };
        at = value.unwrap_or(end);
        if let Some((place, new)) = replaced {
            out.push_str(&text[kept..place.start]);
            out.push_str(&new);
            (kept, at) = (place.end, place.end);
        }
    }
    (kept > 0).then(|| out + &text[kept..])
}

/// Where the string that starts here ends, and whether it has a closing quote. One that has none is cut, and ends with
/// its line at the latest.
fn string_end(text: &str, start: usize) -> (usize, bool) {
    let bytes = text.as_bytes();
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return (at + 1, true),
            b'\n' | b'\r' => return (at, false),
            b'\\' if !matches!(bytes.get(at + 1), Some(b'\n' | b'\r')) => at += 2,
            _ => at += 1,
        }
    }
    (text.len(), false)
}

/// Where the value begins, if the string that ends here is a key.
fn value_after(text: &str, key: usize) -> Option<usize> {
    let colon = after_space(text, key);
    text[colon..].starts_with(':').then(|| after_space(text, colon + 1))
}

/// Past white space. In an event stream, a message may go on in the next `data:` line.
fn after_space(text: &str, mut at: usize) -> usize {
    loop {
        let space = text[at..].find(|one: char| !one.is_ascii_whitespace()).unwrap_or(text.len() - at);
        let is_new_line = text[at..at + space].ends_with(['\n', '\r']);
        at += space;
        if !is_new_line || !text[at..].starts_with("data:") {
            return at;
        }
        at += "data:".len();
    }
}

/// The place of a secret value. An object and `null` are none.
fn secret_at(text: &str, start: usize) -> Option<Range<usize>> {
    let end = match text.as_bytes().get(start)? {
        b'{' => return None,
        b'"' => string_end(text, start).0,
        b'[' => array_end(text, start),
        _ => {
            let is_end = |one: char| matches!(one, ',' | '}' | ']') || one.is_ascii_whitespace();
            text[start..].find(is_end).map_or(text.len(), |length| start + length)
        }
    };
    (start < end && &text[start..end] != "null").then_some(start..end)
}

/// Where the array that starts here ends; at the end of the text if it is cut.
fn array_end(text: &str, start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'"' => {
                at = string_end(text, at).0;
                continue;
            }
            b'[' => depth += 1,
            b']' if depth == 1 => return at + 1,
            b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// A string whose text has secrets, such as JSON in a text content, without them.
fn inside(literal: &str, is_closed: bool, depth: usize) -> Option<String> {
    if depth == DEEPEST || !literal.contains('\\') {
        return None;
    }
    let mut new = serde_json::to_string(&without_secrets(&unescaped(literal), depth + 1)?).ok()?;
    if !is_closed {
        new.pop();
    }
    Some(new)
}

/// The text of a string. Of one that is cut, an escape that is cut as well is left out.
fn unescaped(literal: &str) -> String {
    if !literal.contains('\\') {
        return literal.trim_matches('"').to_owned();
    }
    let readable = without_half_pairs(literal);
    if let Ok(text) = serde_json::from_str(&readable) {
        return text;
    }
    let mut rest = &*readable;
    for _ in 0..2 {
        if let Ok(text) = serde_json::from_str(&format!("{rest}\"")) {
            return text;
        }
        rest = &rest[..rest.rfind('\\').unwrap_or(rest.len())];
    }
    literal.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let (shown, was_replaced) = payload(text.as_bytes());
        assert_eq!((shown.as_str(), was_replaced), (expected.unwrap_or(text), expected.is_some()), "{text}");
    }

    #[test]
    fn secrets_are_replaced_and_everything_else_keeps_its_bytes() {
        check(r#"{ "path" : "/srv" , "max_tokens": 5, "_meta": {"progressToken":1}}"#, None);
        check(r#"{ "a" : [{"API-Key":"x1"}]}"#, Some(r#"{ "a" : [{"API-Key":"[redacted]"}]}"#));
        check(
            r#"{"token":{"id":1,"secret":7},"n":1}"#,
            Some(r#"{"token":{"id":1,"secret":"[redacted]"},"n":1}"#),
        );
        check(r#"{"clientSecret":["a","]",{"b":[]}],"n":1}"#, Some(r#"{"clientSecret":"[redacted]","n":1}"#));
        check(
            r#"{"pass\u0077ord":true,"token":null}"#,
            Some(r#"{"pass\u0077ord":"[redacted]","token":null}"#),
        );
        check(r#"{"note":"a \" and a token","b":"password"}"#, None);
        check("data: not json", None);
    }

    #[test]
    fn an_event_stream_has_no_secrets_in_any_of_its_messages() {
        check(
            ": it's \"here\nevent: message\ndata: {\"token\":\"a\"}\n\ndata: {\"n\":[{\"password\": \"b\"}]}\n\n",
            Some(
                ": it's \"here\nevent: message\ndata: {\"token\":\"[redacted]\"}\n\ndata: {\"n\":[{\"password\": \"[redacted]\"}]}\n\n",
            ),
        );
        check(
            "data: {\"token\":\r\ndata: \"a\"}\r\n\r\n",
            Some("data: {\"token\":\r\ndata: \"[redacted]\"}\r\n\r\n"),
        );
    }

    #[test]
    fn json_in_a_text_has_no_secrets_either() {
        check(
            r#"{"text":"got {\"password\":\"a\",\"n\":\"\\\"\"}","n":1}"#,
            Some(r#"{"text":"got {\"password\":\"[redacted]\",\"n\":\"\\\"\"}","n":1}"#),
        );
    }

    #[test]
    fn json_in_a_text_with_half_a_surrogate_pair_has_no_secrets_either() {
        check(
            r#"{"text":"\ud83d {\"password\":\"a\"}"}"#,
            Some(&format!(r#"{{"text":"{} {{\"password\":\"[redacted]\"}}"}}"#, '\u{fffd}')),
        );
        check(r#"{"\udc00token":"a"}"#, Some(r#"{"\udc00token":"[redacted]"}"#));
        let (shown, _) = payload(br#"{"text":"\ud83d {\"password\":\"SECRET\ud83"#);
        assert!(!shown.contains("SECRET"), "{shown}");
    }

    #[test]
    fn a_text_that_is_cut_anywhere_has_no_part_of_a_secret() {
        let inner = r#"{"token":"SECRET-2","n":"\u00e4\ud83d\ude00"}"#;
        let whole = serde_json::json!({ "a": 1, "text": inner }).to_string();
        let whole =
            format!(r#"{{"api_key":"SECRET-1","list":{whole},"cookies":["SECRET-3","x"],"last":"\\"}}"#);
        for end in 0..=whole.len() {
            let (shown, _) = payload(&whole.as_bytes()[..end]);
            assert!(!shown.contains('S'), "{shown}");
        }
        assert_eq!(payload(whole.as_bytes()).0.matches(REDACTED).count(), 3);
    }

    #[test]
    fn json_that_is_nested_too_deeply_for_a_parser_is_searched() {
        let text = format!(r#"{}{{"token":"a"}}"#, "[".repeat(10_000));
        assert!(payload(text.as_bytes()).1);
    }
}
