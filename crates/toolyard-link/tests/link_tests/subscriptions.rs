//! What clients subscribe to at a legacy HTTP upstream: taken back with the last of them, and set up once
//! in a session that replaces a lost one.

use std::sync::Arc;

use http::Method as Http;
use serde_json::{Value, json};
use toolyard_model::{ClientKey, LinkEvent, Origin, Peer};
use toolyard_proto::{Id, Method, Revision};

use crate::legacy::{Setup, no_inbox, open, session, setup};
use crate::server::Exchange;
use crate::support::{next_event, origin, request, soon, value, whole};

/// A request without a session; all of one principal share an upstream session.
fn alone(number: u64) -> Arc<Origin> {
    origin(ClientKey::Request(number), Revision::NEWEST)
}

impl Setup {
    async fn watch(&mut self, origin: &Arc<Origin>, uri: &str) {
        let subscribe = request(origin, Id::number(7), Method::RESOURCES_SUBSCRIBE, json!({ "uri": uri }));
        let waiting = tokio::task::spawn(self.connected.link.call(subscribe, Peer::none()));
        let asked = self.server.posted("resources/subscribe").await;
        assert_eq!(asked.body()["params"]["uri"], uri);
        asked.result(json!({}));
        whole(soon(waiting).await.unwrap());
    }

    async fn next_update(&mut self) -> (Option<ClientKey>, Value) {
        loop {
            let event = next_event(&mut self.connected.events).await;
            if let LinkEvent::Notification(client, word) = event
                && word.method == Method::RESOURCE_UPDATED
            {
                return (client, value(&word.params.unwrap()));
            }
        }
    }

    /// A call, in a session that is there.
    async fn passes_a_call(&mut self, origin: &Arc<Origin>) {
        let waiting = self.call(origin, json!({}), Peer::none());
        let next = self.server.next_where(|asked| asked.method == Http::POST).await;
        assert_eq!(next.body()["method"], "tools/call", "nothing else was sent before");
        next.result(json!({}));
        whole(soon(waiting).await.unwrap());
    }
}

#[tokio::test]
async fn a_resource_is_watched_until_the_last_client_of_the_session_leaves() {
    let mut setup = setup().await;
    let (ann, bob) = (alone(1), alone(2));
    let waiting = setup.call(&ann, json!({}), Peer::none());
    open(&mut setup.server, "shared").await;
    no_inbox(&mut setup.server).await;
    setup.server.posted("tools/call").await.result(json!({}));
    whole(soon(waiting).await.unwrap());
    setup.watch(&ann, "a:b").await;
    setup.watch(&bob, "a:b").await;
    // A client that subscribes twice, since it had to ask again, leaves once.
    setup.watch(&bob, "a:b").await;
    soon(setup.connected.link.unsubscribe(&ann, "a:b")).await;
    soon(setup.connected.link.unsubscribe(&ann, "a:b")).await;
    setup.passes_a_call(&ann).await;
    let leaving = tokio::task::spawn(setup.connected.link.unsubscribe(&bob, "a:b"));
    let reported = setup.server.posted("resources/unsubscribe").await;
    assert_eq!(
        (reported.header("mcp-session-id"), &reported.body()["params"]["uri"]),
        ("shared", &json!("a:b"))
    );
    reported.result(json!({}));
    soon(leaving).await.unwrap();
    setup.passes_a_call(&ann).await;
}

#[tokio::test]
async fn only_what_is_still_watched_is_set_up_in_a_new_session_and_only_once() {
    let mut setup = setup().await;
    let ann = session("old");
    let (waiting, asked) = setup.first_call("old", Peer::none()).await;
    asked.result(json!({}));
    whole(soon(waiting).await.unwrap());
    setup.watch(&ann, "a:b").await;
    setup.watch(&ann, "a:c").await;
    let leaving = tokio::task::spawn(setup.connected.link.unsubscribe(&ann, "a:c"));
    setup.server.posted("resources/unsubscribe").await.result(json!({}));
    soon(leaving).await.unwrap();
    let calls: Vec<_> = (0..4).map(|_| setup.call(&ann, json!({}), Peer::none())).collect();
    let mut asked = Vec::new();
    for _ in 0..4 {
        asked.push(setup.server.posted("tools/call").await);
    }
    for asked in asked {
        asked.status(404);
    }
    open(&mut setup.server, "new").await;
    no_inbox(&mut setup.server).await;
    let again = setup.server.posted("resources/subscribe").await;
    assert_eq!((again.header("mcp-session-id"), &again.body()["params"]), ("new", &json!({ "uri": "a:b" })));
    again.result(json!({}));
    for _ in 0..4 {
        let next = setup.server.next_where(|asked| asked.method == Http::POST).await;
        assert_eq!(next.body()["method"], "tools/call", "once is enough");
        next.result(json!({}));
    }
    for call in calls {
        whole(soon(call).await.unwrap());
    }
}

