//! JSON in which no object has a key twice. What rules decide about must not be read differently by the tool that
//! receives it, and parsers disagree about which of two equal keys counts.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A value without duplicate keys.
#[derive(Debug)]
pub struct Unique(pub Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without duplicate keys")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        // Different integers beyond this have one value here, but a server may tell them apart.
        if number.fract() == 0.0 && number.abs() > 9_007_199_254_740_992.0 {
            return Err(E::custom("a number that is not exact"));
        }
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("a number out of range"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some((key, Unique(member))) = members.next_entry::<String, Unique>()? {
            if all.insert(key, member).is_some() {
                return Err(A::Error::custom("a duplicate key"));
            }
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_are_found_at_every_depth() {
        let text = r#"{"a":[1,-2,2.5,"x",null,true,{"b":{}}]}"#;
        let read: Unique = serde_json::from_str(text).unwrap();
        assert_eq!(read.0, serde_json::from_str::<Value>(text).unwrap());
        for text in [r#"{"a":1,"a":2}"#, r#"{"a":[{"b":1,"\u0062":2}]}"#] {
            assert!(serde_json::from_str::<Unique>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn integers_that_a_rule_would_not_see_exactly_are_refused() {
        for text in ["18446744073709551616", "1e17", "-1e300", r#"{"a":[123456789012345678901]}"#] {
            assert!(serde_json::from_str::<Unique>(text).is_err(), "{text}");
        }
        for text in ["18446744073709551615", "-9223372036854775808", "9007199254740993", "1e15", "0.1"] {
            let Unique(read) = serde_json::from_str(text).unwrap();
            assert_eq!(read, serde_json::from_str::<Value>(text).unwrap());
        }
    }
}
