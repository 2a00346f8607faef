//! Conditions on fields: published in the schema, checked before the function runs, and all problems
//! reported in one answer.

use serde::Deserialize;
use serde_json::{Value, json};
use toolyard_tool::schemars::JsonSchema;
use toolyard_tool::{Problems, ToolSet, clamp, tool};

use crate::support::{Client, text};

#[derive(Debug, Deserialize, JsonSchema)]
struct Trip {
    #[schemars(length(min = 2, max = 5), regex(pattern = "^[a-z]*$"))]
    name: String,
    #[schemars(range(min = 1, max = 9))]
    from: u32,
    #[schemars(range(max = 9))]
    to: u32,
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    #[expect(dead_code, reason = "it is only checked")]
    share: Option<f64>,
    #[serde(default)]
    #[schemars(length(min = 1, max = 2), inner(length(max = 3)))]
    stops: Option<Vec<String>>,
    #[serde(default)]
    #[schemars(range(min = 1, max = 4), transform = clamp)]
    speed: i64,
}

fn in_order(trip: &Trip, problems: &mut Problems) {
    if trip.from > trip.to {
        problems.add("from", format!("must not be greater than `to` ({})", trip.to));
    }
    let stops = u32::try_from(trip.stops.iter().flatten().count()).unwrap();
    if stops > trip.to.checked_sub(trip.from).unwrap_or(stops) {
        problems.add_general("there are more stops than there is way");
    }
}

/// Goes from one place to another.
#[tool(
    check = in_order,
    rule = "`from` must not be greater than `to`",
    rule = "There must be way enough for the stops."
)]
async fn go(trip: Trip) -> String {
    format!("{} {}", trip.name, trip.speed)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Strict {
    #[schemars(range(min = 1))]
    count: u32,
}

fn divides(strict: &Strict, problems: &mut Problems) {
    if 12 % strict.count != 0 {
        problems.add("count", "must divide 12");
    }
}

/// Knows exactly what it takes.
#[tool(check = divides, rule = "`count` must divide 12.")]
async fn strict(strict: Strict) -> u32 {
    strict.count
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "it is only checked")]
struct Batch {
    paths: Vec<String>,
    #[serde(default)]
    #[schemars(length(max = 2))]
    few: Vec<String>,
}

fn distrusts(batch: &Batch, problems: &mut Problems) {
    for path in &batch.paths {
        problems.add("paths", format!("must not hold {path}"));
    }
}

/// Takes many.
#[tool(check = distrusts, rule = "Nothing is trusted.")]
async fn batch(_: Batch) {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "is", rename_all = "lowercase")]
#[expect(dead_code, reason = "it is only checked")]
enum Term {
    And { of: Vec<Term> },
    Or(Several),
    True,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "it is only checked")]
struct Several {
    of: Vec<Term>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "it is only checked")]
struct Filter {
    term: Term,
}

/// Takes terms within terms.
#[tool]
async fn filter(_: Filter) {}

fn set() -> ToolSet {
    ToolSet::new("t", "1").with::<go>().with::<strict>().with::<batch>().with::<filter>()
}

/// The message for `changes` on top of valid arguments, without the hint.
async fn message(changes: Value) -> String {
    let mut arguments = json!({ "name": "abc", "from": 1, "to": 5 });
    arguments.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let answer = Client::newest().call(&set(), "go", arguments).await;
    text(&answer).split("\nHint: ").next().unwrap().to_owned()
}

#[test]
fn conditions_are_part_of_the_schema() {
    let schema = set().definition("go").unwrap()["inputSchema"].clone();
    let expected = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]*$" },
            "from": { "type": "integer", "minimum": 1, "maximum": 9 },
            "to": { "type": "integer", "minimum": 0, "maximum": 9 },
            "share": { "type": ["number", "null"], "default": null, "exclusiveMinimum": 0, "exclusiveMaximum": 1 },
            "stops": {
                "type": ["array", "null"],
                "items": { "type": "string", "maxLength": 3 },
                "default": null,
                "minItems": 1,
                "maxItems": 2,
            },
            "speed": {
                "type": "integer",
                "default": 0,
                "description": "From 1 to 4; other values are moved to the nearest of these.",
            },
        },
        "required": ["name", "from", "to"],
        "description": "`from` must not be greater than `to`. There must be way enough for the stops.",
    });
    assert_eq!(schema, expected);
    assert_eq!(set().definition("strict").unwrap()["inputSchema"]["additionalProperties"], false);
}

#[tokio::test]
async fn each_condition_is_checked() {
    let check = async |changes: Value, expected: &str| {
        let wrong = format!("The arguments are not valid: {expected}.");
        assert_eq!(message(changes.clone()).await, wrong, "{changes}");
    };
    assert_eq!(message(json!({})).await, "abc 0");
    check(json!({ "from": 0 }), "`from` must be from 1 to 9, not 0").await;
    check(json!({ "from": 1, "to": 10 }), "`to` must be from 0 to 9, not 10").await;
    check(json!({ "share": 0.0 }), "`share` must be greater than 0, not 0.0").await;
    check(json!({ "share": 1 }), "`share` must be less than 1, not 1").await;
    check(json!({ "name": "a" }), "`name` must have at least 2 characters, not 1").await;
    check(json!({ "name": "" }), "`name` must not be empty").await;
    check(json!({ "name": "abcdef" }), "`name` must have at most 5 characters, not 6").await;
    check(json!({ "name": "aB" }), "`name` must match the pattern ^[a-z]*$, which \"aB\" does not").await;
    check(json!({ "stops": [] }), "`stops` must have at least 1 item, not 0").await;
    check(json!({ "stops": ["a", "b", "c"] }), "`stops` must have at most 2 items, not 3").await;
    check(json!({ "stops": ["a", "bcde"] }), "`stops[1]` must have at most 3 characters, not 4").await;
    check(json!({ "from": 7 }), "`from` must not be greater than `to` (5)").await;
    check(json!({ "from": 5, "stops": ["a"] }), "there are more stops than there is way").await;
}

