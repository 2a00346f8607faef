//! Legacy HTTP upstreams: sessions, streams, questions, resumption.

use std::sync::Arc;
use std::time::Duration;

use http::Method as Http;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use toolyard_link::{EraPin, connect};
use toolyard_model::{Answer, ClientKey, Connected, LinkEvent, Origin, Peer, Scope};
use toolyard_proto::{Era, Id, Kind, Method, Revision};

use crate::modern::{connect_to, target};
use crate::server::{Exchange, Server};
use crate::support::{
    Received, failed, next_event, offer, origin, recorder, request, soon, time_walks, whole,
};

fn hello() -> Value {
    json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}})
}

/// Answers a handshake with the session `id`; returns its `initialize`.
pub(crate) async fn open(server: &mut Server, id: &str) -> Value {
    let exchange = server.posted("initialize").await;
    let body = exchange.body();
    exchange.result_with(&[("mcp-session-id", id)], &hello());
    let ready = server.posted("notifications/initialized").await;
    assert_eq!(ready.header("mcp-session-id"), id);
    ready.status(202);
    body
}

pub(crate) async fn no_inbox(server: &mut Server) {
    server.got(Http::GET).await.status(405);
}

pub(crate) struct Setup {
    pub(crate) server: Server,
    pub(crate) connected: Connected,
    _scope: Scope,
}

/// Connected, with the gateway's own session `gateway` open and no stream offered in it.
pub(crate) async fn setup() -> Setup {
    let (mut server, scope) = (Server::start().await, Scope::new());
    let connecting = connect_to(&mut server, &scope, async |server| {
        server.posted("server/discover").await.error(400, -32600, "what?");
        open(server, "gateway").await;
        no_inbox(server).await;
    });
    let connected = connecting.await.0.unwrap();
    Setup { server, connected, _scope: scope }
}

pub(crate) fn session(name: &str) -> Arc<Origin> {
    origin(ClientKey::Session(name.into()), Revision::NEWEST_LEGACY)
}

impl Setup {
    pub(crate) fn call(&self, origin: &Arc<Origin>, params: Value, peer: Peer) -> JoinHandle<Answer> {
        let request = request(origin, Id::number(1), Method::TOOLS_CALL, params);
        tokio::task::spawn(self.connected.link.call(request, peer))
    }

    /// A call of a client whose session `id` is opened for it.
    pub(crate) async fn first_call(&mut self, id: &str, peer: Peer) -> (JoinHandle<Answer>, Exchange) {
        let waiting = self.call(&session(id), json!({}), peer);
        open(&mut self.server, id).await;
        no_inbox(&mut self.server).await;
        (waiting, self.server.posted("tools/call").await)
    }
}

#[tokio::test]
async fn a_handshake_is_made_and_later_requests_name_session_and_version() {
    let mut setup = setup().await;
    assert_eq!((setup.connected.era(), setup.connected.link.per_client()), (Era::Legacy, true));
    let (waiting, asked) = setup.first_call("s1", Peer::none()).await;
    assert_eq!(asked.header("mcp-session-id"), "s1");
    assert_eq!(asked.header("mcp-protocol-version"), "2025-06-18");
    assert_eq!((asked.header("x-key"), asked.header("mcp-method")), ("secret", ""));
    assert_eq!(asked.body()["id"], 1, "a legacy client's own id is kept in its own session");
    asked.result(json!({"ok": 1}));
    assert_eq!(whole(soon(waiting).await.unwrap()), json!({"ok": 1}));
    let closing = tokio::task::spawn(setup.connected.link.close());
    for _ in 0..2 {
        setup.server.got(Http::DELETE).await.status(200);
    }
    soon(closing).await.unwrap();
    assert!(matches!(next_event(&mut setup.connected.events).await, LinkEvent::Closed(_)));
}

