//! Relations between fields.

use super::*;

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[schemars(extend(
    "dependentRequired" = { "to": ["from"] },
    "dependentSchemas" = { "notes": { "required": ["date"] } },
    "not" = { "required": ["year", "date"] },
    "if" = { "properties": { "kind": { "const": "tape" } }, "required": ["kind"] },
    "then" = { "required": ["side"] },
    "else" = { "properties": { "side": { "maxLength": 1 } } },
    "minProperties" = 1,
))]
struct Related {
    from: Option<u32>,
    to: Option<u32>,
    year: Option<u32>,
    date: Option<String>,
    kind: Option<String>,
    side: Option<String>,
    #[schemars(extend("maxProperties" = 1))]
    notes: Option<BTreeMap<String, Option<String>>>,
}

fn check_related(value: &Value, expected: &str) {
    let wrong = format!("The arguments are not valid: {expected}.");
    check_as::<Related>(value, if expected == "fine" { expected } else { &wrong });
}

#[test]
fn relations_between_fields_are_checked() {
    let check = check_related;
    check(&json!({ "from": 1, "to": 2, "year": 3, "side": "A" }), "fine");
    check(&json!({ "kind": "tape", "side": "the second" }), "fine");
    check(&json!({ "to": 2 }), "`from` is missing: `to` needs it");
    check(&json!({ "year": 3, "date": "4" }), "`year` and `date` must not be given together");
    check(&json!({ "kind": "tape" }), "`side` is missing (because `kind` is \"tape\")");
    check(
        &json!({ "kind": "disc", "side": "AB" }),
        "`side` must have at most 1 character, not 2 (because `kind` is not \"tape\")",
    );
    check(&json!({}), "the whole must have at least 1 field, not 0");
    check(&json!({ "notes": { "a": "", "b": "" }, "date": "1" }), "`notes` must have at most 1 field, not 2");
    check(&json!({ "notes": {} }), "`date` is missing (because `notes` is given)");
}

#[test]
fn null_counts_as_absent_for_an_optional_field() {
    let check = check_related;
    check(&json!({ "from": null, "to": 5 }), "`from` is missing: `to` needs it");
    check(&json!({ "from": 1, "to": null }), "fine");
    check(&json!({ "year": 2001, "date": null }), "fine");
    check(&json!({ "year": 1, "notes": null }), "fine");
    check(&json!({ "kind": "tape", "side": null }), "`side` is missing (because `kind` is \"tape\")");
    check(&json!({ "year": null, "date": null }), "the whole must have at least 1 field, not 0");
    check(
        &json!({ "notes": { "a": null, "b": null }, "date": "1" }),
        "`notes` must have at most 1 field, not 2",
    );
}

#[test]
fn null_counts_as_given_for_a_required_field() {
    let checker = Checker::new(json!({
        "properties": { "a": { "type": ["string", "null"] } },
        "required": ["a"],
        "not": { "required": ["a"] },
    }));
    assert!(!checker.check(&json!({ "a": null })).unwrap().is_empty());
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[schemars(extend("oneOf" = [{ "required": ["path"] }, { "required": ["bytes"] }]))]
struct Picture {
    path: Option<String>,
    bytes: Option<String>,
    #[schemars(extend("oneOf" = [{ "multipleOf": 2 }, { "multipleOf": 3 }]))]
    number: Option<u32>,
    #[schemars(extend("contains" = { "const": "x" }, "maxContains" = 2))]
    tags: Option<Vec<String>>,
    #[schemars(extend("contains" = { "maxLength": 1 }, "minContains" = 2))]
    names: Option<Vec<String>>,
    #[schemars(extend("propertyNames" = { "maxLength": 2 }))]
    sizes: Option<BTreeMap<String, u32>>,
    inner: Option<Box<Picture>>,
}

#[test]
fn only_one_form_of_one_of_may_fit() {
    let check = |value: Value, expected: &str| {
        let wrong = format!("The arguments are not valid: {expected}.");
        check_as::<Picture>(&value, if expected == "fine" { expected } else { &wrong });
    };
    check(json!({ "path": "a" }), "fine");
    check(json!({ "path": "a", "bytes": null }), "fine");
    check(json!({ "path": "a", "bytes": "b" }), "give only one of `path` or `bytes`");
    check(json!({ "path": null }), "give one of `path` or `bytes`");
    check(json!({ "path": "a", "number": 4 }), "fine");
    check(json!({ "path": "a", "number": 6 }), "`number` fits two of its forms; it must fit only one");
    check(json!({ "path": "a", "inner": {} }), "`inner` must have one of `path` or `bytes`");
    check(
        json!({ "path": "a", "inner": { "path": "a", "bytes": "b" } }),
        "`inner` must have only one of `path` or `bytes`",
    );
}

#[test]
fn contains_and_property_names_are_checked() {
    let check = |name: &str, value: Value, expected: &str| {
        let wrong = format!("The arguments are not valid: {expected}.");
        let expected = if expected == "fine" { expected } else { &wrong };
        check_as::<Picture>(&json!({ "path": "a", name: value }), expected);
    };
    check("tags", json!(["a", "x"]), "fine");
    check("tags", json!(["a"]), "`tags` must hold at least 1 item that is \"x\", not 0");
    check("tags", json!(["x", "x", "x"]), "`tags` must hold at most 2 items that are \"x\", not 3");
    check("names", json!(["a", "b", "long"]), "fine");
    check("names", json!(["a"]), "`names` must hold at least 2 items that fit {\"maxLength\":1}, not 1");
    check("sizes", json!({ "a": 1 }), "fine");
    check("sizes", json!({ "abc": 1 }), "`sizes.abc` has a name that must have at most 2 characters, not 3");
}

#[test]
fn a_condition_may_ask_what_a_list_holds() {
    let checker = Checker::new(json!({
        "not": { "properties": { "tags": { "contains": { "const": "x" } } }, "required": ["tags"] },
    }));
    assert!(checker.check(&json!({ "tags": ["a"] })).unwrap().is_empty());
    assert!(!checker.check(&json!({ "tags": ["a", "x"] })).unwrap().is_empty());
}

#[test]
fn conditions_at_the_top_of_a_schema_are_described_in_words() {
    let published = Checker::new(schema::input::<Picture>()).published();
    assert_eq!(published["description"], "Give one of `path` or `bytes`, and only one.");
    assert_eq!(published.get("oneOf"), None);
    assert!(published["properties"]["number"].get("oneOf").is_some(), "further down it is accepted");
    let published = Checker::new(schema::input::<Related>()).published();
    assert_eq!(published["description"], "`year` and `date` must not be given together.");
    assert_eq!(published.get("not"), None);
    assert!(published.get("dependentRequired").is_some());
    let any = json!({ "description": "A.", "anyOf": [{ "required": ["a"] }, { "required": ["b", "c"] }] });
    let expected = json!({ "description": "A. Give at least one of `a` or `b` and `c`." });
    assert_eq!(Checker::new(any).published(), expected);
}

#[test]
fn a_condition_within_conditions_keeps_its_meaning() {
    let mut schema = json!({ "const": 1 });
    for depth in 1..=20 {
        schema = json!({ "not": schema });
        let fits_one = Checker::new(schema.clone()).check(&json!(1)).unwrap().is_empty();
        assert_eq!(fits_one, depth % 2 == 0, "{depth}");
    }
}
