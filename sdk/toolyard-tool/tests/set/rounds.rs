//! Questions that are put together and hold nothing: a modern client gets them as the answer and calls again.

use std::sync::atomic::{AtomicU32, Ordering};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolyard_proto::{CallError, Revision};
use toolyard_tool::{Context, Sample, ToolError, ToolSet, tool};

use super::support::{Client, text};

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Default)]
struct Runs(AtomicU32);

#[derive(Deserialize, JsonSchema)]
struct Topic {
    topic: String,
}

/// Asks two things, then a third.
#[tool]
async fn interview(runs: &Runs, context: &Context, args: Topic) -> Result<String, ToolError> {
    runs.0.fetch_add(1, Ordering::SeqCst);
    let first =
        context.questions().form::<Name>("who", "Who are you?").sample("line", Sample::new("A line", 9));
    let replies = first.remember(&args.topic).put().await?;
    let (name, line) = (replies.form::<Name>("who")?.accepted()?.name, replies.sampled("line")?.text);
    let topic: String = replies.remembered().unwrap_or_default();
    let roots = context.questions().roots("where").put().await?.roots("where")?.len();
    Ok(format!("{name} on {topic}: {line} ({roots})"))
}

/// Asks twice under one name, which is a mistake.
#[tool]
async fn confusion(context: &Context) -> Result<String, ToolError> {
    for what in ["A", "A", "B"] {
        let replies = context.questions().form::<Name>("sure", format!("Delete {what}?")).put().await?;
        replies.form::<Name>("sure")?.accepted()?;
    }
    Ok("all deleted".into())
}

/// Wants a page visited, in its own words.
#[tool]
async fn visit(context: &Context) -> Result<String, ToolError> {
    let params = json!({ "mode": "url", "message": "Sign in", "url": "https://example.com" });
    context.questions().raw("page", "elicitation/create", params).put().await?;
    Ok("visited".into())
}

fn set() -> ToolSet<Runs> {
    let set = ToolSet::new("rounds", "1").seal_key(b"the same for all");
    set.with::<confusion>().with::<visit>().state(Runs::default()).with::<interview>()
}

fn able() -> Value {
    json!({ "elicitation": {}, "sampling": {}, "roots": {} })
}