#[tokio::test]
async fn each_client_has_its_own_session_and_takes_it_along() {
    let mut setup = setup().await;
    for id in ["s1", "s2"] {
        let waiting = setup.call(&session(id), json!({}), Peer::none());
        let hello = open(&mut setup.server, id).await;
        assert_eq!(hello["params"]["capabilities"], json!({"elicitation": {}}));
        assert_eq!(hello["params"]["clientInfo"]["name"], "client");
        no_inbox(&mut setup.server).await;
        let asked = setup.server.posted("tools/call").await;
        assert_eq!(asked.header("mcp-session-id"), id);
        asked.result(json!({}));
        whole(soon(waiting).await.unwrap());
    }
    setup.connected.link.forget(&ClientKey::Session("s1".into()));
    let gone = setup.server.got(Http::DELETE).await;
    assert_eq!(gone.header("mcp-session-id"), "s1");
    gone.status(200);
}

#[tokio::test]
async fn requests_without_a_session_share_one_under_minted_ids() {
    let mut setup = setup().await;
    let (peer, mut received) = recorder();
    let alone = |n| origin(ClientKey::Request(n), Revision::NEWEST);
    let first = setup.call(&alone(1), json!({"_meta": {"progressToken": "mine"}}), peer);
    open(&mut setup.server, "shared").await;
    no_inbox(&mut setup.server).await;
    let asked = setup.server.posted("tools/call").await;
    let second = setup.call(&alone(2), json!({}), Peer::none());
    let other = setup.server.posted("tools/call").await;
    assert_eq!((asked.header("mcp-session-id"), other.header("mcp-session-id")), ("shared", "shared"));
    assert_ne!(asked.body()["id"], other.body()["id"]);
    let (id, token) = (asked.body()["id"].clone(), asked.body()["params"]["_meta"]["progressToken"].clone());
    let events = asked.events();
    let params = json!({"progressToken": token, "progress": 1});
    events.message(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})).await;
    events.message(json!({"jsonrpc": "2.0", "id": id, "result": {"n": 1}})).await;
    assert_eq!(whole(soon(first).await.unwrap()), json!({"n": 1}));
    let reported = json!({"progressToken": "mine", "progress": 1});
    assert_eq!(received.try_recv().unwrap(), Received::Note("notifications/progress".into(), reported));
    other.result(json!({"n": 2}));
    assert_eq!(whole(soon(second).await.unwrap()), json!({"n": 2}));
}

#[tokio::test]
async fn a_lost_session_is_opened_again_once_and_the_call_sent_again() {
    for lose in [
        (|exchange: Exchange| exchange.status(404)) as fn(Exchange),
        |exchange| exchange.error(404, -32001, "Session not found"),
        |exchange| exchange.error(400, -32000, "Bad Request: No valid session ID provided"),
    ] {
        let mut setup = setup().await;
        let (waiting, asked) = setup.first_call("old", Peer::none()).await;
        lose(asked);
        open(&mut setup.server, "new").await;
        no_inbox(&mut setup.server).await;
        let again = setup.server.posted("tools/call").await;
        assert_eq!(again.header("mcp-session-id"), "new");
        again.result(json!({"ok": 1}));
        assert_eq!(whole(soon(waiting).await.unwrap()), json!({"ok": 1}));
    }
}

/// A restarted server may offer something else, and without a stream it cannot announce that.
#[tokio::test]
async fn the_lists_count_as_changed_after_a_client_s_session_was_opened_again() {
    let mut setup = setup().await;
    let (waiting, asked) = setup.first_call("old", Peer::none()).await;
    asked.status(404);
    open(&mut setup.server, "new").await;
    no_inbox(&mut setup.server).await;
    setup.server.posted("tools/call").await.result(json!({}));
    whole(soon(waiting).await.unwrap());
    let LinkEvent::Notification(client, change) = next_event(&mut setup.connected.events).await else {
        panic!("no notification");
    };
    assert_eq!((client, change.method), (None, Method::TOOLS_CHANGED));
}

#[tokio::test]
async fn a_session_lost_twice_is_an_error() {
    let mut setup = setup().await;
    let (waiting, asked) = setup.first_call("old", Peer::none()).await;
    asked.status(404);
    open(&mut setup.server, "new").await;
    no_inbox(&mut setup.server).await;
    setup.server.posted("tools/call").await.status(404);
    assert_eq!(failed(soon(waiting).await.unwrap()).kind, Kind::Unavailable);
}

