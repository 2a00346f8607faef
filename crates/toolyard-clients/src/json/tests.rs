//! What is put into any JSON file comes out without a trace, and nothing else is touched meanwhile.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn value(text: &str) -> Value {
    let plain = jsonc::plain(text);
    serde_json::from_str(plain.trim_start_matches('\u{feff}'))
        .unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn with(text: &str) -> String {
    Document::read(text).unwrap().with("mcpServers", "toolyard", &Entry::example()).unwrap()
}

fn without(text: &str) -> String {
    Document::read(text).unwrap().without("mcpServers", "toolyard").unwrap()
}

/// Every word of the entry is in one place, and the rest of the text around it.
fn check(before: &str, after: &str) {
    assert_eq!(with(before), after);
    assert_eq!(without(after), before);
}

const LINE: &str = r#"{ "type": "stdio", "command": "/bin/toolyard", "args": ["stdio"] }"#;

#[test]
fn an_entry_is_written_as_its_neighbours_are() {
    check(
        "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"a\" }\n  }\n}\n",
        "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"a\" },\n    \"toolyard\": {\n      \"type\": \"stdio\",\n      \
         \"command\": \"/bin/toolyard\",\n      \"args\": [\"stdio\"]\n    }\n  }\n}\n",
    );
    check(r#"{"mcpServers":{"a":1}}"#, &format!(r#"{{"mcpServers":{{"a":1, "toolyard": {LINE}}}}}"#));
    check(r#"{ "mcpServers": {} }"#, &format!(r#"{{ "mcpServers": {{ "toolyard": {LINE} }} }}"#));
    check(r#"{ "mcpServers": { } }"#, &format!(r#"{{ "mcpServers": {{"toolyard": {LINE} }} }}"#));
    check(
        "{}",
        "{\n  \"mcpServers\": {\n    \"toolyard\": {\n      \"type\": \"stdio\",\n      \"command\": \"/bin/toolyard\",\n      \
         \"args\": [\"stdio\"]\n    }\n  }\n}",
    );
}

#[test]
fn comments_trailing_commas_tabs_and_line_ends_stay() {
    check(
        "\u{feff}// top\r\n{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {}, // of a\r\n\t}, /* b */\r\n}\r\n",
        "\u{feff}// top\r\n{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {}, // of a\r\n\t\t\"toolyard\": {\r\n\t\t\t\"type\": \
         \"stdio\",\r\n\t\t\t\"command\": \"/bin/toolyard\",\r\n\t\t\t\"args\": [\"stdio\"]\r\n\t\t},\r\n\t}, /* b */\r\n}\r\n",
    );
    check(
        r#"{"mcpServers": {"a": 1 /* of a */ } }"#,
        &format!(r#"{{"mcpServers": {{"a": 1, /* of a */ "toolyard": {LINE} }} }}"#),
    );
    check(
        r#"{"mcpServers": {"a": 1 /*/ , */ } }"#,
        &format!(r#"{{"mcpServers": {{"a": 1, /*/ , */ "toolyard": {LINE} }} }}"#),
    );
}

#[test]
fn removing_an_entry_keeps_comments_and_what_follows() {
    let check = |before: &str, after: &str| {
        assert_eq!(without(before), after);
        value(after);
    };
    check(r#"{"mcpServers": {"toolyard": 1 /* c */, "b": 2}}"#, r#"{"mcpServers": { /* c */ "b": 2}}"#);
    check("{\"mcpServers\": {\"a\": 1, // c\n\"toolyard\": 1}}", "{\"mcpServers\": {\"a\": 1 // c\n}}");
    check(r#"{"mcpServers": {"a": 1, "toolyard": 1, "b": 2,}}"#, r#"{"mcpServers": {"a": 1, "b": 2,}}"#);
    check(r#"{"mcpServers": {"\u0074oolyard": 1}}"#, r#"{"mcpServers": {}}"#);
}

#[test]
fn another_entry_is_replaced_in_place() {
    let check = |before: &str, after: &str| {
        let got = Document::read(before).unwrap().with_replaced("mcpServers", "toolyard", &Entry::example());
        assert_eq!(got.unwrap(), after);
    };
    check(
        r#"{"mcpServers": {"toolyard": {"url": "x"} /* c */, "b": 2}}"#,
        &format!(r#"{{"mcpServers": {{"toolyard": {LINE} /* c */, "b": 2}}}}"#),
    );
}

/// Space and comments, as they may stand between any two tokens.
fn gap() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => Just(""),
        4 => Just(" "),
        2 => Just("\n  "),
        1 => Just("\r\n\t"),
        1 => Just("/* , } \" */"),
        1 => Just("/*/ , */"),
        1 => Just("// ] , { é\n"),
        1 => Just("//\r\n"),
    ];
    prop::collection::vec(piece, 0..3).prop_map(|pieces| pieces.concat())
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b//"), Just("c\\\"}"), Just("/*"), Just("é"), Just("mcpServer")]
        .prop_map(str::to_owned)
}

/// Members of an object, without its braces; the keys are made different by their number.
fn inside(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let member = (gap(), key(), gap(), gap(), value, gap());
    (prop::collection::vec(member, 0..4), any::<bool>(), gap()).prop_map(|(members, trails, end)| {
        let count = members.len();
        let members = members.into_iter().enumerate().map(|(number, (a, key, b, c, value, d))| {
            let comma = if number + 1 < count || trails { "," } else { "" };
            format!("{a}\"{key}{number}\"{b}:{c}{value}{d}{comma}")
        });
        members.chain([end]).collect::<String>()
    })
}

fn any_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("1"),
        Just("-2.50e3"),
        Just("null"),
        Just("\"x // y\""),
        Just("\"\\\"}\""),
        Just("{}"),
        Just("[]")
    ];
    leaf.prop_map(str::to_owned).prop_recursive(3, 12, 3, |inner| {
        let list = (prop::collection::vec(inner.clone(), 1..3), gap())
            .prop_map(|(items, gap)| format!("[{gap}{}]", items.join(&format!("{gap},"))));
        prop_oneof![inside(inner).prop_map(|inside| format!("{{{inside}}}")), list]
    })
}

/// A file with the section or without it, before or after whatever else there is.
fn file() -> impl Strategy<Value = String> {
    let section = (gap(), gap(), inside(any_value()), gap());
    let section = section.prop_map(|(a, b, inside, c)| format!("{a}\"mcpServers\"{b}: {{{inside}}}{c}"));
    let place = prop_oneof![Just(0), Just(1), Just(2)];
    (any::<bool>(), gap(), inside(any_value()), section, place, gap()).prop_map(
        |(mark, start, rest, section, place, end)| {
            let is_empty = value(&format!("{{{rest}}}")) == json!({});
            let root = match place {
                0 => rest,
                1 if is_empty => format!("{section}{rest}"),
                1 => format!("{section},{rest}"),
                _ => section,
            };
            format!("{}{start}{{{root}}}{end}", if mark { "\u{feff}" } else { "" })
        },
    )
}

proptest! {
    #[test]
    fn uninstall_restores_any_json_file(text in file()) {
        let before = value(&text);
        let after = with(&text);
        let mut expected = before.clone();
        let entry: Value = value(&format!("{{{}}}", LINE.trim_matches(['{', '}'])));
        expected.as_object_mut().unwrap().entry("mcpServers").or_insert(json!({}))["toolyard"] = entry;
        prop_assert_eq!(value(&after), expected, "{}", after);
        prop_assert_eq!(without(&after), text);
    }

    #[test]
    fn whichever_entry_is_taken_out_nothing_else_goes(text in file(), number in 0..4_usize) {
        let before = value(&text);
        let Some(servers) = before.get("mcpServers").and_then(Value::as_object) else { return Ok(()) };
        let Some(name) = servers.keys().nth(number) else { return Ok(()) };
        let after = Document::read(&text).unwrap().without("mcpServers", name).unwrap();
        let mut expected = before.clone();
        expected["mcpServers"].as_object_mut().unwrap().remove(name);
        let mut got = value(&after);
        // Where it was the only one over several lines, the section goes, too.
        if servers.len() == 1 {
            got.as_object_mut().unwrap().entry("mcpServers").or_insert(json!({}));
        }
        prop_assert_eq!(got, expected, "{}", after);
        let comments = |text: &str| text.matches("/* , } \" */").count() + text.matches("// ] ,").count();
        let document = Document::read(&text).unwrap();
        let section = Object::at(&document.plain, document.root.member("mcpServers").unwrap().1.value.clone());
        let entry = section.unwrap().member(name).map(|(_, entry)| entry.key.start..entry.value.end).unwrap();
        if value(&after).get("mcpServers").is_some() {
            prop_assert_eq!(comments(&after) + comments(&text[entry]), comments(&text), "{}", after);
        }
    }
}
