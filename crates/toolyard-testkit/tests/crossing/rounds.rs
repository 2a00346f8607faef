//! Calls that ask their client: what the client receives on the way.

use serde_json::{Value, json};
use toolyard_proto::Revision;
use toolyard_serve::Options;
use toolyard_testkit::script::Client;

use crate::world::{Reach, World, until};

#[tokio::test]
async fn progress_only_ever_rises_although_every_round_reports_from_the_start() {
    let world = World::open(Revision::NEWEST, Reach::Http, Options::default()).await;
    let client = world.client(Revision::V2025_11_25).await;
    let params = json!({ "name": "rounds", "arguments": {} });
    client.ask_with("tools/call", params, json!({ "progressToken": "t" })).await.unwrap();
    assert_eq!(world.server.called("rounds"), 2);
    assert_eq!(progress_of(&client), [1, 2, 3]);
}

/// The call waits in the gateway while its client answers, so it is one call with one progress. Some clients report
/// progress of their own while they answer; the gateway adds none.
#[tokio::test]
async fn a_modern_client_sees_the_progress_of_a_legacy_server_once_and_only_rising() {
    for reach in [Reach::Http, Reach::Lines] {
        let world = World::open(Revision::V2025_11_25, reach, Options::default()).await;
        let client = world.client(Revision::NEWEST).await;
        let params = json!({ "name": "rounds", "arguments": {} });
        client.ask_with("tools/call", params, json!({ "progressToken": "t" })).await.unwrap();
        assert_eq!(world.server.called("rounds"), 1);
        assert_eq!(progress_of(&client), [1, 2, 3, 4]);
        assert_eq!(client.wrong(), [""; 0]);
    }
}

/// Each round is a request of its own, whose progress begins again, as at the server itself.
#[tokio::test]
async fn progress_of_a_modern_server_reaches_a_modern_client_round_by_round() {
    for reach in [Reach::Http, Reach::Lines] {
        let world = World::open(Revision::NEWEST, reach, Options::default()).await;
        let client = world.client(Revision::NEWEST).await;
        let params = json!({ "name": "rounds", "arguments": {} });
        client.ask_with("tools/call", params, json!({ "progressToken": "t" })).await.unwrap();
        assert_eq!(world.server.called("rounds"), 2);
        assert_eq!(progress_of(&client), [1, 2, 1, 2, 3]);
    }
}

fn progress_of(client: &Client) -> Vec<Value> {
    let received = client.received("notifications/progress");
    received.iter().map(|params| params["progress"].clone()).collect()
}

/// A modern server accepts no notification except a cancel.
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
