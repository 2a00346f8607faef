//! An outline finds what a full parse of the same text finds, however that is written.

use std::fmt;

use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::*;
use crate::{Incoming, Message};

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

/// Parameters as they are once the message around them has been read.
fn arrived(text: &str) -> Params {
    let message = format!(r#"{{"jsonrpc":"2.0","id":1,"params":{text} ,"method":"tools/call"}}"#);
    let Ok(Incoming::One(Message::Request(message))) = Incoming::parse(&message.into()) else {
        panic!("it is a request")
    };
    message.params.unwrap()
}

/// What an outline, a walk and a parser say of every key.
fn check(params: &Params) {
    if let Some(outline) = &params.outline {
        assert_eq!(Some(&**outline), Outline::walk(params.as_bytes()).as_ref(), "{params:?}");
    }
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
fn what_arrives_has_an_outline() {
    let has_outline = |text: &str| arrived(text).outline.is_some();
    assert!(has_outline(r#"{"name":"a","arguments":{"b":[1]},"_meta":{"c":{}},"task":{}}"#));
    assert!(has_outline("{\n  \"n\\u0061me\" : 7 }"));
    assert!(has_outline("{}"));
}

#[test]
fn another_meta_is_not_known_by_the_outline_of_the_old_one() {
    let params = arrived(r#"{"_meta":{},"name":"a"}"#);
    let changed = params.replaced(9..11, br#"{"a":1}"#);
    assert_eq!(changed.as_str(), r#"{"_meta":{"a":1},"name":"a"}"#);
    assert_eq!(of_meta(&changed.outlined()), (1, vec!["a".to_owned()]));
}

/// How many `_meta` there are, and the keys in the last.
fn of_meta(params: &Params) -> (usize, Vec<String>) {
    let mut keys = Vec::new();
    let each = |member: &Member| {
        keys.push(String::from_utf8(member.key.text(params.as_bytes()).into_owned()).unwrap());
    };
    (params.each_of_meta(each), keys)
}

#[test]
fn members_beyond_the_limit_of_an_outline_are_found() {
    let many = |count: usize| r#""k":0,"#.repeat(count);
    for (count, has_outline) in [(MOST - 2, true), (MOST - 1, false), (100_000, false)] {
        for text in [
            format!(r#"{{{}"name":"a","_meta":{{"x":1}}}}"#, many(count)),
            format!(r#"{{"_meta":{{{}"y":1,"z":2}},"name":"a"}}"#, many(count)),
        ] {
            let params = arrived(&text);
            assert_eq!(params.outline.is_some(), has_outline, "{count}");
            assert_eq!(params.clone().outlined().outline.is_some(), has_outline, "{count}");
            assert_eq!(params.member("name").unwrap().as_str(), r#""a""#);
            let (metas, keys) = of_meta(&params);
            assert_eq!((metas, keys.len()), (1, if text.starts_with(r#"{"_meta"#) { count + 2 } else { 1 }));
        }
    }
}

#[test]
fn deep_nesting_and_params_that_are_not_objects_are_accepted() {
    check(&arrived(&format!(r#"{{"name":{}1{},"_meta":2}}"#, "[".repeat(120), "]".repeat(120))));
    for text in ["[1,2]", "[]", "[{\"name\":1}]"] {
        assert_eq!(arrived(text).find("name"), None, "{text}");
    }
}

proptest! {
    #[test]
    fn an_outline_agrees_with_a_parser(
        members in prop::collection::vec((0..KEYS.len(), 0..VALUES.len(), 0..SPACES.len()), 0..9),
        new in 0..VALUES.len(),
    ) {
        let member = |(key, value, space): &(usize, usize, usize)| {
            let (key, value, space) = (KEYS[*key].0, VALUES[*value], SPACES[*space]);
            format!("{space}{key}{space}:{space}{value}{space}")
        };
        let text = format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","));
        let params = arrived(&text);
        check(&params);
        for (_, key) in KEYS {
            if let Some(range) = params.find(key) {
                let changed = params.clone().replaced(range.clone(), VALUES[new].as_bytes());
                let expected = [&text[..range.start], VALUES[new], &text[range.end..]].concat();
                prop_assert_eq!(changed.as_str(), expected);
                check(&changed);
            }
        }
    }
}
