//! The pass takes nothing that `serde_json` does not take, and refuses nothing but what nests very deeply.

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;

fn is_taken(text: &str) -> bool {
    let mut scan = Scan::new(text);
    scan.skip_space();
    scan.value().is_some() && scan.is_done()
}

fn check(text: &str) {
    assert_eq!(is_taken(text), serde_json::from_str::<&RawValue>(text).is_ok(), "{text:?}");
}

#[test]
fn it_is_as_strict_as_the_library() {
    for text in [
        "",
        " ",
        "nul",
        "null",
        "nulll",
        "true",
        "false",
        "True",
        "tru e",
        "0",
        "-0",
        "-",
        "--1",
        "+1",
        "01",
        "-01",
        "1.",
        ".1",
        "1.0",
        "1.e1",
        "1e",
        "1e+",
        "1E-1",
        "1e1.1",
        "1 2",
        "0x1",
        "NaN",
        "1e400",
        "12345678901234567890123",
        "\"",
        "\"\"",
        "\"a",
        "\"\\\"",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\uD800\"",
        "\"\\/\\b\\f\\n\\r\\t\"",
        "\"\u{1f}\"",
        "\"\n\"",
        "\"\u{7f}é\u{2028}\"",
        "'a'",
        "[",
        "]",
        "[]",
        "[ ]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[[],[]]",
        "{",
        "}",
        "{}",
        "{ }",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":1,\"a\":2}",
        "{\"\\u0061\":1}",
        "{\"a\" :\r\n\t1 }",
        "\u{c}1",
        "\u{feff}1",
        "1\u{0}",
        "/**/1",
        "[1]]",
        "{}{}",
    ] {
        check(text);
        check(&format!("{{\"a\":[{text}]}}"));
        check(&format!(" \n[\"long enough that a wide search is made\", {text} ] "));
    }
}

#[test]
fn deeply_nested_text_is_left_to_the_library() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(is_taken(&nested(DEEPEST)));
    assert!(!is_taken(&nested(DEEPEST + 1)));
}

/// Text that is nearly JSON.
fn nearly_json() -> impl Strategy<Value = String> {
    let parts = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"b\\n\"",
        "\\",
        "\\u00e9",
        "1",
        "-",
        "0",
        ".",
        "e",
        "E+",
        "true",
        "null",
        " ",
        "\n",
        "\u{1}",
        "é",
        "{\"a\":",
        "[1,",
        "\"long enough that a wide search is made\"",
    ];
    prop::collection::vec(prop::sample::select(parts.to_vec()), 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn nearly_json_is_judged_as_the_library_judges(text in nearly_json()) {
        check(&text);
        check(&format!("{{\"a\":[{text}]}}"));
        check(&format!("\"{text}\""));
    }

    #[test]
    fn one_wrong_byte_is_seen(
        at in any::<prop::sample::Index>(),
        byte in prop::sample::select(b"{}[],:\"\\0-.e\x01 n".to_vec()),
    ) {
        let mut bytes = br#"{"jsonrpc":"2.0","id":-10.5e3,"a":[true,null,{"\u00e9":"\n"}],"b":{}}"#.to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        check(std::str::from_utf8(&bytes).unwrap());
    }
}
