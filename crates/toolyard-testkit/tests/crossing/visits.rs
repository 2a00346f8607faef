//! A 2025-11-25 server that wants the user to visit a page first (−32042), and modern ones that ask for the same
//! in their own way.

use serde_json::{Value, json};
use toolyard_proto::Revision;
use toolyard_serve::Options;

use crate::world::{Reach, Say, World, say};

const OLD: Revision = Revision::V2025_11_25;
const PAGE: &str = "https://example.com/consent";

async fn world() -> World {
    World::open(OLD, Reach::Http, Options::default()).await
}

/// A tool's failure, in words.
fn failure(answer: &Value) -> String {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

async fn sent_to_the_page(world: &World) -> String {
    let (_, answer) = world.post(&say("visit")).await;
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    let question = json!({ "mode": "url", "url": PAGE, "message": "Say yes there" });
    assert_eq!(
        result["inputRequests"]["ask1"],
        json!({ "method": "elicitation/create", "params": question })
    );
    result["requestState"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_modern_client_is_asked_to_visit_the_page_and_then_the_call_is_made_again() {
    let world = world().await;
    let state = sent_to_the_page(&world).await;
    let back = say("visit").with(&state, json!({ "ask1": { "action": "accept" } }));
    let (_, answer) = world.post(&back).await;
    assert_eq!(answer["result"]["content"][0]["text"], "visited", "{answer}");
    assert_eq!(world.server.called("visit"), 2);
}

#[tokio::test]
async fn a_user_who_declines_ends_the_call() {
    let world = world().await;
    let state = sent_to_the_page(&world).await;
    let back = say("visit").with(&state, json!({ "ask1": { "action": "decline" } }));
    let (_, answer) = world.post(&back).await;
    assert!(failure(&answer).contains("did not agree"), "{answer}");
    assert_eq!(world.server.called("visit"), 1);
}

#[tokio::test]
async fn a_modern_client_that_cannot_show_pages_gets_the_address_in_the_error() {
    let world = world().await;
    let call = Say { capabilities: json!({ "elicitation": {} }), ..say("visit") };
    let (_, answer) = world.post(&call).await;
    let message = failure(&answer);
    assert!(message.contains(PAGE) && !message.contains("did not agree"), "{message}");
}

#[tokio::test]
async fn a_client_of_the_same_revision_gets_the_error_unchanged() {
    let world = world().await;
    let client = world.client(OLD).await;
    let error = client.ask("tools/call", json!({ "name": "visit", "arguments": {} })).await.unwrap_err();
    let page = &error["data"]["elicitations"][0];
    assert_eq!(
        (&error["code"], &page["url"], &page["elicitationId"]),
        (&json!(-32042), &json!(PAGE), &json!("e7"))
    );
}

#[tokio::test]
async fn a_client_of_an_earlier_revision_gets_the_address_in_words() {
    let world = world().await;
    for revision in [Revision::V2024_11_05, Revision::V2025_03_26, Revision::V2025_06_18] {
        let client = world.client(revision).await;
        let message = client.tool("visit").await.unwrap_err();
        assert!(message.contains(PAGE) && !message.contains("32042"), "{revision}: {message}");
        client.tool("visit").await.unwrap();
    }
}

/// The other direction: a modern server asks by its answer, and no client ever receives the legacy error.
#[tokio::test]
async fn a_modern_servers_page_is_a_question_to_clients_that_can_show_it_and_words_to_others() {
    let world = World::open(Revision::NEWEST, Reach::Http, Options::default()).await;
    let client = world.client(OLD).await;
    assert_eq!(client.tool("elicit_url").await.unwrap(), "accept");
    assert_eq!(client.wrong(), Vec::<String>::new());
    let client = world.client(Revision::V2025_06_18).await;
    let message = client.tool("elicit_url").await.unwrap_err();
    assert!(message.contains("elicitation") && !message.contains("-320"), "{message}");
}