#[tokio::test]
async fn a_question_on_a_calls_stream_is_asked_and_its_answer_posted() {
    let mut setup = setup().await;
    let (peer, mut received) = recorder();
    let (waiting, asked) = setup.first_call("s1", peer).await;
    let events = asked.events();
    for id in [7, 8] {
        events
            .message(json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {}}))
            .await;
    }
    let mut answered = Vec::new();
    for _ in 0..2 {
        let response = setup.server.responded().await;
        assert_eq!(response.header("mcp-session-id"), "s1");
        assert_eq!(response.body()["result"], json!({"action": "accept"}));
        answered.push(response.body()["id"].as_u64().unwrap());
        response.status(202);
    }
    answered.sort_unstable();
    assert_eq!(answered, [7, 8]);
    events.message(json!({"jsonrpc": "2.0", "id": 1, "result": {}})).await;
    whole(soon(waiting).await.unwrap());
    assert_eq!(received.try_recv().unwrap(), Received::Ask("elicitation/create".into()));
}

#[tokio::test]
async fn a_stream_closed_on_purpose_is_resumed_and_the_client_is_informed() {
    let mut setup = setup().await;
    let (peer, mut received) = recorder();
    let (waiting, asked) = setup.first_call("s1", peer).await;
    let events = asked.events();
    events.text("id: e1\nretry: 300\ndata:\n\n").await;
    drop(events);
    assert_eq!(soon(received.recv()).await.unwrap(), Received::HangUp(Duration::from_millis(300)));
    let resumed = setup.server.got(Http::GET).await;
    assert_eq!((resumed.header("last-event-id"), resumed.header("mcp-session-id")), ("e1", "s1"));
    let events = resumed.events();
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}});
    events.numbered("e2", log).await;
    assert_eq!(
        soon(received.recv()).await.unwrap(),
        Received::Note("notifications/message".into(), json!({}))
    );
    events.break_off().await;
    let resumed = setup.server.got(Http::GET).await;
    assert_eq!(resumed.header("last-event-id"), "e2");
    let events = resumed.events();
    events.numbered("e3", json!({"jsonrpc": "2.0", "id": 1, "result": {"ok": 1}})).await;
    assert_eq!(whole(soon(waiting).await.unwrap()), json!({"ok": 1}));
    assert!(received.try_recv().is_err(), "a stream that broke was not closed on purpose");
}

#[tokio::test]
async fn a_stream_that_cannot_be_resumed_is_lost() {
    let mut setup = setup().await;
    let (waiting, asked) = setup.first_call("s1", Peer::none()).await;
    drop(asked.events());
    assert_eq!(failed(soon(waiting).await.unwrap()).kind, Kind::Lost);
    let waiting = setup.call(&session("s1"), json!({}), Peer::none());
    let events = setup.server.posted("tools/call").await.events();
    events.text("id: e1\nretry: 1\ndata:\n\n").await;
    drop(events);
    setup.server.got(Http::GET).await.status(405);
    assert_eq!(failed(soon(waiting).await.unwrap()).kind, Kind::Lost);
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_by_a_notification() {
    let mut setup = setup().await;
    let (waiting, asked) = setup.first_call("s1", Peer::none()).await;
    let events = asked.events();
    waiting.abort();
    let cancelled = setup.server.posted("notifications/cancelled").await;
    assert_eq!(cancelled.header("mcp-session-id"), "s1");
    assert_eq!(cancelled.body()["params"]["requestId"], 1);
    cancelled.status(202);
    events.abandoned().await;
}

#[tokio::test]
async fn unasked_messages_come_with_the_client_whose_session_it_is() {
    let mut setup = setup().await;
    let (peer, mut received) = recorder();
    let waiting = setup.call(&session("s1"), json!({}), peer);
    open(&mut setup.server, "s1").await;
    let inbox = setup.server.got(Http::GET).await;
    assert_eq!((inbox.header("mcp-session-id"), inbox.header("accept")), ("s1", "text/event-stream"));
    let inbox = inbox.events();
    let asked = setup.server.posted("tools/call").await;
    let client = ClientKey::Session("s1".into());
    inbox.message(json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {}})).await;
    let event = next_event(&mut setup.connected.events).await;
    assert!(matches!(&event, LinkEvent::Notification(Some(key), _) if *key == client), "{event:?}");
    // A question here during a call is for the call's own client.
    inbox.message(json!({"jsonrpc": "2.0", "id": 5, "method": "roots/list"})).await;
    let response = setup.server.responded().await;
    assert_eq!(response.body()["id"], 5);
    response.status(202);
    assert_eq!(received.try_recv().unwrap(), Received::Ask("roots/list".into()));
    asked.result(json!({}));
    whole(soon(waiting).await.unwrap());
    inbox.message(json!({"jsonrpc": "2.0", "id": 6, "method": "roots/list"})).await;
    let LinkEvent::Ask(key, _, reply) = next_event(&mut setup.connected.events).await else {
        panic!("a question")
    };
    assert_eq!(key, Some(client));
    reply.send(Ok(crate::support::raw(json!({"roots": []})))).unwrap();
    assert_eq!(setup.server.responded().await.body()["result"], json!({"roots": []}));
}

