//! Legacy clients at a modern server, which answers with questions: what they receive on the way.

use serde_json::{Value, json};
use toolyard_proto::Revision;
use toolyard_serve::Options;

use crate::world::{Reach, World, until};

#[tokio::test]
async fn progress_only_ever_rises_although_every_round_reports_from_the_start() {
    let world = World::open(Revision::NEWEST, Reach::Http, Options::default()).await;
    let client = world.client(Revision::V2025_11_25).await;
    let params = json!({ "name": "rounds", "arguments": {} });
    client.ask_with("tools/call", params, json!({ "progressToken": "t" })).await.unwrap();
    assert_eq!(world.server.called("rounds"), 2);
    let received = client.received("notifications/progress");
    let steps: Vec<Value> = received.iter().map(|params| params["progress"].clone()).collect();
    assert_eq!(steps, [1, 2, 3]);
}

/// A modern server knows no notification but a cancel.
#[tokio::test]
async fn changed_roots_are_announced_only_to_servers_that_know_the_notification() {
    for (server, reach) in [
        (Revision::NEWEST, Reach::Lines),
        (Revision::NEWEST, Reach::Http),
        (Revision::V2025_11_25, Reach::Lines),
    ] {
        let world = World::open(server, reach, Options::default()).await;
        let client = world.client_on_lines(Revision::V2025_11_25).await;
        client.ask("tools/list", json!({})).await.unwrap();
        client.notify("notifications/roots/list_changed").await.unwrap();
        client.tool("echo").await.unwrap();
        let expected = usize::from(server != Revision::NEWEST);
        let noticed = || world.server.noticed("notifications/roots/list_changed");
        until("it is announced or not", || noticed() == expected).await;
        client.tool("echo").await.unwrap();
        assert_eq!(noticed(), expected, "{server}");
    }
}
