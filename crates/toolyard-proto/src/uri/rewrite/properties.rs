//! Property tests: in any answer, well-formed or not, nothing but its URIs changes.

use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::*;
use crate::uri::to_shown;

proptest! {
    #[test]
    fn taking_the_insertions_out_gives_the_answer_back((kind, raw) in answer()) {
        if let Some(mapped) = map_result(kind, &id(), raw.as_bytes()) {
            let mapped = String::from_utf8(mapped).unwrap();
            prop_assert!(is_json(mapped.as_bytes()), "{}", mapped);
            prop_assert_ne!(&mapped, &raw);
            prop_assert_eq!(mapped.replace("yard:Zq9/", "").replace("yard+", "").replace("Zq9/", ""), raw);
        }
    }

    #[test]
    fn the_mapping_agrees_with_one_on_parsed_values((kind, raw) in answer()) {
        // Numbers out of range and half surrogates are JSON, but no value.
        if let Ok(mut expected) = serde_json::from_str::<Value>(&raw) {
            map_value(ValuePlace::Root(kind), &mut expected);
            let mapped = map_result(kind, &id(), raw.as_bytes()).unwrap_or(raw.into_bytes());
            prop_assert_eq!(serde_json::from_slice::<Value>(&mapped).unwrap(), expected);
        }
    }

    #[test]
    fn a_damaged_answer_is_mapped_only_if_it_is_still_json(
        (kind, raw) in answer(),
        at in any::<prop::sample::Index>(),
        damage in prop_oneof![any::<u8>(), prop::sample::select(b"\"\\{}[],:0-.eu\n".to_vec())],
        cut in any::<bool>(),
    ) {
        let mut raw = raw.into_bytes();
        let at = at.index(raw.len());
        raw[at] = damage;
        raw.truncate(if cut { at + 1 } else { raw.len() });
        let was_read = std::str::from_utf8(&raw).is_ok_and(|text| find_uris(kind, text).is_some());
        prop_assert_eq!(was_read, is_json(&raw));
        if let Some(mapped) = map_result(kind, &id(), &raw) {
            prop_assert!(was_read && is_json(&mapped));
        }
    }

    #[test]
    fn garbage_is_left_alone((kind, _) in answer(), raw in any::<Vec<u8>>()) {
        prop_assert_eq!(map_result(kind, &id(), &raw), None);
    }
}

/// The same mapping in the plainest way: on the whole parsed value.
fn map_value(place: ValuePlace, value: &mut Value) {
    match (place, value) {
        (ValuePlace::Uri, Value::String(uri)) => *uri = to_shown(&id(), uri),
        (ValuePlace::AppUri, Value::String(uri)) if uri.starts_with("ui://") => *uri = to_shown(&id(), uri),
        (_, Value::Array(items)) => items.iter_mut().for_each(|item| map_value(place.item(), item)),
        (_, Value::Object(members)) => {
            let place = match (place, members.get("type").and_then(Value::as_str)) {
                (ValuePlace::Content | ValuePlace::Block, Some("resource_link")) => ValuePlace::Link,
                (ValuePlace::Content | ValuePlace::Block, Some("resource")) => ValuePlace::Embedded,
                _ => place,
            };
            members.iter_mut().for_each(|(key, value)| map_value(place.member(key), value));
        }
        _ => {}
    }
}

/// An answer of some kind, as JSON text with odd spacing, numbers, escapes and repeated keys.
fn answer() -> impl Strategy<Value = (ResultKind, String)> {
    let message = object("content", prop_oneof![block(), array(block())].boxed());
    let app = prop_oneof![object("ui", object("resourceUri", string())), object("ui/resourceUri", string())];
    prop_oneof![
        object("content", array(block())).prop_map(|raw| (ResultKind::ToolResult, raw)),
        object("messages", array(message)).prop_map(|raw| (ResultKind::PromptResult, raw)),
        object("contents", array(resource())).prop_map(|raw| (ResultKind::ReadResult, raw)),
        resource().prop_map(|raw| (ResultKind::ResourceEntry, raw)),
        resource().prop_map(|raw| (ResultKind::UpdatedParams, raw)),
        object("uriTemplate", string()).prop_map(|raw| (ResultKind::TemplateEntry, raw)),
        object("_meta", app.boxed()).prop_map(|raw| (ResultKind::ToolEntry, raw)),
    ]
}

