//! Modern upstreams over HTTP.

use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use toolyard_link::http::HttpSpec;
use toolyard_link::{ConnectError, EraPin, Target, Timeouts, Trouble, UpstreamTarget, connect};
use toolyard_model::{Answer, AnswerBody, ClientKey, Connected, LinkRequest, Peer, Relay, RelayKind, Scope};
use toolyard_proto::modern::LogLevel;
use toolyard_proto::{Fault, Id, Kind, Method, Retry, Revision};

use crate::server::{Exchange, Server};
use crate::support::{Received, failed, offer, origin, recorder, request, soon, whole};

pub(crate) fn target(server: &Server, era: EraPin) -> UpstreamTarget {
    let mut headers = http::HeaderMap::new();
    headers.insert("x-key", "secret".parse().unwrap());
    let url = format!("http://{}/mcp?token=hidden", server.address).parse().unwrap();
    let target = Target::Http(HttpSpec::new(url, headers));
    UpstreamTarget { name: "far".into(), target, era, timeouts: Timeouts::default() }
}

/// Connects while the test answers.
pub(crate) async fn connect_to<T>(
    server: &mut Server,
    scope: &Scope,
    play: impl AsyncFnOnce(&mut Server) -> T,
) -> (Result<Connected, ConnectError>, T) {
    let upstream = target(server, EraPin::Auto);
    let offer = offer();
    tokio::join!(soon(connect(&upstream, None, &offer, scope)), play(server))
}

fn description() -> Value {
    json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
}

pub(crate) struct Setup {
    server: Server,
    connected: Connected,
    _scope: Scope,
}

pub(crate) async fn setup() -> Setup {
    let (mut server, scope) = (Server::start().await, Scope::new());
    let connecting = connect_to(&mut server, &scope, async |server| {
        server.posted("server/discover").await.result(description());
    });
    let connected = connecting.await.0.unwrap();
    Setup { server, connected, _scope: scope }
}

fn call(relay: bool, level: Option<&str>) -> LinkRequest {
    let origin = origin(ClientKey::Request(1), Revision::NEWEST);
    if let Some(level) = level {
        origin.log_level.set(LogLevel::parse(level).unwrap());
    }
    let params = json!({"name": "é", "arguments": {}});
    let mut headers = http::HeaderMap::new();
    headers.insert("mcp-param-region", "west".parse().unwrap());
    let request = request(&origin, Id::string("seven"), Method::TOOLS_CALL, params);
    LinkRequest { relay, headers: Some(Box::new(headers)), ..request }
}

/// One call, answered by `play`.
pub(crate) async fn answered(setup: &mut Setup, relay: bool, play: impl AsyncFnOnce(Exchange)) -> Answer {
    answered_at(setup, None, relay, play).await
}

/// The same for a client that asks for log messages of this level.
pub(crate) async fn answered_at(
    setup: &mut Setup,
    level: Option<&str>,
    relay: bool,
    play: impl AsyncFnOnce(Exchange),
) -> Answer {
    let calling = setup.connected.link.call(call(relay, level), Peer::none());
    let playing = async { play(setup.server.posted("tools/call").await).await };
    let (answer, ()) = tokio::join!(soon(calling), playing);
    answer
}

fn relayed(answer: Answer) -> Relay {
    match answer {
        Ok(AnswerBody::Stream(relay)) => relay,
        other => panic!("not relayed: {other:?}"),
    }
}

#[tokio::test]
async fn a_result_is_kept_byte_for_byte_and_the_request_has_all_its_headers() {
    let mut setup = setup().await;
    let text = "{\"jsonrpc\":\"2.0\",  \"id\":\"seven\",\"result\":{\"x\": 1.50}}";
    let answer = answered(&mut setup, true, async |exchange| {
        assert_eq!(
            exchange.text,
            r#"{"jsonrpc":"2.0","id":"seven","method":"tools/call","params":{"name":"é","arguments":{}}}"#
        );
        for (name, value) in [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "=?base64?w6k=?="),
            ("mcp-param-region", "west"),
            ("x-key", "secret"),
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
        ] {
            assert_eq!(exchange.header(name), value, "{name}");
        }
        exchange.send(200, &[("content-type", "application/json; charset=utf-8")], text);
    });
    let Ok(AnswerBody::Whole(result, _)) = answer.await else { panic!("not an answer") };
    assert_eq!(result.as_str(), "{\"x\": 1.50}");
}

#[tokio::test]
async fn an_event_stream_is_relayed_as_it_flows() {
    let mut setup = setup().await;
    let (keep, kept) = tokio::sync::oneshot::channel();
    let answer = answered(&mut setup, true, async |exchange| {
        let events = exchange.events();
        events.text(": hello\n\n").await;
        let _ = keep.send(events);
    });
    let mut relay = relayed(answer.await);
    assert_eq!(relay.kind, RelayKind::Sse);
    let first = soon(relay.frame()).await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, ": hello\n\n");
    kept.await.unwrap().break_off().await;
    assert!(soon(relay.frame()).await.unwrap().is_err(), "a broken answer is not a finished one");
}

