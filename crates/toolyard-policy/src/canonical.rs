//! Canonical JSON in the form of RFC 8785: equal values are equal bytes, so that definitions and arguments can be
//! compared and digested.

use std::fmt::Write as _;

use data_encoding::HEXLOWER;
use serde_json::{Number, Value};
use sha2::{Digest, Sha256};

/// Integers up to here are exact in every JSON implementation.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The canonical text of a value.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// SHA-256 of the canonical text, in hex.
pub fn digest(value: &Value) -> String {
    digest_of(canonical(value).as_bytes())
}

/// SHA-256 of these bytes, in hex.
pub fn digest_of(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null | Value::Bool(_) => {
            let _ = write!(out, "{value}");
        }
        Value::Number(number) => number_text(number, out),
        Value::String(text) => quoted(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            out.push('{');
            for (at, (key, member)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                quoted(key, out);
                out.push(':');
                write(member, out);
            }
            out.push('}');
        }
    }
}

/// `1.0` and `1` are the same number.
fn number_text(number: &Number, out: &mut String) {
    let whole = number.as_f64().filter(|_| number.is_f64()).filter(|n| n.fract() == 0.0 && n.abs() <= EXACT);
    let _ = match whole {
        Some(whole) => write!(out, "{}", whole + 0.0),
        None => write!(out, "{number}"),
    };
}

fn quoted(text: &str, out: &mut String) {
    let _ = write!(out, "{}", Value::from(text));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn order_space_and_the_form_of_numbers_do_not_count() {
        let one: Value =
            serde_json::from_str(r#"{ "b": [1.0, -0.0, 1e2], "a": {"y":"é\n","x":null} }"#).unwrap();
        let other: Value =
            serde_json::from_str(r#"{"a":{"x":null,"y":"\u00e9\u000a"},"b":[1,0,100]}"#).unwrap();
        assert_eq!(canonical(&one), r#"{"a":{"x":null,"y":"é\n"},"b":[1,0,100]}"#);
        assert_eq!(digest(&one), digest(&other));
    }

    #[test]
    fn different_values_have_different_digests() {
        let values = [json!({}), json!([]), json!("1"), json!(1), json!(1.5), json!(null), json!({ "a": 1 })];
        for (at, one) in values.iter().enumerate() {
            assert!(values[..at].iter().all(|other| digest(other) != digest(one)));
        }
    }
}