fn block() -> BoxedStrategy<String> {
    let kinds = ["\"resource\"", "\"resource_link\"", "\"resource\\u005flink\"", "\"text\"", "1"];
    let kind = prop::sample::select(kinds.to_vec()).prop_map(|kind| format!("\"type\":{kind}"));
    let inside =
        prop_oneof![member("uri", string()), member("\\u0075ri", string()), member("resource", resource())];
    joined(vec![kind.boxed(), inside.boxed()])
}

fn resource() -> BoxedStrategy<String> {
    object("uri", string())
}

/// An object with this member, and others before and behind it.
fn object(key: &'static str, value: BoxedStrategy<String>) -> BoxedStrategy<String> {
    joined(vec![member(key, value)])
}

fn joined(wanted: Vec<BoxedStrategy<String>>) -> BoxedStrategy<String> {
    let others = prop::collection::vec(any_member(any_json()), 0..3);
    let members = (wanted, others).prop_map(|(wanted, others)| [wanted, others].concat());
    (members.prop_shuffle(), space())
        .prop_map(|(members, space)| format!("{{{space}{}}}", members.join(",")))
        .boxed()
}

fn array(item: BoxedStrategy<String>) -> BoxedStrategy<String> {
    (prop::collection::vec(item, 0..3), space())
        .prop_map(|(items, space)| format!("[{}{space}]", items.join(" ,")))
        .boxed()
}

fn member(key: &'static str, value: BoxedStrategy<String>) -> BoxedStrategy<String> {
    (space(), value).prop_map(move |(space, value)| format!("\"{key}\"{space}:{value}")).boxed()
}

fn any_member(value: BoxedStrategy<String>) -> BoxedStrategy<String> {
    let keys = [
        "content",
        "messages",
        "resource",
        "uri",
        "uriTemplate",
        "_meta",
        "ui",
        "resourceUri",
        "structuredContent",
        "type",
        "x",
        "\\ud800",
    ];
    prop::sample::select(keys.to_vec()).prop_flat_map(move |key| member(key, value.clone())).boxed()
}

fn any_json() -> BoxedStrategy<String> {
    let plain = ["0", "-0.0", "1E+2", "1e999", "12345678901234567890", "true", "null"];
    let leaf = prop_oneof![2 => string(), 1 => prop::sample::select(plain.to_vec()).prop_map(str::to_owned)];
    leaf.prop_recursive(3, 8, 3, |value| {
        let members = prop::collection::vec(any_member(value.clone()), 0..3);
        prop_oneof![array(value), members.prop_map(|members| format!("{{{}}}", members.join(",")))]
    })
    .boxed()
}

/// URIs in many spellings; none contains what is inserted.
fn string() -> BoxedStrategy<String> {
    let known = [
        "ui://a",
        "ui:b",
        "file:///c",
        "x:y",
        "",
        "rel",
        "resource_link",
        "\\u0066:\\/\\/z",
        "u\\u0069:/\\/",
        "a\\n:b",
        "{s}://t",
        "\\ud800:",
        "é:",
        "\\\"uri\\\":",
    ];
    let text =
        prop_oneof![4 => prop::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => "[a-x:/é]{0,8}"];
    text.prop_map(|text| format!("\"{text}\"")).boxed()
}

fn space() -> impl Strategy<Value = &'static str> + Clone {
    prop::sample::select(vec!["", "", " ", "\n\t"])
}

fn is_json(raw: &[u8]) -> bool {
    std::str::from_utf8(raw).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

fn id() -> UpstreamId {
    UpstreamId::parse("Zq9").unwrap()
}
