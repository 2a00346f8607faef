//! Servers that lack something: what clients of the other era see.

use serde_json::json;
use toolyard_proto::Revision;
use toolyard_serve::Options;
use toolyard_testkit::script::{Client, Manner, Wire};

use crate::world::{Reach, World, say};

const OLD: Revision = Revision::V2025_11_25;

#[tokio::test]
async fn methods_that_a_server_lacks_are_unknown_in_its_own_view_but_not_in_the_view_of_all() {
    for server in [OLD, Revision::NEWEST] {
        let world = World::with(server, Manner::ToolsOnly, Reach::Http, Options::default()).await;
        let alone = world.client(OLD).await;
        for (method, params) in [
            ("logging/setLevel", json!({ "level": "info" })),
            ("resources/unsubscribe", json!({ "uri": "test://a" })),
        ] {
            let error = alone.ask(method, params).await.unwrap_err();
            assert_eq!(error["code"], -32601, "{method} at {server}: {error}");
        }
        let all = Client::connect(Wire::http(&world.address(), "/mcp"), OLD, &world.others).await.unwrap();
        all.ask("logging/setLevel", json!({ "level": "info" })).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_with_log_and_subscriptions_is_asked_as_ever() {
    let world = World::open(OLD, Reach::Http, Options::default()).await;
    let client = world.client(Revision::V2025_06_18).await;
    client.ask("logging/setLevel", json!({ "level": "info" })).await.unwrap();
    client.ask("resources/subscribe", json!({ "uri": "test://a" })).await.unwrap();
    client.ask("resources/unsubscribe", json!({ "uri": "test://a" })).await.unwrap();
}

#[tokio::test]
async fn a_server_that_offers_no_stream_of_its_own_works_without() {
    let world = World::with(OLD, Manner::WithoutStream, Reach::Http, Options::default()).await;
    for revision in Revision::ALL {
        let client = world.client(revision).await;
        assert_eq!(client.tool("sample").await.unwrap(), "sampled", "{revision}");
        let params = json!({ "name": "progress", "arguments": {} });
        client.ask_with("tools/call", params, json!({ "progressToken": "t" })).await.unwrap();
        client.receive("notifications/progress", |params| params["progress"] == 2).await.unwrap();
    }
    let (_, answer) = world.post(&say("echo")).await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
}
