//! An outline says what a full parse of the same text says, however that is written.

use std::fmt;

use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::*;
use crate::Method;
use crate::modern::find_parts;

/// Keys as they may be written, with what they say.
const KEYS: [(&str, &str); 8] = [
    (r#""name""#, "name"),
    (r#""n\u0061me""#, "name"),
    (r#""arguments""#, "arguments"),
    (r#""_meta""#, "_meta"),
    (r#""""#, ""),
    (r#""é""#, "é"),
    (r#""a\"b""#, "a\"b"),
    (r#""io.modelcontextprotocol/clientCapabilities""#, "io.modelcontextprotocol/clientCapabilities"),
];

const VALUES: [&str; 10] = [
    "1",
    "-1.0e+400",
    "\"x\\\"y\\\\\"",
    "\"name\"",
    "null",
    "[ 1 , [\"]\"] ]",
    "{}",
    "{ \"name\" : \"}\" , \"_meta\":{}}",
    "{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"a\":[]}",
    "\"long enough that a wide search looks for its end, \\u0022 and after it\"",
];

const SPACES: [&str; 3] = ["", " ", "\r\n\t "];

/// All members, in order, as a parser reads them.
struct Parsed(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Parsed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parsed, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    members.push((key, value.get().to_owned()));
                }
                Ok(Parsed(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

fn outlined(text: &str) -> Params {
    let raw = Raw::parse(text.to_owned()).unwrap();
    find_parts(&Method::TOOLS_CALL, Some(&raw)).params
}

/// What an outline, a walk and a parser say of every key.
fn check(params: &Params) {
    let walked = Params::from(params.as_raw().clone());
    let Parsed(members) = params.read().unwrap();
    for (_, key) in KEYS.iter().chain(&[("", "none")]) {
        let found: Vec<_> = members.iter().filter(|(name, _)| name == key).map(|(_, value)| value).collect();
        for params in [params, &walked] {
            let text = |range: Range<usize>| params.slice(range).as_str().to_owned();
            let once = params.find_once(key).map(|range| range.map(text));
            let expected = if found.len() > 1 { Err(Twice) } else { Ok(found.first().copied().cloned()) };
            assert_eq!(once, expected, "{key:?} in {params:?}");
            assert_eq!(params.find(key).map(text).as_ref(), found.last().copied(), "{key:?} in {params:?}");
        }
        assert_eq!(params.at(&[key, "name"]), walked.as_raw().at(&[key, "name"]), "{key:?} in {params:?}");
    }
}

#[test]
fn what_is_usual_has_an_outline() {
    let has_outline = |text: &str| outlined(text).outline.is_some();
    assert!(has_outline(r#"{"name":"a","arguments":{"b":[1]},"_meta":{"c":{}},"task":{}}"#));
    assert!(has_outline("{}"));
    assert!(!has_outline(r#"{"n\u0061me":"a"}"#));
    assert!(!has_outline(r#"{"1":1,"2":2,"3":3,"4":4,"5":5,"6":6,"7":7}"#));
}

#[test]
fn deep_nesting_and_what_is_no_object_are_no_trouble() {
    check(&outlined(&format!(r#"{{"name":{}1{},"_meta":2}}"#, "[".repeat(120), "]".repeat(120))));
    for text in ["[1,2]", "[]", "7", "\"name\""] {
        assert_eq!(outlined(text).find("name"), None, "{text}");
    }
}

proptest! {
    #[test]
    fn an_outline_says_what_a_parser_says(
        members in prop::collection::vec((0..KEYS.len(), 0..VALUES.len(), 0..SPACES.len()), 0..9),
        new in 0..VALUES.len(),
    ) {
        let member = |(key, value, space): &(usize, usize, usize)| {
            let (key, value, space) = (KEYS[*key].0, VALUES[*value], SPACES[*space]);
            format!("{space}{key}{space}:{space}{value}{space}")
        };
        let text = format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","));
        let params = outlined(&text);
        check(&params);
        for (_, key) in KEYS {
            if let Some(range) = params.find(key) {
                let changed = params.replaced(range.clone(), VALUES[new].as_bytes());
                let expected = [&text[..range.start], VALUES[new], &text[range.end..]].concat();
                prop_assert_eq!(changed.as_str(), expected);
                check(&changed);
            }
        }
    }
}