#[tokio::test]
async fn a_client_that_leaves_has_its_session_ended_once_its_calls_are_over() {
    let mut setup = setup().await;
    let waiting = setup.call(&session("ann"), json!({}), Peer::none());
    open(&mut setup.server, "ann").await;
    let inbox = setup.server.got(Http::GET).await.events();
    let asked = setup.server.posted("tools/call").await;
    setup.connected.link.leave(&ClientKey::Session("ann".into()));
    asked.result(json!({ "ok": 1 }));
    assert_eq!(whole(soon(waiting).await.unwrap()), json!({ "ok": 1 }));
    let ended = setup.server.got(Http::DELETE).await;
    assert_eq!(ended.header("mcp-session-id"), "ann");
    ended.status(200);
    inbox.abandoned().await;
    // Unsubscribing then is not worth a new session.
    soon(setup.connected.link.unsubscribe(&session("ann"), "a:b")).await;
    let waiting = setup.call(&session("ann"), json!({}), Peer::none());
    open(&mut setup.server, "ann again").await;
    no_inbox(&mut setup.server).await;
    setup.server.posted("tools/call").await.result(json!({}));
    whole(soon(waiting).await.unwrap());
}

#[tokio::test]
async fn subscriptions_of_a_lost_session_are_set_up_in_another_without_a_call() {
    let mut setup = setup().await;
    let ann = session("old");
    let waiting = setup.call(&ann, json!({}), Peer::none());
    open(&mut setup.server, "old").await;
    let inbox = setup.server.got(Http::GET).await.events();
    setup.server.posted("tools/call").await.result(json!({}));
    whole(soon(waiting).await.unwrap());
    setup.watch(&ann, "a:b").await;
    // The server was restarted: it does not know the session that its stream is opened for again.
    drop(inbox);
    setup.server.got(Http::GET).await.status(404);
    for id in ["new", "newer"] {
        open(&mut setup.server, id).await;
        let inbox = setup.server.got(Http::GET).await.events();
        let again = setup.server.posted("resources/subscribe").await;
        assert_eq!((again.header("mcp-session-id"), &again.body()["params"]), (id, &json!({ "uri": "a:b" })));
        again.result(json!({}));
        // Updates in between were missed.
        let (client, word) = setup.next_update().await;
        assert_eq!((client, word), (Some(ClientKey::Session("old".into())), json!({ "uri": "a:b" })));
        if id == "new" {
            drop(inbox);
            setup.server.got(Http::GET).await.status(404);
        } else {
            // The subscriptions of a client that has left are not kept.
            setup.connected.link.forget(&ClientKey::Session("old".into()));
            assert_eq!(setup.server.got(Http::DELETE).await.header("mcp-session-id"), id);
            inbox.abandoned().await;
        }
    }
}

#[tokio::test]
async fn a_session_with_subscriptions_makes_no_room_for_another() {
    let mut setup = setup().await;
    let names = (0..999).map(|number| format!("s{number}")).chain(["one more".to_owned()]);
    for (number, name) in names.enumerate() {
        let (waiting, asked) = setup.first_call(&name, Peer::none()).await;
        asked.result(json!({}));
        whole(soon(waiting).await.unwrap());
        if number == 0 {
            setup.watch(&session(&name), "a:b").await;
        }
    }
    let ended = setup.server.got(Http::DELETE).await;
    assert_eq!(ended.header("mcp-session-id"), "s1", "the longest idle of those without subscriptions");
    ended.status(200);
}

#[tokio::test]
async fn a_client_that_leaves_while_its_session_is_opened_leaves_none_behind() {
    let mut setup = setup().await;
    let waiting = setup.call(&session("ann"), json!({}), Peer::none());
    let hello = setup.server.posted("initialize").await;
    setup.connected.link.leave(&ClientKey::Session("ann".into()));
    hello.result_with(
        &[("mcp-session-id", "ann")],
        &json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} } }),
    );
    setup.server.posted("notifications/initialized").await.status(202);
    no_inbox(&mut setup.server).await;
    setup.server.posted("tools/call").await.result(json!({ "ok": 1 }));
    assert_eq!(whole(soon(waiting).await.unwrap()), json!({ "ok": 1 }), "the call is not cut off");
    assert_eq!(setup.server.got(Http::DELETE).await.header("mcp-session-id"), "ann");
}

#[tokio::test]
async fn subscriptions_dropped_during_session_recovery_are_unsubscribed() {
    let mut setup = setup().await;
    let ann = session("old");
    let (waiting, asked) = setup.first_call("old", Peer::none()).await;
    asked.result(json!({}));
    whole(soon(waiting).await.unwrap());
    setup.watch(&ann, "a:b").await;
    setup.watch(&ann, "a:c").await;
    let _waiting = setup.call(&ann, json!({}), Peer::none());
    setup.server.posted("tools/call").await.status(404);
    open(&mut setup.server, "new").await;
    no_inbox(&mut setup.server).await;
    let first = setup.server.posted("resources/subscribe").await;
    let leaving = tokio::task::spawn(setup.connected.link.unsubscribe(&ann, "a:c"));
    tokio::task::yield_now().await;
    first.result(json!({}));
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        let is_about = |asked: &Exchange| asked.body()["params"]["uri"] == "a:c";
        let next = setup.server.next_where(is_about).await;
        assert_eq!(next.body()["method"], method);
        next.result(json!({}));
    }
    soon(leaving).await.unwrap();
}