fn answers() -> [(&'static str, Value); 3] {
    [
        ("elicitation/create", json!({ "action": "accept", "content": { "name": "Ada" } })),
        (
            "sampling/createMessage",
            json!({ "model": "m", "content": { "type": "text", "text": "so it is" } }),
        ),
        ("roots/list", json!({ "roots": [{ "uri": "file:///a" }] })),
    ]
}

async fn call(set: &ToolSet<Runs>, topic: &str, more: Value) -> Result<Value, CallError> {
    let mut params = json!({ "name": "interview", "arguments": { "topic": topic } });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Client::new(Revision::NEWEST, able()).request(set, "tools/call", params).await
}

/// The answers to what was asked, with the state that came along.
fn reply(asked: &Value) -> Value {
    let answer = |question: &Value| {
        let found = answers().into_iter().find(|(method, _)| question["method"] == *method);
        found.map(|(_, answer)| answer).unwrap()
    };
    let asks = asked["inputRequests"].as_object().unwrap();
    let responses: Value = asks.iter().map(|(name, ask)| (name.clone(), answer(ask))).collect();
    json!({ "inputResponses": responses, "requestState": asked["requestState"] })
}

const DONE: &str = "Ada on music: so it is (1)";

#[tokio::test]
async fn a_modern_client_is_asked_by_the_answer_and_any_process_can_go_on() {
    let sets = [set(), set(), set()];
    let first = call(&sets[0], "music", json!({})).await.unwrap();
    assert_eq!(first["resultType"], "input_required");
    assert_eq!(first["inputRequests"]["who"]["params"]["message"], "Who are you?");
    let second = call(&sets[1], "music", reply(&first)).await.unwrap();
    assert_eq!(second["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["where"]);
    let last = call(&sets[2], "music", reply(&second)).await.unwrap();
    assert_eq!((text(&last), &last["resultType"]), (DONE, &json!("complete")));
}

#[tokio::test]
async fn a_legacy_client_is_asked_while_its_call_runs() {
    let set = set();
    let client =
        answers().into_iter().fold(Client::new(Revision::V2025_11_25, able()), |client, (method, answer)| {
            client.answering(method, answer)
        });
    assert_eq!(text(&client.call(&set, "interview", json!({ "topic": "music" })).await), DONE);
    assert_eq!(client.asked().len(), 3);
}

#[tokio::test]
async fn only_missing_answers_are_asked_for_again() {
    let set = set();
    let asked = call(&set, "music", json!({})).await.unwrap();
    let mut partly = reply(&asked);
    partly["inputResponses"].as_object_mut().unwrap().remove("line");
    partly["inputResponses"]["stranger"] = json!({});
    let again = call(&set, "music", partly).await.unwrap();
    assert_eq!(again["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["line"]);
    let third = call(&set, "music", reply(&again)).await.unwrap();
    assert_eq!(third["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["where"]);
}

#[tokio::test]
async fn state_that_was_changed_or_is_of_another_call_is_refused() {
    let set = set();
    let asked = call(&set, "music", json!({})).await.unwrap();
    let mut changed = reply(&asked);
    changed["requestState"] = format!("{}-TAMPERED", asked["requestState"].as_str().unwrap()).into();
    assert_eq!(call(&set, "music", changed).await.unwrap_err().code(), -32602);
    assert_eq!(call(&set, "chess", reply(&asked)).await.unwrap_err().code(), -32602);
    let mut lost = reply(&asked);
    lost.as_object_mut().unwrap().remove("requestState");
    assert_eq!(call(&set, "music", lost).await.unwrap()["inputRequests"].as_object().unwrap().len(), 2);
    for malformed in [json!(null), json!({ "who": 7 })] {
        let error = call(&set, "music", json!({ "inputResponses": malformed })).await.unwrap_err();
        assert_eq!(error.code(), -32602);
    }
}

#[tokio::test]
async fn a_client_that_cannot_answer_receives_the_missing_capabilities() {
    let client = Client::new(Revision::NEWEST, json!({ "sampling": {} }));
    let params = json!({ "name": "interview", "arguments": { "topic": "music" } });
    let error = client.request(&set(), "tools/call", params).await.unwrap_err();
    let message: Value = error.to_raw().read().unwrap();
    assert_eq!(
        (error.code(), &message["data"]["requiredCapabilities"]),
        (-32021, &json!({ "elicitation": {} }))
    );
    let client = Client::new(Revision::NEWEST, able());
    let error = client.request(&set(), "tools/call", json!({ "name": "visit" })).await.unwrap_err();
    let message: Value = error.to_raw().read().unwrap();
    assert_eq!(error.code(), -32021, "forms are not pages");
    assert_eq!(message["data"]["requiredCapabilities"], json!({ "elicitation": { "url": {} } }));
}

#[tokio::test]
async fn the_answer_to_one_question_never_counts_for_another_of_that_name() {
    let message = "two different questions are called `sure`\nHint: give each question a name of its own";
    let (_, yes) = &answers()[0];
    let modern = Client::new(Revision::NEWEST, able());
    let params = json!({ "name": "confusion", "inputResponses": { "sure": yes } });
    let answer = modern.request(&set(), "tools/call", params).await.unwrap();
    assert_eq!((&answer["isError"], text(&answer)), (&json!(true), message));
    let legacy = Client::new(Revision::NEWEST_LEGACY, able()).answering("elicitation/create", yes.clone());
    assert_eq!(text(&legacy.call(&set(), "confusion", json!({})).await), message);
}
