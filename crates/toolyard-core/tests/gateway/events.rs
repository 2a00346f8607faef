//! The event stream of the control API: sessions, changes of the catalog, and readers that are too slow.

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::Method;
use serde_json::{Value, json};
use toolyard_core::Gateway;
use toolyard_model::{Control, ControlEvent, ControlRequest, ControlResponse, Principal};
use toolyard_proto::Revision;

use crate::support::{Client, Double, gateway};

const NEW: Revision = Revision::NEWEST;

/// What the gateway remembers for slow readers.
const KEPT: u64 = 4_096;

struct Reader(BoxStream<'static, ControlEvent>);

impl Reader {
    async fn follow(gateway: &Gateway, principal: Principal, is_operator: bool) -> Self {
        let request = ControlRequest {
            method: Method::GET,
            path: "/events".into(),
            query: None,
            body: Bytes::new(),
            last_event_id: None,
            principal,
            is_operator,
        };
        match gateway.control(request).await {
            ControlResponse::Events(events) => Self(events.boxed()),
            other => panic!("a stream was asked for: {other:?}"),
        }
    }

    async fn of_an_operator(gateway: &Gateway) -> Self {
        Self::follow(gateway, Principal::local(), true).await
    }

    async fn next(&mut self) -> (&'static str, Value) {
        let ControlEvent { name, data, .. } = self.0.next().await.unwrap();
        (name, serde_json::from_str(&data).unwrap())
    }

    /// The next event of this name.
    async fn until(&mut self, name: &str) -> Value {
        loop {
            let (found, data) = self.next().await;
            if found == name {
                return data;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_beginning_and_the_end_of_a_session_are_events_for_its_principal_and_operators() {
    let gateway = gateway(&[("files", &Double::new(NEW, &["read"]))]);
    let mut operator = Reader::of_an_operator(&gateway).await;
    let mut ann_reads = Reader::follow(&gateway, Principal::token("ann"), false).await;
    let (bob, ann) = (Client::named(&gateway, NEW, "", "bob"), Client::named(&gateway, NEW, "files", "ann"));
    for client in [&bob, &ann] {
        client.begin();
        client.tools().await;
    }
    for client in [&bob, &ann] {
        client.end();
    }
    for (principal, view) in [("bob", "/mcp/"), ("ann", "/mcp/files")] {
        let began = operator.until("session.began").await;
        assert_eq!((&began["principal"], &began["view"]), (&json!(principal), &json!(view)));
        assert!(began["at"].is_string() && began["client"].is_string(), "{began}");
    }
    let ended = [operator.until("session.ended").await, operator.until("session.ended").await];
    assert_ne!(ended[0]["client"], ended[1]["client"]);
    let began = ann_reads.until("session.began").await;
    assert_eq!(began["principal"], "ann", "a client does not see the sessions of others");
}

#[tokio::test(start_paused = true)]
async fn a_changed_list_is_an_event_that_names_its_upstreams() {
    let files = Double::new(NEW, &["read"]);
    let gateway = gateway(&[("files", &files), ("other", &Double::new(NEW, &["read"]))]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let mut events = Reader::follow(&gateway, Principal::token("ann"), false).await;
    files.tools.lock().push(json!({ "name": "write", "inputSchema": { "type": "object" } }));
    files.announce(toolyard_proto::Method::TOOLS_CHANGED);
    assert_eq!(events.until("catalog.changed").await["upstreams"], json!(["files"]));
    assert!(client.tools().await.contains(&"files__write".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_too_slow_gets_the_number_of_events_that_it_missed_and_then_the_rest() {
    let gateway = gateway(&[]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let mut events = Reader::of_an_operator(&gateway).await;
    let missed = 10;
    for _ in 0..KEPT + missed {
        client.begin();
    }
    let (name, lagged) = events.next().await;
    assert_eq!((name, &lagged["missed"]), ("lagged", &json!(missed)));
    for _ in 0..KEPT {
        assert_eq!(events.next().await.0, "session.began");
    }
    client.end();
    assert_eq!(events.next().await.0, "session.ended", "nothing else was missed");
}