#[tokio::test]
async fn one_answer_reports_all_problems_including_cross_checks() {
    let changes = json!({ "name": "ABCDEF", "from": 12, "share": 2, "stops": ["abcd"] });
    assert_eq!(
        message(changes).await,
        "The arguments have 6 problems:\
         \n- `name` must have at most 5 characters, not 6\
         \n- `name` must match the pattern ^[a-z]*$, which \"ABCDEF\" does not\
         \n- `from` must be from 1 to 9, not 12\
         \n- `share` must be less than 1, not 2\
         \n- `stops[0]` must have at most 3 characters, not 4\
         \n- `from` must not be greater than `to` (5)"
    );
    assert_eq!(
        message(json!({ "name": 1, "from": "2" })).await,
        "The arguments have 2 problems:\n- `name` must be a string, not 1\n- `from` must be an integer, not \"2\"",
        "what cannot be read is not cross-checked"
    );
}

#[tokio::test]
async fn a_check_that_panics_on_wrong_fields_hides_no_other_problem() {
    let answer = Client::newest().call(&set(), "strict", json!({ "count": 0 })).await;
    assert!(text(&answer).starts_with("The arguments are not valid: `count` must be at least 1, not 0."));
    let answer = Client::newest().call(&set(), "strict", json!({ "count": 5 })).await;
    assert!(text(&answer).starts_with("The arguments are not valid: `count` must divide 12."));
}

#[tokio::test]
async fn a_field_may_be_moved_into_its_range_instead() {
    for (sent, taken) in
        [(json!(-3), "abc 1"), (json!(1), "abc 1"), (json!(4), "abc 4"), (json!(1e9), "abc 4")]
    {
        assert_eq!(message(json!({ "speed": sent })).await, taken, "{sent}");
    }
    assert!(message(json!({ "speed": "fast" })).await.contains("`speed` must be an integer"));
}

#[tokio::test]
async fn unknown_fields_are_ignored_unless_the_tool_refuses_them() {
    assert_eq!(message(json!({ "name2": 1 })).await, "abc 0");
    let answer = Client::newest().call(&set(), "strict", json!({ "count": 3, "counts": 1 })).await;
    assert!(text(&answer).contains("`counts` is not known (did you mean `count`?)"), "{answer}");
}

#[tokio::test]
async fn twenty_problems_are_enough_for_one_answer() {
    let call =
        async |arguments: Value| text(&Client::newest().call(&set(), "batch", arguments).await).to_owned();
    let exactly = call(json!({ "paths": vec![1; 20] })).await;
    assert!(exactly.starts_with("The arguments have 20 problems:\n- `paths[0]` must be"), "{exactly}");
    let (names, long) = (vec!["a"; 100_000], "x".repeat(1_000_000));
    for arguments in [
        json!({ "paths": vec![1; 100_000] }),
        json!({ "paths": names }),
        json!({ "paths": vec![vec![long.as_str()]; 30] }),
    ] {
        let message = call(arguments).await;
        assert!(
            message.starts_with("The arguments have more than 20 problems; the first are:\n- "),
            "{message}"
        );
        assert_eq!(message.lines().count(), 22, "{message}");
        assert!(message.len() < 4000, "{}", message.len());
    }
}

#[tokio::test]
async fn items_beyond_the_limit_are_not_checked() {
    let arguments = json!({ "paths": [], "few": ["a", 1, 2, 3] });
    let answer = Client::newest().call(&set(), "batch", arguments).await;
    let message = text(&answer);
    assert!(
        message.contains("`few` must have at most 2 items, not 4\n- `few[1]` must be a string"),
        "{message}"
    );
    assert!(!message.contains("few[2]"), "{message}");
}

#[tokio::test]
async fn a_long_name_is_cut_in_the_message() {
    let name = "x".repeat(1_000_000);
    let answer = Client::newest().call(&set(), "strict", json!({ "count": 1, name: 1 })).await;
    assert!(text(&answer).contains("xxx…` is not known"), "{}", text(&answer).len());
    assert!(text(&answer).len() < 300);
    let answer = Client::newest().call(&set(), "filter", json!({ "term": "x".repeat(1_000_000) })).await;
    assert!(text(&answer).len() < 300, "{}", text(&answer).len());
}

#[tokio::test]
async fn terms_within_terms_are_checked_once_each() {
    let mut term = json!({ "is": "true" });
    for is in ["or", "and"].repeat(25) {
        term = json!({ "is": is, "of": [term] });
    }
    let answer = Client::newest().call(&set(), "filter", json!({ "term": term })).await;
    assert_eq!(text(&answer), "Done.");
    let answer = Client::newest().call(&set(), "filter", json!({ "term": { "is": "or", "of": 1 } })).await;
    assert!(text(&answer).starts_with("The arguments are not valid: `term.of` must be an array, not 1."));
}
