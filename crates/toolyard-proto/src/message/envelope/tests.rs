//! The quick pass finds what `serde_json` finds.

use proptest::prelude::*;

use super::*;

/// The members that were found, in words.
fn describe(envelope: &Envelope<'_>) -> String {
    let Envelope { jsonrpc, id, method, params, result, error, .. } = envelope;
    let text = |text: &Option<Text<'_>>| text.as_ref().map(|text| text.0.clone().into_owned());
    format!("{:?} {id:?} {:?} {params:?} {result:?} {error:?}", text(jsonrpc), text(method))
}

/// Whether the quick pass read it.
fn check(text: &str) -> bool {
    let scanned = Envelope::scan(text);
    let read = serde_json::from_str::<Envelope<'_>>(text);
    if let Some(scanned) = &scanned {
        assert_eq!(describe(scanned), describe(&read.unwrap()), "{text}");
    }
    scanned.is_some()
}

#[test]
fn only_what_is_oddly_written_or_wrong_is_left_to_the_library() {
    assert!(check(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"b":[{}]}}"#));
    assert!(check("\n{\"id\" : null, \"result\":{}, \"more\":[1,\"\\u00e9\"], \"jsonrpc\":\"2.0\"}\n"));
    assert!(check(r#"{"id":"x","error":{"code":1},"params":null}"#));
    assert!(!check(r#"{"id":1,"id":2}"#));
    assert!(!check(r#"{"m\u0065thod":"a"}"#));
    assert!(!check(r#"{"method":"\u0061"}"#));
    assert!(!check(r#"{"method":null}"#));
    assert!(!check(r#"["2.0"]"#));
    assert!(!check(r#"{"id":1} x"#));
}

proptest! {
    #[test]
    fn both_ways_find_the_same(members in prop::collection::vec((0..9usize, 0..9usize), 0..7)) {
        let keys = ["jsonrpc", "id", "method", "params", "result", "error", "other", "m\\u0065thod", ""];
        let values = ["\"2.0\"", "1", "null", "{\"id\":7,\"_meta\":{\"a\":1}}", "[]", "\"\\n\"", "{ }", "tru", "\"é\""];
        let member = |(key, value): &(usize, usize)| format!("\"{}\" : {}", keys[*key], values[*value]);
        check(&format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(" ,")));
    }
}