#[tokio::test]
async fn an_unused_session_is_ended() {
    let (mut server, scope) = (Server::start().await, Scope::new());
    let mut upstream = target(&server, EraPin::Legacy);
    upstream.timeouts.session_idle = Duration::from_millis(100);
    let offer = offer();
    let play = async {
        open(&mut server, "gateway").await;
        no_inbox(&mut server).await;
    };
    let (connected, ()) = tokio::join!(soon(connect(&upstream, None, &offer, &scope)), play);
    let mut setup = Setup { server, connected: connected.unwrap(), _scope: scope };
    let (waiting, asked) = setup.first_call("s1", Peer::none()).await;
    asked.result(json!({}));
    whole(soon(waiting).await.unwrap());
    let ended = setup.server.got(Http::DELETE).await;
    assert_eq!(ended.header("mcp-session-id"), "s1", "and not the gateway's own");
}

#[tokio::test]
async fn subscriptions_and_level_are_set_up_again_in_a_new_session() {
    let mut setup = setup().await;
    let (waiting, asked) = setup.first_call("old", Peer::none()).await;
    asked.result(json!({}));
    whole(soon(waiting).await.unwrap());
    let subscribe =
        request(&session("old"), Id::number(2), Method::RESOURCES_SUBSCRIBE, json!({"uri": "a:b"}));
    let waiting = tokio::task::spawn(setup.connected.link.call(subscribe, Peer::none()));
    setup.server.posted("resources/subscribe").await.result(json!({}));
    whole(soon(waiting).await.unwrap());
    let waiting = setup.call(&session("old"), json!({}), Peer::none());
    setup.server.posted("tools/call").await.status(404);
    open(&mut setup.server, "new").await;
    no_inbox(&mut setup.server).await;
    let again = setup.server.posted("resources/subscribe").await;
    assert_eq!((again.header("mcp-session-id"), &again.body()["params"]), ("new", &json!({"uri": "a:b"})));
    again.result(json!({}));
    setup.server.posted("tools/call").await.result(json!({"ok": 1}));
    assert_eq!(whole(soon(waiting).await.unwrap()), json!({"ok": 1}));
}

#[tokio::test]
async fn a_server_that_always_hangs_up_at_once_is_not_asked_without_pause_or_end() {
    let mut setup = setup().await;
    let (peer, mut received) = recorder();
    let (waiting, asked) = setup.first_call("s1", peer).await;
    let begun = std::time::Instant::now();
    asked.events().text("id: e1\nretry: 0\ndata:\n\n").await;
    for n in 0..5 {
        let events = setup.server.got(Http::GET).await.events();
        events.text(&format!("id: again{n}\ndata:\n\n")).await;
    }
    assert_eq!(failed(soon(waiting).await.unwrap()).kind, Kind::Lost);
    assert!(begun.elapsed() >= Duration::from_millis(1250), "{:?}", begun.elapsed());
    assert_eq!(received.try_recv().unwrap(), Received::HangUp(Duration::from_millis(250)));
}

