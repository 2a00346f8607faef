//! The checker against real schemas: the messages about wrong values, and that right ones pass.

mod across;
mod budget;
mod known;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::json;

use super::*;
use crate::clamp;

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[schemars(deny_unknown_fields)]
struct Search {
    /// What to look for.
    #[schemars(length(min = 1, max = 10))]
    query: String,
    #[schemars(range(min = 1, max = 50), transform = clamp)]
    limit: Option<u32>,
    #[schemars(range(min = -1.5))]
    score: f64,
    #[schemars(regex(pattern = "^[a-z]+$"))]
    word: Option<String>,
    order: Order,
    #[schemars(length(max = 2))]
    tags: Option<Vec<Tag>>,
    filter: Option<Filter>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[schemars(rename_all = "lowercase")]
enum Order {
    Newest,
    Oldest,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Tag {
    name: String,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[schemars(tag = "kind", rename_all = "lowercase")]
enum Filter {
    Year { year: u16 },
    Name { name: String },
}

fn check(value: &Value, expected: &str) {
    check_as::<Search>(value, expected);
}

fn check_as<T: JsonSchema>(value: &Value, expected: &str) {
    let checker = Checker::new(schema::input::<T>());
    let message = checker
        .check(value)
        .unwrap()
        .into_result()
        .map_or_else(|error| error.message().to_owned(), |()| "fine".into());
    assert_eq!(message, expected, "{value}");
}

#[test]
fn a_right_value_passes() {
    check(&json!({ "query": "a", "score": 0, "order": "newest" }), "fine");
    check(
        &json!({ "query": "a", "limit": null, "score": 1.5, "word": "ab", "order": "oldest",
                "tags": [{ "name": "x" }], "filter": { "kind": "year", "year": 1999 } }),
        "fine",
    );
}

#[test]
fn each_problem_is_described_in_words() {
    let with = |key: &str, value: Value| {
        let mut whole = json!({ "query": "a", "score": 0, "order": "newest" });
        whole[key] = value;
        whole
    };
    let wrong = |key: &str, value: Value, message: &str| {
        check(&with(key, value), &format!("The arguments are not valid: {message}."));
    };
    wrong("query", json!(7), "`query` must be a string, not 7");
    wrong("query", json!(""), "`query` must not be empty");
    wrong("query", json!("12345678901"), "`query` must have at most 10 characters, not 11");
    wrong("score", json!(-2), "`score` must be at least -1.5, not -2");
    wrong("word", json!("A1"), "`word` must match the pattern ^[a-z]+$, which \"A1\" does not");
    wrong(
        "order",
        json!("newset"),
        "`order` must be \"newest\" or \"oldest\", not \"newset\" (did you mean `newest`?)",
    );
    wrong("filter", json!({ "kind": "year" }), "`filter.year` is missing");
    wrong("filter", json!({ "kind": "yr" }), "`filter.kind` must be \"year\" or \"name\"");
    wrong("filter", json!({}), "`filter.kind` is missing; it must be \"year\" or \"name\"");
    wrong("filter", json!(7), "`filter` must be an object, not 7");
    wrong("querry", json!("a"), "`querry` is not known (did you mean `query`?)");
}

#[test]
fn one_answer_names_every_problem() {
    check(
        &json!({ "qery": "a", "limit": "5", "tags": [{}, { "name": 1 }, {}] }),
        "The arguments have 8 problems:\
         \n- `query` is missing (there is `qery` instead)\
         \n- `score` is missing\
         \n- `order` is missing\
         \n- `qery` is not known (did you mean `query`?)\
         \n- `limit` must be an integer or null, not \"5\"\
         \n- `tags` must have at most 2 items, not 3\
         \n- `tags[0].name` is missing\
         \n- `tags[1].name` must be a string, not 1",
    );
}

#[test]
fn a_clamped_number_is_moved_and_its_range_is_described() {
    let checker = Checker::new(schema::input::<Search>());
    let mut value = json!({ "limit": 1000 });
    checker.clamp(&mut value).unwrap();
    assert_eq!(value, json!({ "limit": 50 }));
    let mut value = json!({ "limit": 5.0, "score": 5.0 });
    checker.clamp(&mut value).unwrap();
    assert_eq!(value.to_string(), r#"{"limit":5,"score":5.0}"#);
    let mut value = json!({ "limit": 99.5 });
    checker.clamp(&mut value).unwrap();
    assert_eq!(value, json!({ "limit": 99.5 }), "a value that is not an integer is not made one");
    let limit = &checker.published()["properties"]["limit"];
    assert_eq!(limit["description"], "From 1 to 50; other values are moved to the nearest of these.");
    assert_eq!((limit.get("minimum"), limit.get("maximum"), limit.get(CLAMP)), (None, None, None));
}

#[test]
fn a_type_that_contains_itself_is_checked_all_the_way_down() {
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Tree {
        leaves: Vec<Tree>,
    }
    let checker = Checker::new(schema::input::<Tree>());
    let problems = checker.check(&json!({ "leaves": [{ "leaves": [{ "leaves": 3 }] }] })).unwrap();
    assert_eq!(
        problems.into_result().unwrap_err().message(),
        "The arguments are not valid: `leaves[0].leaves[0].leaves` must be an array, not 3."
    );
}

#[test]
fn a_map_may_have_numbers_or_patterns_for_keys() {
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Maps {
        counts: BTreeMap<u32, String>,
        shifts: HashMap<i8, Tag>,
        orders: HashMap<Order, u8>,
        any: BTreeMap<String, bool>,
    }
    let with = |key: &str, value: Value| {
        let mut whole = json!({ "counts": {}, "shifts": {}, "orders": {}, "any": {} });
        whole[key] = value;
        whole
    };
    let right = |key: &str, value: Value| check_as::<Maps>(&with(key, value), "fine");
    let wrong = |key: &str, value: Value, message: &str| {
        check_as::<Maps>(&with(key, value), &format!("The arguments are not valid: {message}."));
    };
    right("counts", json!({ "1": "a", "22": "b" }));
    right("shifts", json!({ "-1": { "name": "a" } }));
    right("orders", json!({ "newest": 1 }));
    right("any", json!({ "1": true, "x": false }));
    wrong("counts", json!({ "1": 1 }), "`counts.1` must be a string, not 1");
    wrong(
        "counts",
        json!({ "-1": "a" }),
        "`counts.-1` is not known: such a name must match the pattern ^\\d+$",
    );
    wrong("shifts", json!({ "-1": {} }), "`shifts.-1.name` is missing");
    wrong("orders", json!({ "newset": 1 }), "`orders.newset` is not known (did you mean `newest`?)");
    wrong("any", json!({ "x": 1 }), "`any.x` must be true or false, not 1");
}

#[test]
fn a_default_may_hold_what_looks_like_a_schema() {
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Settings {
        #[schemars(extend("default" = { "pattern": "(", "x-toolyard-clamp": true, "maximum": 3 }))]
        search: Option<Value>,
        pattern: String,
    }
    let checker = Checker::new(schema::input::<Settings>());
    let default = json!({ "pattern": "(", "x-toolyard-clamp": true, "maximum": 3 });
    assert_eq!(checker.published()["properties"]["search"]["default"], default);
    check_as::<Settings>(&json!({ "pattern": "(" }), "fine");
}

#[test]
fn numbers_are_clamped_wherever_they_are() {
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Page {
        #[schemars(range(min = 1, max = 50), transform = clamp)]
        limit: u32,
    }
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    #[schemars(tag = "kind", rename_all = "lowercase")]
    enum Step {
        By { page: Page },
        To { page: Page, at: f64 },
    }
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    #[schemars(untagged)]
    enum Either {
        Names { names: Vec<String> },
        Pages { names: Vec<u8>, page: Page },
    }
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Everything {
        page: Option<Page>,
        step: Option<Step>,
        either: Option<Either>,
        by_name: Option<BTreeMap<String, Page>>,
        by_number: Option<BTreeMap<u8, u8>>,
        pair: Option<(Page, f64, u8)>,
        #[schemars(flatten)]
        more: Page,
    }
    let checker = Checker::new(schema::input::<Everything>());
    let check = |value: Value, expected: &str| {
        let mut whole = value.clone();
        checker.clamp(&mut whole).unwrap();
        assert_eq!(whole.to_string(), expected, "{value}");
    };
    check(json!({ "page": { "limit": 1000 } }), r#"{"page":{"limit":50}}"#);
    check(json!({ "page": { "limit": 5.0 } }), r#"{"page":{"limit":5}}"#);
    check(json!({ "page": { "limit": 0, "x": 1.0 } }), r#"{"page":{"limit":1,"x":1.0}}"#);
    check(
        json!({ "step": { "kind": "to", "page": { "limit": 99 }, "at": 2.0 } }),
        r#"{"step":{"kind":"to","page":{"limit":50},"at":2.0}}"#,
    );
    check(
        json!({ "step": { "kind": "by", "page": { "limit": 0 } } }),
        r#"{"step":{"kind":"by","page":{"limit":1}}}"#,
    );
    check(
        json!({ "either": { "names": [1.0], "page": { "limit": 99 } } }),
        r#"{"either":{"names":[1],"page":{"limit":50}}}"#,
    );
    check(json!({ "either": { "names": [true], "page": 1.0 } }), r#"{"either":{"names":[true],"page":1.0}}"#);
    check(json!({ "by_name": { "a": { "limit": 99 } } }), r#"{"by_name":{"a":{"limit":50}}}"#);
    check(json!({ "by_number": { "1": 2.0 } }), r#"{"by_number":{"1":2}}"#);
    check(json!({ "pair": [{ "limit": 99 }, 1.0, 2.0] }), r#"{"pair":[{"limit":50},1.0,2]}"#);
    check(json!({ "limit": 99 }), r#"{"limit":50}"#);
}