#[tokio::test]
async fn a_whole_answer_is_read_from_json_or_events() {
    let mut setup = setup().await;
    let answer = answered(&mut setup, false, async |exchange| exchange.result(json!({"a": 1}))).await;
    assert_eq!(whole(answer), json!({"a": 1}));
    let (peer, mut received) = recorder();
    let origin = origin(ClientKey::Request(1), Revision::NEWEST);
    let params = json!({"name": "t", "arguments": {}, "_meta": {"progressToken": 1}});
    let wants_progress = request(&origin, Id::string("seven"), Method::TOOLS_CALL, params);
    let calling = setup.connected.link.call(wants_progress, peer);
    let playing = async {
        let events = setup.server.posted("tools/call").await.events();
        events
            .message(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"p": 1}}))
            .await;
        events.message(json!({"jsonrpc": "2.0", "id": "seven", "result": {"b": 2}})).await;
        events.abandoned().await;
    };
    let (answer, ()) = tokio::join!(soon(calling), playing);
    assert_eq!(whole(answer), json!({"b": 2}));
    assert_eq!(
        received.try_recv().unwrap(),
        Received::Note("notifications/progress".into(), json!({"p": 1}))
    );
}

#[tokio::test]
async fn a_listen_receives_changes_without_the_subscription_id() {
    let mut setup = setup().await;
    let (peer, mut received) = recorder();
    let origin = origin(ClientKey::Request(1), Revision::NEWEST);
    let listen = request(&origin, Id::string("l"), Method::LISTEN, json!({}));
    let listening = tokio::task::spawn(setup.connected.link.call(listen, peer));
    let events = setup.server.posted("subscriptions/listen").await.events();
    let params = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": "l"}});
    let method = "notifications/tools/list_changed";
    events.message(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    assert_eq!(soon(received.recv()).await.unwrap(), Received::Note(method.into(), json!({})));
    listening.abort();
    events.abandoned().await;
}

#[tokio::test]
async fn dropping_a_call_closes_its_stream() {
    let mut setup = setup().await;
    let calling = tokio::task::spawn(setup.connected.link.call(call(false, None), Peer::none()));
    let events = setup.server.posted("tools/call").await.events();
    calling.abort();
    events.abandoned().await;
}

#[tokio::test]
async fn an_error_of_the_upstream_is_reported_and_one_about_our_hop_is_ours_to_fix() {
    let mut setup = setup().await;
    let mut fail = async |status, code| {
        failed(answered(&mut setup, true, async |exchange| exchange.error(status, code, "reason")).await)
    };
    let error = fail(404, -32601).await;
    assert!(matches!(error.kind, Kind::Reported(_)) && error.code() == -32601, "{error:?}");
    let error = fail(400, -32021).await;
    assert!(matches!(error.kind, Kind::Reported(_)), "{error:?}");
    let error = fail(400, -32020).await;
    assert_eq!(
        (error.kind, error.origin, error.retry),
        (Kind::HeaderMismatch, Fault::Upstream, Retry::Always)
    );
    let error = fail(400, -32022).await;
    assert!(matches!(error.kind, Kind::UnsupportedVersion { .. }) && error.origin == Fault::Upstream);
}

#[tokio::test]
async fn the_error_for_an_http_status_states_what_to_do() {
    let mut setup = setup().await;
    for (status, kind, retry, words) in [
        (401, Kind::TurnedAway, Retry::Never, "requires credentials (HTTP 401); set `headers`"),
        (503, Kind::TurnedAway, Retry::IfIdempotent, "HTTP 503"),
        (429, Kind::TurnedAway, Retry::Always, "HTTP 429"),
        (500, Kind::TurnedAway, Retry::IfIdempotent, "HTTP 500"),
        (418, Kind::TurnedAway, Retry::Never, "HTTP 418"),
    ] {
        let error = failed(answered(&mut setup, true, async |exchange| exchange.status(status)).await);
        assert_eq!((&error.kind, error.retry), (&kind, retry), "{status}");
        assert!(error.message().contains(words) && error.message().contains("`far`"), "{error}");
        assert!(!error.message().contains("hidden"), "a query may hold a secret: {error}");
    }
}

#[tokio::test]
async fn the_wait_that_a_refusal_asks_for_is_part_of_the_error() {
    const NOON: &str = "Sun, 06 Nov 1994 12:00:00 GMT";
    let mut setup = setup().await;
    for (after, wait) in [
        ("7", Some(7)),
        ("0", Some(0)),
        ("Sun, 06 Nov 1994 12:01:30 GMT", Some(90)),
        ("Sunday, 06-Nov-94 12:00:05 GMT", Some(5)),
        ("Sun Nov  6 12:00:06 1994", Some(6)),
        ("Sun, 06 Nov 1994 11:00:00 GMT", Some(0)),
        ("soon", None),
        ("-1", None),
    ] {
        for (status, wait) in [(429, wait), (503, wait), (500, None)] {
            let headers = [("date", NOON), ("retry-after", after)];
            let refuse = async |exchange: Exchange| exchange.send(status, &headers, "");
            let error = failed(answered(&mut setup, true, refuse).await);
            assert_eq!(error.retry_after, wait.map(Duration::from_secs), "{status} {after}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_lost() {
    let mut setup = setup().await;
    let error = failed(answered(&mut setup, false, async |exchange| drop(exchange)).await);
    assert_eq!(error.kind, Kind::Lost);
    let broken = async |exchange: Exchange| {
        let events = exchange.events();
        events.text("data: {\"jsonrpc\":").await;
        events.break_off().await;
    };
    let error = failed(answered(&mut setup, false, broken).await);
    assert_eq!(error.kind, Kind::Lost);
    let ended = async |exchange: Exchange| drop(exchange.events());
    let error = failed(answered(&mut setup, false, ended).await);
    assert_eq!((error.kind, error.retry), (Kind::Lost, Retry::IfIdempotent));
    let odd = async |exchange: Exchange| exchange.send(200, &[("content-type", "text/html")], "<p>");
    assert_eq!(failed(answered(&mut setup, true, odd).await).kind, Kind::BadAnswer);
}

#[tokio::test]
async fn a_refused_connection_is_reported_clearly_and_as_never_sent() {
    let scope = Scope::new();
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let url = format!("http://{free}/mcp").parse().unwrap();
    let target = Target::Http(HttpSpec::new(url, http::HeaderMap::new()));
    let upstream =
        UpstreamTarget { name: "far".into(), target, era: EraPin::Auto, timeouts: Timeouts::default() };
    let error = soon(connect(&upstream, None, &offer(), &scope)).await.unwrap_err();
    assert_eq!(error.trouble, Trouble::Unreachable);
    let text = error.to_string();
    assert!(text.contains(&free.to_string()) && text.contains("refused"), "{text}");
    soon(scope.end()).await;
}

#[tokio::test]
async fn neither_credentials_nor_server_errors_are_evidence_of_an_era() {
    let scope = Scope::new();
    for (status, trouble) in
        [(401, Trouble::Credentials), (500, Trouble::Unreachable), (429, Trouble::Unreachable)]
    {
        let mut server = Server::start().await;
        let connecting = connect_to(&mut server, &scope, async |server| {
            server.posted("server/discover").await.status(status);
        });
        assert_eq!(connecting.await.0.unwrap_err().trouble, trouble, "{status}");
    }
}

#[tokio::test]
async fn a_server_without_a_version_in_common_is_not_initialised() {
    let (mut server, scope) = (Server::start().await, Scope::new());
    let connecting = connect_to(&mut server, &scope, async |server| {
        let exchange = server.posted("server/discover").await;
        let error = json!({"code": -32022, "message": "no", "data": {"supported": ["2031-01-01"]}});
        let text = json!({"jsonrpc": "2.0", "id": exchange.body()["id"], "error": error}).to_string();
        exchange.send(400, &[("content-type", "application/json")], &text);
    });
    let error = connecting.await.0.unwrap_err();
    assert_eq!(error.trouble, Trouble::Incompatible);
    assert!(error.to_string().contains("2031-01-01"), "{error}");
}

#[tokio::test]
async fn an_attempt_over_http_sse_is_reported() {
    let (mut server, scope) = (Server::start().await, Scope::new());
    let connecting = connect_to(&mut server, &scope, async |server| {
        server.posted("server/discover").await.status(405);
        server.posted("initialize").await.status(405);
        server.got(http::Method::GET).await.status(404);
    });
    let error = connecting.await.0.unwrap_err();
    assert_eq!(error.trouble, Trouble::Incompatible);
    let text = error.to_string();
    assert!(text.contains("405") && text.contains("404"), "both attempts are named: {text}");
}

#[tokio::test]
async fn a_link_that_is_let_go_cuts_no_call_and_one_that_is_closed_does() {
    for is_closed in [false, true] {
        let Setup { mut server, connected, _scope } = setup().await;
        let waiting = tokio::task::spawn(connected.link.call(call(false, None), Peer::none()));
        let exchange = server.posted("tools/call").await;
        soon(if is_closed { connected.link.close() } else { connected.link.let_go() }).await;
        drop(connected);
        if is_closed {
            assert_eq!(failed(soon(waiting).await.unwrap()).label(), "lost");
        } else {
            exchange.result(json!({"ok": 1}));
            assert_eq!(whole(soon(waiting).await.unwrap()), json!({"ok": 1}));
        }
    }
}
