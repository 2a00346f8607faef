//! What is valid is kept; what is not is removed, with as little else as possible.

use jsonschema::validator_for;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

type Look = fn(&Raw) -> Sanitized;

fn raw(text: &str) -> Raw {
    Raw::parse(text.to_owned()).unwrap()
}

/// A definition, its sanitized form (`None` if it is left out), and the reported faults.
fn check(look: Look, text: &str, expected: Option<&str>, reported: &[&str]) {
    let sanitized = look(&raw(text));
    assert_eq!(sanitized.entry.as_ref().map(Raw::as_str), expected, "{text}");
    let faults: Vec<String> = sanitized
        .faults
        .iter()
        .map(|fault| match fault.without.as_str() {
            "" => fault.to_string(),
            without => format!("{without} < {fault}"),
        })
        .collect();
    assert_eq!(faults, reported, "{text}");
}

#[test]
fn what_is_valid_is_kept_to_the_byte() {
    let whole = r#"{ "name":"a" , "title":"A","description":"d","inputSchema":{"type":"object","properties":{"x":{"properties":{"y":true}}},"required":["x"],"additionalProperties":false,"$schema":"s"},
        "outputSchema":{"type":"array"},"annotations":{"title":"t","readOnlyHint":true,"own":null},"icons":[{"src":"data:,","sizes":["any"],"theme":"dark"}],"execution":{"taskSupport":"optional"},"_meta":{"a/b":1},"own":[null]}"#;
    check(tool, whole, Some(whole), &[]);
    let prompt_text = r#"{"name":"a","arguments":[{"name":"x","required":true,"more":1}]}"#;
    check(prompt, prompt_text, Some(prompt_text), &[]);
    let resource_text = r#"{"uri":"a:b","name":"a","size":1.5,"annotations":{"audience":["user"],"priority":1,"lastModified":"2026-07-28T00:00:00Z"}}"#;
    check(resource, resource_text, Some(resource_text), &[]);
    let template_text = r#"{"uriTemplate":"a:{b}","name":"a"}"#;
    check(template, template_text, Some(template_text), &[]);
}

