//! Supported conditions, and that everything which schemars writes by itself is supported.

use std::collections::{BTreeSet, HashSet};
use std::num::{NonZeroU16, NonZeroU64};
use std::panic::catch_unwind;
use std::time::{Duration, SystemTime};

use super::*;

#[test]
fn unsupported_conditions_are_refused_at_once() {
    let check = |schema: Value, expected: Option<&str>| {
        let made = catch_unwind(|| Checker::new(json!({ "properties": { "a": schema } })));
        let message = made.err().map(|panic| *panic.downcast::<String>().unwrap());
        assert_eq!(message.as_deref(), expected, "{schema}");
    };
    let cannot = |what: &str| {
        format!("{what} in a schema cannot be checked: express it differently, or with `check` and `rule`")
    };
    check(json!({ "unevaluatedItems": false }), Some(&cannot("`unevaluatedItems`")));
    check(json!({ "not": { "additionalItems": {} } }), Some(&cannot("`additionalItems`")));
    check(json!({ "dependentSchemas": { "a": { "dependencies": {} } } }), Some(&cannot("`dependencies`")));
    check(json!({ "items": [{}, {}] }), Some(&cannot("a list of `items`")));
    check(
        json!({ "if": { "unevaluatedProperties": false } }),
        Some(&cannot("`unevaluatedProperties` under `if`")),
    );
    check(json!({ "$ref": "#/$defs/b" }), Some("the reference `#/$defs/b` in a schema leads nowhere"));
    check(json!({ "default": { "unevaluatedItems": false }, "x-more": 1, "format": "date" }), None);
    check(json!({ "unevaluatedProperties": false, "title": "", "examples": [], "$comment": "" }), None);
    check(json!({ "deprecated": true, "contentEncoding": "base64", "readOnly": true, "$id": "a" }), None);
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Size {
    width: Option<u32>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
enum Outside {
    Plain,
    Number(u8),
    Size(Size),
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[schemars(deny_unknown_fields)]
struct Ordinary {
    map: HashMap<String, Option<BTreeMap<i8, Order>>>,
    sets: (HashSet<String>, BTreeSet<u8>),
    tuple: (u8, String, Option<bool>),
    three: [f64; 3],
    numbers: Option<(NonZeroU16, NonZeroU64, i128, u128, usize, char)>,
    wait: Option<Duration>,
    since: Option<SystemTime>,
    range: Option<std::ops::Range<u8>>,
    bound: Option<std::ops::Bound<u8>>,
    either: Option<Result<u8, String>>,
    outside: Option<Box<Outside>>,
    filter: Option<Vec<Filter>>,
    ip: Option<std::net::IpAddr>,
    path: Option<std::path::PathBuf>,
    any: Option<Value>,
    nothing: (),
    #[schemars(flatten)]
    kind: Filter,
    #[schemars(flatten)]
    size: Size,
    #[schemars(flatten)]
    more: HashMap<String, u8>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[schemars(deny_unknown_fields)]
struct Flattened {
    name: Option<String>,
    #[schemars(flatten)]
    kind: Filter,
    #[schemars(flatten)]
    size: Size,
}

#[test]
fn everything_that_schemars_writes_is_supported() {
    Checker::new(schema::input::<Ordinary>());
    let schema = schema::input::<Flattened>();
    assert_eq!(schema["unevaluatedProperties"], false, "otherwise this shows nothing");
    check_as::<Flattened>(&json!({ "kind": "year", "year": 1999, "width": 1 }), "fine");
    check_as::<Flattened>(&json!({ "kind": "year", "year": 1, "name": null, "width": null }), "fine");
}

#[test]
fn enums_keep_their_words() {
    let message = |value: Value, expected: &str| {
        check_as::<Holder>(&value, &format!("The arguments {expected}"));
    };
    message(json!({ "either": { "Ok": "a" } }), "are not valid: `either.Ok` must be an integer, not \"a\".");
    message(
        json!({ "outside": "Plein" }),
        "have 2 problems:\n- `outside` fits none of its 3 forms; for the closest of them:\
         \n- `outside` must be \"Plain\", not \"Plein\" (did you mean `Plain`?)",
    );
    message(
        json!({ "outside": { "Size": {}, "Number": 30 } }),
        "are not valid: `outside.Size` is not known.",
    );
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Holder {
    either: Option<Result<u8, String>>,
    outside: Option<Outside>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[schemars(rename = "50 % of Größe<T>")]
struct Inner {
    #[schemars(range(max = 1))]
    number: u8,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Outer {
    one: Inner,
    more: Option<Inner>,
}

#[test]
fn a_type_may_have_any_name() {
    let message = Checker::new(schema::input::<Outer>()).check(&json!({ "one": { "number": 2 } }));
    assert!(message.is_ok_and(|problems| !problems.is_empty()));
}
