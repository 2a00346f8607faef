//! Questions in the middle of a call, as a tool sees them.

use serde::Deserialize;
use serde_json::json;
use toolyard_proto::Revision;
use toolyard_tool::schemars::JsonSchema;
use toolyard_tool::{Context, Reply, Sample, ToolError, ToolSet, clamp, tool};

use crate::support::{Client, text};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Size {
    /// For one.
    Small,
    /// For two.
    Large,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Pizza {
    /// How big?
    size: Size,
    #[schemars(range(min = 1, max = 9))]
    count: u32,
    note: Option<String>,
    /// How hot?
    #[schemars(range(min = 0, max = 5), transform = clamp)]
    heat: Option<u8>,
}

/// Orders.
#[tool]
async fn order(context: &Context) -> Result<String, ToolError> {
    match context.ask::<Pizza>("What will it be?").await? {
        Reply::Accepted(pizza) => {
            Ok(format!("{} {:?} {:?} {:?}", pizza.count, pizza.size, pizza.note, pizza.heat))
        }
        other => Ok(format!("{other:?}")),
    }
}

/// Asks the model and the folders.
#[tool]
async fn surroundings(context: &Context) -> Result<String, ToolError> {
    let sampled = context.sample(Sample::new("Capital of France?", 10).system("Be brief.")).await?;
    let roots = context.roots().await?;
    Ok(format!("{} ({}), {}", sampled.text, sampled.model, roots[0].uri))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend(
    "dependentRequired" = { "to": ["from"] },
    "oneOf" = [{ "required": ["from"] }, { "required": ["name"] }],
))]
#[expect(dead_code, reason = "it is only shown")]
struct Stay {
    name: Option<String>,
    from: Option<u8>,
    to: Option<u8>,
}

/// Books.
#[tool]
async fn book(context: &Context) -> Result<String, ToolError> {
    Ok(format!("{:?}", context.ask::<Stay>("When?").await?))
}

fn set() -> ToolSet {
    ToolSet::new("asks", "1").with::<book>().with::<order>().with::<surroundings>()
}

#[tokio::test]
async fn a_form_is_asked_and_its_answer_is_typed() {
    for revision in [Revision::NEWEST, Revision::NEWEST_LEGACY] {
        let content = json!({ "size": "large", "count": 2 });
        let client = Client::new(revision, json!({ "elicitation": {} }))
            .answering("elicitation/create", json!({ "action": "accept", "content": content }));
        assert_eq!(text(&client.call(&set(), "order", json!({})).await), "2 Large None None");
        assert_eq!(
            client.asked(),
            [json!(["elicitation/create", {
                "mode": "form",
                "message": "What will it be?",
                "requestedSchema": {
                    "type": "object",
                    "properties": {
                        "size": {
                            "description": "How big?",
                            "oneOf": [
                                { "const": "small", "title": "For one." },
                                { "const": "large", "title": "For two." },
                            ],
                            "type": "string",
                        },
                        "count": { "type": "integer", "minimum": 1, "maximum": 9 },
                        "note": { "type": "string" },
                        "heat": {
                            "type": "integer",
                            "description":
                                "How hot? From 0 to 5; other values are moved to the nearest of these.",
                        },
                    },
                    "required": ["size", "count"],
                },
            }])]
        );
    }
}

#[tokio::test]
async fn a_user_may_decline_and_a_client_may_lack_the_capability() {
    let able = || Client::new(Revision::NEWEST, json!({ "elicitation": {} }));
    let asked = |answer| able().answering("elicitation/create", answer);
    let client = asked(json!({ "action": "decline" }));
    assert_eq!(text(&client.call(&set(), "order", json!({})).await), "Declined");
    let client = asked(json!({ "action": "cancel" }));
    assert_eq!(text(&client.call(&set(), "order", json!({})).await), "Cancelled");
    let client = asked(json!({ "action": "accept", "content": { "size": "huge", "count": 1 } }));
    assert_eq!(
        text(&client.call(&set(), "order", json!({})).await),
        "What the user entered is not valid: `size` must be \"small\" or \"large\", not \"huge\".\nHint: tell the user, and call again"
    );
    let client =
        asked(json!({ "action": "accept", "content": { "size": "huge", "count": 5_000_000_000_u64 } }));
    let expected = "What the user entered has 2 problems:\n- `size` must be";
    assert!(text(&client.call(&set(), "order", json!({})).await).starts_with(expected));
    let answer = able().call(&set(), "order", json!({})).await;
    assert_eq!(answer["isError"], true);
    assert_eq!(text(&answer), "this needs `elicitation/create` from the client, but it cannot be asked");
    let expected = "this needs `elicitation`, which the client does not declare";
    let error = Client::newest().request(&set(), "tools/call", json!({ "name": "order" })).await.unwrap_err();
    assert_eq!((error.code(), error.message().as_str()), (-32021, expected));
    let answer = Client::new(Revision::NEWEST_LEGACY, json!({})).call(&set(), "order", json!({})).await;
    assert_eq!((&answer["isError"], text(&answer)), (&json!(true), expected));
}

#[tokio::test]
async fn a_form_is_read_as_leniently_as_arguments() {
    let content = json!({ "size": "small", "count": 5.0, "note": null, "heat": 9 });
    let client = Client::new(Revision::NEWEST, json!({ "elicitation": {} }))
        .answering("elicitation/create", json!({ "action": "accept", "content": content }));
    assert_eq!(text(&client.call(&set(), "order", json!({})).await), "5 Small None Some(5)");
}

#[tokio::test]
async fn relations_between_fields_of_a_form_are_checked() {
    let booked = async |content: serde_json::Value| {
        let client = Client::new(Revision::NEWEST, json!({ "elicitation": {} }))
            .answering("elicitation/create", json!({ "action": "accept", "content": content }));
        let answer = text(&client.call(&set(), "book", json!({})).await).to_owned();
        let asked = client.asked()[0][1]["requestedSchema"].clone();
        let keys: Vec<String> = asked.as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["type", "properties", "required"], "a form is flat");
        answer
    };
    let wrong = |what: &str| {
        format!("What the user entered is not valid: {what}.\nHint: tell the user, and call again")
    };
    let right = "Accepted(Stay { name: None, from: Some(1), to: Some(2) })";
    assert_eq!(booked(json!({ "from": 1, "to": 2, "name": null })).await, right);
    assert_eq!(booked(json!({ "name": "a", "to": 2 })).await, wrong("`from` is missing: `to` needs it"));
    assert_eq!(booked(json!({ "name": "a", "from": 2 })).await, wrong("give only one of `from` or `name`"));
}

#[tokio::test]
async fn the_clients_model_and_folders_can_be_asked() {
    let sampled =
        json!({ "role": "assistant", "content": { "type": "text", "text": "Paris" }, "model": "m" });
    let client = Client::new(Revision::NEWEST, json!({ "sampling": {}, "roots": {} }))
        .answering("sampling/createMessage", sampled)
        .answering("roots/list", json!({ "roots": [{ "uri": "file:///w" }] }));
    assert_eq!(text(&client.call(&set(), "surroundings", json!({})).await), "Paris (m), file:///w");
    assert_eq!(client.asked()[0][1]["systemPrompt"], "Be brief.");
}
