//! Properties that hold for any value: the schema that clients see, the check and serde agree.

mod maker;

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroI8;

use maker::Maker;
use proptest::prelude::*;

use super::*;
use crate::clamp;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it is only read")]
struct Scalars {
    #[schemars(length(min = 1, max = 3), regex(pattern = "^[a-z]*$"))]
    text: String,
    letter: Option<char>,
    #[schemars(range(min = 1, max = 9))]
    few: u8,
    #[schemars(range(min = 1, max = 50), transform = clamp)]
    limit: i32,
    small: Option<u32>,
    large: Option<i64>,
    huge: Option<u64>,
    odd: Option<NonZeroI8>,
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    share: Option<f64>,
    #[schemars(extend("oneOf" = [{ "maximum": 9 }, { "minimum": 9 }]))]
    side: Option<u8>,
    #[serde(default)]
    flag: bool,
    order: Option<Order>,
    described: Option<Described>,
    any: Option<Value>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    Newest,
    Oldest,
}

#[derive(Debug, Deserialize, JsonSchema)]
enum Described {
    /// The one.
    One,
    /// The other.
    Two,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "it is only read")]
struct Page {
    #[schemars(range(min = 1, max = 50), transform = clamp)]
    limit: u32,
    from: Option<u8>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[expect(dead_code, reason = "it is only read")]
enum Tagged {
    By { page: Page },
    To(Page),
    Both { of: Vec<Tagged> },
    Nothing,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "it is only read")]
enum Outside {
    Plain,
    Number(u8),
    Page { page: Page },
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "t", content = "c")]
#[expect(dead_code, reason = "it is only read")]
enum Beside {
    Number(u16),
    Page(Page),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is only read")]
enum Either {
    Names { names: Vec<String> },
    Pages { names: Vec<u8>, page: Page },
    Number(u8),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "it is only read")]
struct Forms {
    page: Option<Page>,
    tagged: Option<Tagged>,
    outside: Option<Outside>,
    beside: Option<Beside>,
    either: Option<Either>,
    tree: Option<Box<Tree>>,
    #[serde(flatten)]
    more: Page,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "it is only read")]
struct Tree {
    number: i16,
    leaves: Vec<Tree>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "it is only read")]
struct Collections {
    #[serde(default)]
    #[schemars(length(max = 2), inner(length(max = 3)))]
    words: Vec<String>,
    #[serde(default)]
    pages: Vec<Option<Page>>,
    by_name: Option<BTreeMap<String, Page>>,
    by_number: Option<BTreeMap<u8, u8>>,
    by_order: Option<BTreeMap<i8, Order>>,
    three: Option<(Page, f64, u8)>,
    two: Option<[i8; 2]>,
    #[serde(default)]
    counts: Vec<u32>,
    #[serde(default)]
    steps: Vec<i32>,
    unique: Option<HashSet<u8>>,
}

/// All relations between fields.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend(
    "dependentRequired" = { "to": ["from"] },
    "dependentSchemas" = { "notes": { "required": ["kind"], "properties": { "to": { "maximum": 9 } } } },
    "not" = { "required": ["year", "date"] },
    "if" = { "properties": { "kind": { "enum": ["a", "abc"] } }, "required": ["kind"] },
    "then" = { "required": ["side"] },
    "else" = { "properties": { "side": { "maxLength": 1 } } },
    "oneOf" = [{ "required": ["path"] }, { "required": ["bytes"] }],
    "anyOf" = [{ "required": ["from"] }, { "required": ["tags"] }, { "maxProperties": 3 }],
    "allOf" = [{ "if": { "required": ["tags"] }, "then": { "not": { "required": ["bytes"] } } }],
    "minProperties" = 2,
    "maxProperties" = 8,
))]
#[expect(dead_code, reason = "it is only read")]
struct Related {
    from: Option<u8>,
    to: Option<u8>,
    year: Option<u32>,
    date: Option<String>,
    kind: Option<String>,
    side: Option<String>,
    path: Option<String>,
    bytes: Option<String>,
    #[schemars(extend("propertyNames" = { "maxLength": 1 }, "maxProperties" = 1))]
    notes: Option<BTreeMap<String, u8>>,
    #[schemars(extend("contains" = { "const": "a" }, "maxContains" = 1))]
    tags: Option<Vec<String>>,
}

proptest! {
    #[test]
    fn the_schema_and_serde_accept_the_same_values(choices in prop::collection::vec(any::<u8>(), 0..120)) {
        check::<Scalars>(&choices);
        check::<Forms>(&choices);
        check::<Collections>(&choices);
        check_with::<Related>(&choices, is_related);
    }
}

fn check<A: Arguments + std::fmt::Debug>(choices: &[u8]) {
    check_with::<A>(choices, |reader, value| jsonschema::is_valid(&reader.published(), value));
}

/// We treat the null of an optional field as absent; JSON Schema does not. And a condition that the published schema
/// only describes in words is not a condition for JSON Schema.
fn is_related<A: Arguments>(reader: &Reader<A>, value: &Value) -> bool {
    let schema = reader.checker.schema();
    let is_field = |name: &str| schema["properties"].get(name).is_some();
    let mut value = value.clone();
    value.as_object_mut().unwrap().retain(|name, field| !field.is_null() || !is_field(name));
    jsonschema::is_valid(schema, &value)
}

fn check_with<A: Arguments + std::fmt::Debug>(choices: &[u8], is_welcome: fn(&Reader<A>, &Value) -> bool) {
    let reader = Reader::<A>::new("t", None);
    let published = reader.published();
    let value = Maker::new(choices, &published).plain(&published);
    let read = reader.read(Some(&Raw::from(value.clone())));
    assert_eq!(is_welcome(&reader, &value), read.is_ok(), "{value}: {read:?}");
}
