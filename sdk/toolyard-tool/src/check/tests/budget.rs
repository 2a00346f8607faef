//! Values that would take hours to check without a budget.

use super::*;

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[schemars(untagged)]
enum Node {
    One { next: Option<Box<Node>>, one: u8 },
    Two { next: Option<Box<Node>>, two: u8 },
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Nodes {
    node: Node,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
#[schemars(extend("if" = { "properties": { "child": { "$ref": "#" } } }, "then" = { "maxProperties": 9 }))]
struct Parent {
    child: Option<Box<Parent>>,
    number: u8,
}

fn nested(levels: usize, name: &str, around: &Value) -> Value {
    (0..levels).fold(around.clone(), |inner, _| {
        let mut outer = around.clone();
        outer[name] = inner;
        outer
    })
}

#[test]
fn forms_that_share_a_field_are_checked_within_the_budget() {
    let checker = Checker::new(schema::input::<Nodes>());
    let nodes = |levels| json!({ "node": nested(levels, "next", &json!({ "two": 2 })) });
    assert!(checker.check(&nodes(5)).unwrap().is_empty());
    assert!(checker.clamp(&mut nodes(5)).is_ok());
    assert!(checker.check(&nodes(100)).is_err());
    assert!(checker.clamp(&mut nodes(100)).is_err());
}

#[test]
fn a_recursive_condition_is_checked_within_the_budget() {
    let checker = Checker::new(schema::input::<Parent>());
    let parents = |levels| nested(levels, "child", &json!({ "number": 1 }));
    assert!(checker.check(&parents(5)).unwrap().is_empty());
    assert!(checker.check(&parents(100)).is_err());
}

#[test]
fn many_simple_values_stay_within_the_budget() {
    let checker = Checker::new(schema::input::<Nodes>());
    let flat: serde_json::Map<_, _> = (0..50_000).map(|index| (format!("x{index}"), json!(index))).collect();
    let mut value = json!({ "node": { "two": 2, "next": { "one": 1 } }, "more": flat });
    assert!(checker.clamp(&mut value).is_ok());
    assert!(checker.check(&value).unwrap().is_empty());
    let checker = Checker::new(schema::input::<Tree>());
    let leaf = json!({ "leaves": [], "filter": { "kind": "name", "name": "a" } });
    let mut tree = json!({ "leaves": vec![leaf; 5_000], "filter": null });
    for _ in 0..30 {
        tree = json!({ "leaves": [tree], "filter": { "kind": "year", "year": 1 } });
    }
    assert!(checker.clamp(&mut tree).is_ok());
    assert!(checker.check(&tree).unwrap().is_empty());
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Tree {
    leaves: Vec<Tree>,
    filter: Option<Filter>,
}

#[test]
fn circular_conditions_are_checked_within_the_budget() {
    let schema = json!({ "if": { "$ref": "#" }, "then": { "$ref": "#" }, "not": { "type": "null" } });
    assert!(Checker::new(schema).check(&Value::Null).is_err());
    assert!(Checker::new(json!({ "$ref": "#" })).check(&Value::Null).is_err());
}
