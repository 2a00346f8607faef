//! Reading arguments: the short way and the long one, and numbers beyond their types.

use std::num::NonZeroI8;

use serde_json::json;

use super::*;

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Simple {
    text: String,
    number: Option<i64>,
    small: Option<u32>,
    #[serde(default)]
    flags: Vec<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Outer {
    #[expect(dead_code, reason = "only its schema matters")]
    inner: Option<Simple>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Bounded {
    #[schemars(range(max = 9))]
    #[expect(dead_code, reason = "only its schema matters")]
    number: i64,
}

#[test]
fn only_schemas_that_serde_checks_as_well_are_plain() {
    assert!(Reader::<Simple>::new("t", None).is_plain);
    assert!(!Reader::<Simple>::new("t", Some(|_, _| {})).is_plain);
    assert!(!Reader::<Outer>::new("t", None).is_plain);
    assert!(!Reader::<Bounded>::new("t", None).is_plain);
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Integers {
    byte: i8,
    small: u32,
    #[schemars(range(min = 1))]
    count: u32,
    large: i64,
    huge: u64,
    many: Vec<usize>,
    #[serde(default = "one")]
    odd: NonZeroI8,
    #[schemars(range(min = -5, max = 10_000_000_000_u64), transform = crate::clamp)]
    moved: i32,
}

fn one() -> NonZeroI8 {
    NonZeroI8::MIN
}

fn message_of(changes: &[(&str, &str)]) -> String {
    let mut fields = vec![
        ("byte", "1"),
        ("small", "1"),
        ("count", "1"),
        ("large", "1"),
        ("huge", "1"),
        ("many", "[]"),
        ("moved", "1"),
    ];
    for (name, value) in changes {
        fields.retain(|(known, _)| known != name);
        fields.push((name, value));
    }
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    let raw: Raw = serde_json::from_str(&format!("{{{}}}", fields.join(","))).unwrap();
    let read = Reader::<Integers>::new("t", None).read(Some(&raw));
    read.map_or_else(|error| error.message().to_owned(), |_| "fine".into())
}

#[test]
fn a_number_beyond_its_type_is_refused_with_its_name() {
    let check = |name: &str, value: &str, expected: &str| {
        let wrong = format!("The arguments are not valid: `{name}` must be {expected}, not {value}.");
        assert_eq!(message_of(&[(name, value)]), if expected == "fine" { expected.into() } else { wrong });
    };
    check("byte", "127", "fine");
    check("byte", "128", "at most 127");
    check("byte", "-129", "at least -128");
    check("small", "4294967295", "fine");
    check("small", "4294967296", "from 0 to 4294967295");
    check("small", "-1", "at least 0");
    check("count", "0", "at least 1");
    check("count", "5000000000", "from 1 to 4294967295");
    check("large", "9223372036854775807", "fine");
    check("large", "9223372036854775808", "at most 9223372036854775807");
    check("large", "-9223372036854775808.0", "fine");
    check("huge", "18446744073709551615", "fine");
    check("huge", "1e19", "fine");
    check("huge", "-1", "at least 0");
    check("odd", "-128", "fine");
    assert_eq!(message_of(&[("odd", "0.0")]), "The arguments are not valid: `odd` must not be 0.");
    check("moved", "99999999999", "fine");
    check("moved", "-99999999999", "fine");
    assert_eq!(
        message_of(&[("huge", "18446744073709551616"), ("small", "5000000000"), ("many", "[0, -1]")]),
        "The arguments have 3 problems:\
         \n- `huge` must be from 0 to 18446744073709551615, not 1.8446744073709552e+19\
         \n- `small` must be from 0 to 4294967295, not 5000000000\
         \n- `many[1]` must be at least 0, not -1"
    );
}

#[test]
fn limits_are_published_unless_they_are_out_of_reach() {
    let published = Reader::<Integers>::new("t", None).published();
    let expected = serde_json::json!({
        "byte": { "type": "integer", "minimum": -128, "maximum": 127 },
        "small": { "type": "integer", "minimum": 0, "maximum": u32::MAX },
        "count": { "type": "integer", "minimum": 1, "maximum": u32::MAX },
        "large": { "type": "integer" },
        "huge": { "type": "integer", "minimum": 0 },
        "many": { "type": "array", "items": { "type": "integer", "minimum": 0 } },
        "odd": { "type": "integer", "minimum": -128, "maximum": 127, "not": { "const": 0 }, "default": -128 },
        "moved": {
            "type": "integer",
            "description": "At least -5; other values are moved to the nearest of these.",
        },
    });
    assert_eq!(published["properties"], expected);
}

#[test]
fn the_fast_path_reads_the_same_as_the_full_check() {
    let short = Reader::<Simple>::new("t", None);
    let long = Reader { is_plain: false, ..Reader::<Simple>::new("t", None) };
    for arguments in [
        json!({ "text": "a" }),
        json!({ "text": "a", "number": 5, "flags": [true, false], "more": {} }),
        json!({ "text": "a", "number": 5.0 }),
        json!({ "text": "a", "number": null }),
        json!({ "text": "a", "number": 1.5 }),
        json!({ "text": "a", "number": 1e300 }),
        json!({ "text": "a", "small": 4_294_967_295_u32 }),
        json!({ "text": "a", "small": 4_294_967_296_u64 }),
        json!({ "text": "a", "small": -1 }),
        json!({ "text": "a", "small": 5.0 }),
        json!({ "text": 1, "flags": [1] }),
        json!({ "number": 5 }),
        json!(["a", 5, [true]]),
        json!("a"),
        json!(null),
    ] {
        let raw = Raw::from(arguments);
        assert_eq!(short.read(Some(&raw)), long.read(Some(&raw)), "{}", raw.as_str());
    }
    assert_eq!(short.read(None), long.read(None));
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Guests {
    host: Address,
    others: Option<Vec<Address>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Address {
    ip: std::net::Ipv4Addr,
}

#[test]
fn an_error_of_deserialization_names_its_field() {
    let check = |value: Value, expected: &str| {
        let reader = Reader::<Guests>::new("t", None);
        let raw = Raw::from(value.clone());
        let message_of = reader.read(Some(&raw)).unwrap_err().message().to_owned();
        let expected =
            format!("The arguments are not valid: {expected} cannot be read: invalid IPv4 address syntax.");
        assert_eq!(message_of, expected);
        let message_of: Vec<String> =
            reader.problems(value).into_wrongs().iter().map(ToString::to_string).collect();
        assert!(expected.contains(&message_of.join("")), "{message_of:?}");
    };
    check(json!({ "host": { "ip": "here" } }), "`host.ip`");
    let right = json!({ "ip": "127.0.0.1" });
    check(json!({ "host": right, "others": [right, { "ip": "there" }] }), "`others[1].ip`");
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its form matters")]
enum Node {
    One { next: Option<Box<Node>>, one: u8 },
    Two { next: Option<Box<Node>>, two: u8 },
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its form matters")]
struct Nodes {
    node: Node,
}

#[test]
fn arguments_that_exceed_the_budget_are_refused() {
    let reader = Reader::<Nodes>::new("t", None);
    let nodes = |levels: usize| {
        let node = (0..levels).fold(json!({ "two": 2 }), |inner, _| json!({ "two": 2, "next": inner }));
        json!({ "node": node })
    };
    assert!(reader.read(Some(&Raw::from(nodes(5)))).is_ok());
    let error = reader.read(Some(&Raw::from(nodes(100)))).unwrap_err();
    assert_eq!(error.message(), "The arguments can be read in too many ways to be checked.");
    let message_of: Vec<String> =
        reader.problems(nodes(100)).into_wrongs().iter().map(ToString::to_string).collect();
    assert_eq!(message_of, ["these can be read in too many ways to be checked: use fewer levels"]);
    assert!(reader.read_config(nodes(100)).is_err());
}