#[test]
fn a_repeated_fault_is_reported_once() {
    let many = |wrong: &str| [wrong; 50].join(",");
    let text = format!(r#"{{"name":"a","inputSchema":{{"type":"object"}},{}}}"#, many(r#""title":1"#));
    let expected = r#"{"name":"a","inputSchema":{"type":"object"}}"#;
    check(tool, &text, Some(expected), &["title < `title` is not a text"]);
    let text = format!(r#"{{"name":"a","arguments":[{}]}}"#, many(r#"{"name":"x","title":1}"#));
    assert_eq!(prompt(&raw(&text)).faults.len(), MOST_FAULTS);
}

#[test]
fn a_schema_that_is_a_truth_value_is_written_as_the_object_that_means_the_same() {
    let check = |schema: &str, expected: &str| {
        let of = |schema: &str| format!(r#"{{"name":"a","inputSchema":{schema},"outputSchema":{schema}}}"#);
        check(tool, &of(schema), Some(&of(expected)), &[]);
    };
    check(
        r#"{"type":"object","properties":{"x":true, "y":false,"z":{}}}"#,
        r#"{"type":"object","properties":{"x":{}, "y":{"not":{}},"z":{}}}"#,
    );
    // No client is known to reject them elsewhere.
    let deep =
        r#"{"type":"object","properties":{"x":{"items":true}},"additionalProperties":true,"anyOf":[true]}"#;
    check(deep, deep);
}

#[test]
fn an_input_schema_is_one_of_an_object() {
    check(
        tool,
        r#"{"name":"a","inputSchema":{}}"#,
        Some(r#"{"name":"a","inputSchema":{"type":"object"}}"#),
        &[],
    );
    let no_type = r#"{"name":"a","inputSchema":{"type":null,"x":1}}"#;
    check(tool, no_type, Some(r#"{"name":"a","inputSchema":{"x":1,"type":"object"}}"#), &[]);
}

#[test]
fn an_entry_that_lacks_what_it_needs_is_removed() {
    let goes = |look: Look, text: &str, reported: &str| check(look, text, None, &[reported]);
    goes(tool, r#"{"name":"a"}"#, "`inputSchema` is missing");
    goes(tool, r#"{"inputSchema":{}}"#, "`name` is missing");
    goes(tool, r#"{"name":1,"inputSchema":{}}"#, "`name` is not a text");
    goes(tool, r#"{"name":"a","inputSchema":null}"#, "`inputSchema` is not an object");
    goes(tool, r#"{"name":"a","inputSchema":true}"#, "`inputSchema` is not an object");
    goes(tool, r#"{"name":"a","inputSchema":{"type":"string"}}"#, "`inputSchema.type` is not `object`");
    goes(tool, r#"{"name":"a","inputSchema":{"type":["object"]}}"#, "`inputSchema.type` is not `object`");
    goes(
        tool,
        r#"{"name":"a","inputSchema":{"properties":{"x":null}}}"#,
        "`inputSchema.properties.x` is not a schema",
    );
    goes(
        tool,
        r#"{"name":"a","inputSchema":{"required":["x",1]}}"#,
        "`inputSchema.required[1]` is not a text",
    );
    goes(tool, "7", "it is not an object");
    goes(prompt, "{}", "`name` is missing");
    goes(resource, r#"{"name":"a"}"#, "`uri` is missing");
    goes(template, r#"{"uriTemplate":"a:b"}"#, "`name` is missing");
    // For a client, the second one may count.
    goes(tool, r#"{"name":"a","inputSchema":{},"inputSchema":1}"#, "`inputSchema` is not an object");
}

#[test]
fn a_member_that_an_entry_can_do_without_is_removed_alone() {
    let loses = |member: &str, reported: &str| {
        let text = format!(r#"{{"name":"a","inputSchema":{{"type":"object"}},{member}}}"#);
        check(tool, &text, Some(r#"{"name":"a","inputSchema":{"type":"object"}}"#), &[reported]);
    };
    loses(r#""description":1"#, "description < `description` is not a text");
    loses(r#""annotations":"x""#, "annotations < `annotations` is not an object");
    loses(r#""icons":[{"src":"a:"},{}]"#, "icons < `icons[1].src` is missing");
    loses(r#""outputSchema":true"#, "outputSchema < `outputSchema` is not an object");
    loses(r#""outputSchema":{"required":"x"}"#, "outputSchema < `outputSchema.required` is not a list");
    let text = r#"{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes","title":"t"},"icons":[{"src":"a:","theme":"blue"}]}"#;
    let left =
        r#"{"name":"a","inputSchema":{"type":"object"},"annotations":{"title":"t"},"icons":[{"src":"a:"}]}"#;
    let reported = [
        "annotations.readOnlyHint < `annotations.readOnlyHint` is not true or false",
        "icons[0].theme < `icons[0].theme` is not `light` or `dark`",
    ];
    check(tool, text, Some(left), &reported);
}

#[test]
fn an_invalid_annotation_of_a_resource_is_removed_alone() {
    let loses = |annotation: &str, reported: &str| {
        let text = format!(r#"{{"uri":"a:b","name":"a","annotations":{{{annotation}}}}}"#);
        check(resource, &text, Some(r#"{"uri":"a:b","name":"a","annotations":{}}"#), &[reported]);
    };
    let of = |name: &str, is_not: &str| format!("annotations.{name} < `annotations.{name}` {is_not}");
    loses(r#""priority":5"#, &of("priority", "is not a number from 0 to 1"));
    loses(r#""priority":"high""#, &of("priority", "is not a number from 0 to 1"));
    let moment = of("lastModified", "is not a time such as `2026-07-28T00:00:00Z`");
    loses(r#""lastModified":"2026-07-28""#, &moment);
    loses(r#""lastModified":1"#, &moment);
    let reported = "annotations.audience < `annotations.audience[1]` is not `user` or `assistant`";
    loses(r#""audience":["user","everyone"]"#, reported);
}

#[test]
fn a_member_that_is_null_is_removed_without_a_report() {
    let text = r#"{"name":"a","title":null,"inputSchema":{"type":"object","properties":null,"required":null},"outputSchema":null,"annotations":{"title":null},"_meta":null}"#;
    check(tool, text, Some(r#"{"name":"a","inputSchema":{"type":"object"},"annotations":{}}"#), &[]);
    let text = r#"{"name":"a","arguments":[{"name":"x","description":null}],"icons":null}"#;
    check(prompt, text, Some(r#"{"name":"a","arguments":[{"name":"x"}]}"#), &[]);
}

#[test]
fn a_servers_own_names_are_repeated_on_one_line_and_shortened() {
    let text =
        json!({ "name": "a", "inputSchema": { "properties": { format!("\n{}", "x".repeat(500)): 1 } } });
    let reported = tool(&text.into()).faults[0].to_string();
    assert!(reported.starts_with(r"`inputSchema.properties.\nxxx") && reported.len() < 150, "{reported}");
}

/// A schema, or a truth value in its place.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        Just(json!({})),
        Just(json!({ "type": "string" })),
        Just(json!({ "type": "integer", "minimum": 1 })),
        Just(json!({ "enum": ["a", null, true] })),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            objects(inner.clone()),
            inner.clone().prop_map(|items| json!({ "type": "array", "items": items })),
            prop::collection::vec(inner, 1..3).prop_map(|any| json!({ "anyOf": any })),
        ]
    })
}

fn objects(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let required = prop::sample::subsequence(vec!["a", "b", "c"], 0..3);
    (prop::collection::btree_map("[abc]", inner, 0..4), required, any::<Option<bool>>()).prop_map(
        |(properties, required, more)| {
            let mut schema = json!({ "type": "object", "properties": properties, "required": required });
            if let Some(more) = more {
                schema["unevaluatedProperties"] = json!(more);
            }
            schema
        },
    )
}

fn instances() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..4i64).prop_map(Value::from),
        "[ab]?".prop_map(Value::from)
    ];
    let any = leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abcd]", inner, 0..4)
                .prop_map(|members| Value::Object(Map::from_iter(members))),
        ]
    });
    prop_oneof![
        1 => any.clone(),
        4 => prop::collection::btree_map("[abcd]", any, 0..4).prop_map(|members| Value::Object(Map::from_iter(members))),
    ]
}

proptest! {
    #[test]
    fn a_schema_accepts_and_refuses_what_it_did(
        schema in objects(schemas()),
        instances in prop::collection::vec(instances(), 1..12),
    ) {
        let definition: Raw = json!({ "name": "a", "inputSchema": schema }).into();
        let sanitized = tool(&definition).entry.unwrap().read::<Value>().unwrap();
        let (before, after) = (validator_for(&schema).unwrap(), validator_for(&sanitized["inputSchema"]).unwrap());
        for instance in instances {
            prop_assert_eq!(before.is_valid(&instance), after.is_valid(&instance), "{} {}", schema, instance);
        }
        for property in sanitized["inputSchema"]["properties"].as_object().unwrap().values() {
            prop_assert!(property.is_object());
        }
    }

    #[test]
    fn everything_but_truth_values_stays_to_the_byte(schema in objects(schemas())) {
        let definition: Raw = json!({ "name": "a", "inputSchema": schema }).into();
        let sanitized = tool(&definition).entry.unwrap();
        let mut expected = schema.clone();
        for property in expected["properties"].as_object_mut().unwrap().values_mut() {
            match property {
                Value::Bool(true) => *property = json!({}),
                Value::Bool(false) => *property = json!({ "not": {} }),
                _ => {}
            }
        }
        let expected: Raw = json!({ "name": "a", "inputSchema": expected }).into();
        prop_assert_eq!(sanitized.as_str(), expected.as_str());
        // What fits, fits.
        prop_assert_eq!(tool(&sanitized).entry.unwrap(), sanitized);
    }

    #[test]
    fn any_definition_is_valid_after_sanitizing_or_is_left_out(
        mut members in prop::collection::btree_map(
            prop::sample::select(vec!["title", "inputSchema", "outputSchema", "annotations", "icons", "_meta", "own"]),
            instances(), 0..6),
    ) {
        members.insert("name", json!("a"));
        let sanitized = tool(&json!(members).into());
        let Some(entry) = sanitized.entry else { return Ok(()) };
        let again = tool(&entry);
        prop_assert_eq!(again.entry.unwrap(), entry);
        prop_assert!(again.faults.is_empty());
    }
}

#[test]
fn a_tool_with_an_invalid_header_annotation_is_unusable() {
    let tool_with = |schema: Value| Raw::from(json!({ "name": "a", "inputSchema": schema }));
    let of = |properties: Value| tool_with(json!({ "type": "object", "properties": properties }));
    let marked = |kind: &str, name: Value| json!({ "type": kind, "x-mcp-header": name });
    for right in [
        of(json!({ "x": marked("string", json!("X")), "y": marked("integer", json!("Y-1")) })),
        of(json!({ "x": { "properties": { "y": marked("boolean", json!("X")) } } })),
        of(json!({ "x": { "type": ["string", "null"], "x-mcp-header": "X" } })),
        of(json!({ "x-mcp-header": { "type": "array", "items": { "type": "string" } } })),
        of(json!({ "x": { "default": { "x-mcp-header": "" } } })),
    ] {
        let sanitized = tool(&right);
        assert!(!sanitized.is_unusable && sanitized.entry.is_some(), "{right:?}: {:?}", sanitized.faults);
    }
    for (wrong, reason) in [
        (of(json!({ "x": marked("string", json!("")) })), "is not a header name"),
        (of(json!({ "x": marked("string", json!("a b")) })), "is not a header name"),
        (of(json!({ "x": marked("string", json!(1)) })), "is not a header name"),
        (of(json!({ "x": marked("number", json!("X")) })), "is not a string, an integer or a boolean"),
        (
            of(json!({ "x": { "anyOf": [], "x-mcp-header": "X" } })),
            "is not a string, an integer or a boolean",
        ),
        (of(json!({ "x": { "items": marked("string", json!("X")) } })), "cannot be found"),
        (of(json!({ "x": { "anyOf": [marked("string", json!("X"))] } })), "cannot be found"),
        (tool_with(json!({ "type": "object", "x-mcp-header": "X" })), "cannot be found"),
        (
            of(json!({ "x": marked("string", json!("X")), "y": marked("string", json!("x")) })),
            "the same `x-mcp-header` as another parameter",
        ),
    ] {
        let sanitized = tool(&wrong);
        let faults: Vec<String> = sanitized.faults.iter().map(DefinitionFault::to_string).collect();
        assert!(
            sanitized.is_unusable && sanitized.entry.is_none() && faults[0].contains(reason),
            "{wrong:?}: {faults:?}"
        );
    }
}

#[test]
fn a_definition_that_nests_too_deeply_is_unusable() {
    let nested = |depth: usize| {
        let schema = format!("{}{}", r#"{"items":"#.repeat(depth), "{}".to_owned() + &"}".repeat(depth));
        raw(&format!(r#"{{"name":"a","inputSchema":{{"type":"object","properties":{{"x":{schema}}}}}}}"#))
    };
    assert!(!tool(&nested(100)).is_unusable);
    let sanitized = tool(&nested(995));
    assert!(sanitized.is_unusable && sanitized.entry.is_none());
    assert_eq!(sanitized.faults[0].to_string(), "it nests more than 128 levels deep");
}