#[tokio::test]
async fn a_call_given_up_during_the_handshake_leaves_nothing_behind() {
    let mut setup = setup().await;
    // More than there may be sessions.
    for n in 0..1_010 {
        let waiting = setup.call(&session(&format!("gone{n}")), json!({}), Peer::none());
        let _unanswered = setup.server.posted("initialize").await;
        waiting.abort();
    }
    let (waiting, asked) = setup.first_call("s1", Peer::none()).await;
    asked.result(json!({"ok": 1}));
    assert_eq!(whole(soon(waiting).await.unwrap()), json!({"ok": 1}));
}

/// A session exists already, but its first call does not wait for it any more. False if the call was cancelled too
/// late: an upstream that does not answer the last message of the handshake is not waited for for long.
async fn given_up(setup: &mut Setup, id: &str, last: impl AsyncFnOnce(&mut Server) -> Exchange) -> bool {
    let waiting = setup.call(&session(id), json!({}), Peer::none());
    let exchange = setup.server.posted("initialize").await;
    exchange.result_with(&[("mcp-session-id", id)], &hello());
    let unanswered = last(&mut setup.server).await;
    assert_eq!(unanswered.header("mcp-session-id"), id);
    waiting.abort();
    let is_next = |e: &Exchange| e.method == Http::DELETE || e.body()["method"] == "tools/call";
    let next = setup.server.next_where(is_next).await;
    assert_eq!(next.header("mcp-session-id"), id);
    let is_ended = next.method == Http::DELETE;
    next.status(200);
    if is_ended {
        unanswered.abandoned().await;
    }
    is_ended
}

#[tokio::test]
async fn a_call_given_up_while_its_session_opens_ends_the_session() {
    let mut setup = setup().await;
    let ready = async |server: &mut Server| server.posted("notifications/initialized").await;
    assert!(given_up(&mut setup, "s0", ready).await);
    for attempt in 1..10 {
        let inbox = async |server: &mut Server| {
            server.posted("notifications/initialized").await.status(202);
            server.got(Http::GET).await
        };
        if given_up(&mut setup, &format!("s{attempt}"), inbox).await {
            return;
        }
    }
    panic!("a session was never ended while its stream was waited for");
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_of_the_gateway_is_opened_again_however_often_that_gets_no_answer() {
    let _walking = time_walks();
    let (mut server, scope) = (Server::start().await, Scope::new());
    let mut upstream = target(&server, EraPin::Legacy);
    upstream.timeouts.connect = Duration::from_secs(10);
    let offer = offer();
    let play = async {
        open(&mut server, "gateway").await;
        server.got(Http::GET).await.events()
    };
    let (connected, inbox) = tokio::join!(soon(connect(&upstream, None, &offer, &scope)), play);
    let _connected = connected.unwrap();
    drop(inbox);
    server.got(Http::GET).await.status(404);
    let _unanswered = server.posted("initialize").await;
    open(&mut server, "again").await;
}

#[tokio::test]
async fn a_client_that_goes_while_its_session_opens_leaves_none_behind() {
    let mut setup = setup().await;
    let waiting = setup.call(&session("s1"), json!({}), Peer::none());
    let exchange = setup.server.posted("initialize").await;
    setup.connected.link.forget(&ClientKey::Session("s1".into()));
    exchange.result_with(&[("mcp-session-id", "s1")], &hello());
    setup.server.posted("notifications/initialized").await.status(202);
    no_inbox(&mut setup.server).await;
    let ended = setup.server.got(Http::DELETE).await;
    assert_eq!(ended.header("mcp-session-id"), "s1");
    ended.status(200);
    assert_eq!(failed(soon(waiting).await.unwrap()).kind, Kind::Unavailable);
}

#[tokio::test]
async fn a_link_that_is_let_go_ends_its_sessions_when_their_calls_are_answered() {
    let mut setup = setup().await;
    let (waiting, asked) = setup.first_call("s1", Peer::none()).await;
    soon(setup.connected.link.let_go()).await;
    drop(setup.connected);
    asked.result(json!({"ok": 1}));
    assert_eq!(whole(soon(waiting).await.unwrap()), json!({"ok": 1}));
    for _ in 0..2 {
        setup.server.got(Http::DELETE).await.status(200);
    }
}
