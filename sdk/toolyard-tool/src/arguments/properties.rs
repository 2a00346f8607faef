//! What holds for any value: the schema that clients see, the check and serde agree.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroI8;

use proptest::prelude::*;
use serde_json::json;

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

/// Everything that fields can say about each other.
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
    fn what_clients_may_send_is_read_and_nothing_else(choices in prop::collection::vec(any::<u8>(), 0..120)) {
        check::<Scalars>(&choices);
        check::<Forms>(&choices);
        check::<Collections>(&choices);
        check_with::<Related>(&choices, without_nulls);
    }
}

fn check<A: Arguments + std::fmt::Debug>(choices: &[u8]) {
    check_with::<A>(choices, |_, value| value.clone());
}

/// Between fields the null of an optional one is nothing to us, and something to JSON Schema.
fn without_nulls(schema: &Value, value: &Value) -> Value {
    let is_field = |name: &str| schema["properties"].get(name).is_some();
    let mut value = value.clone();
    value.as_object_mut().unwrap().retain(|name, field| !field.is_null() || !is_field(name));
    value
}

/// `seen` is what the published schema is asked about.
fn check_with<A: Arguments + std::fmt::Debug>(choices: &[u8], seen: fn(&Value, &Value) -> Value) {
    let reader = Reader::<A>::new("t", None);
    let published = reader.published();
    let value = Maker { choices: choices.iter(), root: &published }.plain(&published);
    let is_welcome = jsonschema::is_valid(&published, &seen(&published, &value));
    let read = reader.read(Some(&Raw::from(value.clone())));
    assert_eq!(is_welcome, read.is_ok(), "{value}: {read:?}");
}

/// Makes values that fit a schema, or nearly: each choice is one byte, and when none is left it is the first.
struct Maker<'a> {
    choices: std::slice::Iter<'a, u8>,
    root: &'a Value,
}

impl<'a> Maker<'a> {
    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let choice = self.choices.next().copied().unwrap_or_default();
        from[usize::from(choice) % from.len()].clone()
    }

    fn is_one_in(&mut self, many: u8) -> bool {
        self.choices.next().is_some_and(|choice| choice % many == 1)
    }

    fn value(&mut self, schema: &'a Value) -> Value {
        if self.is_one_in(12) {
            return self.stray();
        }
        let mut made = self.plain(schema);
        let others = [schema["anyOf"].as_array(), schema["oneOf"].as_array()];
        let others = others.into_iter().flatten().map(|forms| self.pick(&forms.iter().collect::<Vec<_>>()));
        let others: Vec<&Value> = others.collect();
        let target = schema["$ref"].as_str().and_then(|name| self.root.pointer(&name[1..]));
        for other in others.into_iter().chain(target) {
            made = match (made, self.value(other)) {
                (Value::Object(fields), Value::Object(more)) => fields.into_iter().chain(more).collect(),
                (_, other) => other,
            };
        }
        made
    }

    fn plain(&mut self, schema: &'a Value) -> Value {
        if let Some(only) = schema.get("const") {
            return only.clone();
        }
        if let Some(choices) = schema["enum"].as_array() {
            return self.pick(choices);
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => self.pick(kinds),
            kind => kind.clone(),
        };
        match kind.as_str() {
            Some("integer") => self.pick(&integers()),
            Some("number") => self.pick(&[json!(0.5), json!(0), json!(1), json!(5.0), json!(1e300)]),
            Some("string") => self.pick(&["a", "abc", "", "abcd", "A", "é"]).into(),
            Some("boolean") => true.into(),
            Some("array") => self.array(schema),
            Some("object") => self.object(schema),
            Some(_) => Value::Null,
            None => self.stray(),
        }
    }

    fn array(&mut self, schema: &'a Value) -> Value {
        let first = schema["prefixItems"].as_array().map_or(&[][..], Vec::as_slice);
        let count = schema["minItems"].as_u64().unwrap_or_default() + self.pick(&[0, 0, 1, 2]);
        let item = |index: usize| first.get(index).unwrap_or(&schema["items"]);
        (0..usize::try_from(count).unwrap()).map(|index| self.value(item(index))).collect()
    }

    fn object(&mut self, schema: &'a Value) -> Value {
        let mut fields = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let is_required =
                schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
            if if is_required { !self.is_one_in(20) } else { self.is_one_in(3) } {
                fields.insert(name.clone(), self.value(property));
            }
        }
        let patterned = schema["patternProperties"].as_object().and_then(|all| all.values().next());
        let others = patterned.or(schema.get("additionalProperties")).unwrap_or(&Value::Null);
        if others.is_object() || self.is_one_in(20) {
            for _ in 0..self.pick(&[0, 1, 2]) {
                fields.insert(self.pick(&["1", "22", "-1", "x"]).into(), self.value(others));
            }
        }
        Value::Object(fields)
    }

    fn stray(&mut self) -> Value {
        let strays =
            [json!(null), json!(true), json!(7), json!(-1.5), json!("x"), json!([]), json!({}), json!([1])];
        let objects = [json!({ "kind": "by" }), json!({ "names": ["a"] }), json!({ "limit": 5.0 })];
        self.pick(&[&strays[..], &objects[..]].concat())
    }
}

/// Both sides of every limit, except those of 64 bits, which are not published.
fn integers() -> Vec<Value> {
    let limits = [1, 9, 50, 127, 255, 32_767, 65_535, 2_147_483_647, 4_294_967_295, 9_007_199_254_740_992];
    let below = [0, -128, -32_768, -2_147_483_648_i64];
    let whole = limits
        .iter()
        .flat_map(|limit| [*limit, limit + 1])
        .chain(below.iter().flat_map(|limit| [*limit, limit - 1]));
    let written = [json!(5.0), json!(1e18), json!(1.5), json!(-0.0), json!(255.0), json!(i64::MAX)];
    whole.map(Value::from).chain(written).collect()
}
