//! What a legacy client gets over HTTP: handshake, session, calls, questions, subscriptions, batches.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use toolyard_model::{ClientKey, Principal};
use toolyard_proto::Method;
use toolyard_serve::Options;
use toolyard_serve::admit::Gate;

use crate::support::{World, initialize, until, world, world_with};

fn call(id: u64, name: &str, arguments: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": arguments } })
}

async fn cancel(world: &World, session: &str, id: u64) {
    let body =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    assert_eq!(world.post(&[("mcp-session-id", session)], &body).await.status, 202);
}

#[tokio::test]
async fn a_handshake_gives_what_the_client_knows() {
    let world = world().await;
    for (asked, given) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let reply = world.post(&[("mcp-protocol-version", asked)], &initialize(asked)).await;
        let expected = json!({
            "protocolVersion": given,
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "double", "version": "1" },
            "instructions": "be kind",
        });
        assert_eq!((reply.status, &reply.json()["result"]), (200, &expected), "{asked}");
        let session = reply.header("mcp-session-id");
        assert!(session.len() >= 22 && session.bytes().all(|byte| byte.is_ascii_graphic()), "{session}");
    }
    let broken = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} });
    let reply = world.post(&[], &broken).await;
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (200, &json!(-32602)));
}

#[tokio::test]
async fn answers_come_in_the_old_form_and_errors_in_200() {
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    for (method, params, expected) in [
        ("ping", json!({}), json!({ "result": {} })),
        ("logging/setLevel", json!({ "level": "info" }), json!({ "result": {} })),
        ("tools/list", json!({}), json!({ "result": { "tools": [] } })),
        (
            "tools/call",
            json!({ "name": "echo" }),
            json!({ "result": { "content": [{ "type": "text", "text": "echo" }] } }),
        ),
        ("tools/call", json!({ "name": "missing_capability" }), json!(-32603)),
        ("tools/call", json!({ "name": "lost" }), json!(-32603)),
        ("logging/setLevel", json!({ "level": "loud" }), json!(-32602)),
        ("resources/read", json!({ "uri": "a:b" }), json!(-32002)),
        ("unknown/method", json!({}), json!(-32601)),
        ("server/discover", json!({ "_meta": {} }), json!(-32602)),
        ("initialize", json!({}), json!(-32602)),
    ] {
        let reply = world.legacy(&session, method, params).await;
        let mut body = reply.json();
        let (id, _) = (body["id"].take(), body.as_object_mut().unwrap().remove("jsonrpc"));
        let got = if body["error"].is_object() {
            body["error"]["code"].clone()
        } else {
            json!({ "result": body["result"] })
        };
        assert_eq!((&id, &got), (&json!(1), &expected), "{method}");
        // A modern method is answered as to a modern client, whatever session comes with it.
        assert_eq!(reply.status, if method == "server/discover" { 400 } else { 200 }, "{method}");
    }
}

#[tokio::test]
async fn a_session_is_visible_only_to_the_client_that_opened_it() {
    let gate = Gate::open().with_token(Principal::token("ann"), "a").with_token(Principal::token("bob"), "b");
    let world = world_with(Options { gate, ..Options::default() }).await;
    let reply = world.post(&[("authorization", "Bearer a")], &initialize("2025-11-25")).await;
    let session = reply.header("mcp-session-id").to_owned();
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    for (token, path, session, status) in [
        ("Bearer a", "/mcp", session.as_str(), 200),
        ("Bearer b", "/mcp", &session, 404),
        ("Bearer a", "/mcp/files", &session, 404),
        ("Bearer a", "/mcp", "other", 404),
    ] {
        let headers =
            &[("authorization", token), ("mcp-session-id", session), ("content-type", "application/json")];
        assert_eq!(world.send("POST", path, headers, &ping).await.status, status, "{token} {path}");
    }
}

#[tokio::test]
async fn delete_ends_a_session() {
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    let headers = &[("mcp-session-id", session.as_str())];
    assert_eq!(world.send("DELETE", "/mcp", headers, "").await.status, 204);
    assert_eq!(world.send("DELETE", "/mcp", headers, "").await.status, 404);
    assert_eq!(world.legacy(&session, "tools/list", json!({})).await.status, 404);
    let ended = world.double.ended.lock();
    assert!(matches!(&ended[..], [ClientKey::Session(name)] if !session.contains(&**name)));
    assert_eq!(world.endpoint.sessions(), 0);
}

#[tokio::test]
async fn an_idle_session_ends_and_a_busy_one_stays() {
    let world = world().await;
    let (idle, busy) = (world.initialize("2025-11-25").await, world.initialize("2025-11-25").await);
    let _watching = world.open_get(&[("mcp-session-id", &busy)]).await;
    tokio::time::pause();
    for _ in 0..70 {
        tokio::time::advance(Duration::from_mins(1)).await;
        tokio::task::yield_now().await;
    }
    tokio::time::resume();
    until("one session is left", || world.endpoint.sessions() == 1).await;
    assert_eq!(world.legacy(&idle, "ping", json!({})).await.status, 404);
    assert_eq!(world.legacy(&busy, "ping", json!({})).await.status, 200);
}

#[tokio::test]
async fn the_idlest_session_makes_room_for_a_new_one() {
    let world = world_with(Options { sessions: 2, ..Options::default() }).await;
    let first = world.initialize("2025-11-25").await;
    let second = world.initialize("2025-11-25").await;
    world.legacy(&first, "ping", json!({})).await;
    let third = world.initialize("2025-11-25").await;
    for (session, status) in [(first, 200), (second, 404), (third, 200)] {
        assert_eq!(world.legacy(&session, "ping", json!({})).await.status, status);
    }
}

#[tokio::test]
async fn a_lost_connection_does_not_end_a_call_but_a_cancel_does() {
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    let open = world.open_legacy(&session, "tools/call", json!({ "name": "wait" }));
    let begun = world.double.started.load(Ordering::SeqCst) + 1;
    tokio::select! {
        _ = open => panic!("there is no answer"),
        () = until("the call has begun", || world.double.started.load(Ordering::SeqCst) == begun) => {}
    }
    let reply = world.legacy(&session, "tools/call", json!({ "name": "echo" })).await;
    assert_eq!(reply.json()["error"]["code"], -32600, "the id is still in use");
    cancel(&world, &session, 1).await;
    until("the call is dropped", || world.double.dropped.load(Ordering::SeqCst) == 1).await;
    let reply = world.legacy(&session, "tools/call", json!({ "name": "echo" })).await;
    assert_eq!(reply.json()["id"], 1, "the id is free again");
}

#[tokio::test]
async fn a_cancelled_call_ends_without_a_response() {
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    let headers = &[("mcp-session-id", session.as_str())];
    let begun = world.double.started.load(Ordering::SeqCst) + 1;
    let silent = call(7, "hang", &json!({}));
    let (reply, ()) = tokio::join!(world.post(headers, &silent), async {
        until("the call has begun", || world.double.started.load(Ordering::SeqCst) == begun).await;
        cancel(&world, &session, 7).await;
    });
    assert_eq!((reply.status, reply.events()), (200, vec![]));
    let mut live = world.open_post(headers, &call(8, "notify_and_wait", &json!({}))).await;
    assert_eq!(live.message().await.unwrap()["method"], "notifications/progress");
    cancel(&world, &session, 8).await;
    assert_eq!(live.message().await, None);
}

#[tokio::test]
async fn a_question_travels_on_the_stream_of_its_call() {
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    let headers = &[("mcp-session-id", session.as_str())];
    for (answer, expected) in [
        (json!({ "result": { "action": "accept" } }), "reply {\"action\":\"accept\"}"),
        (json!({ "error": { "code": -1, "message": "no" } }), "error the client answered with an error"),
    ] {
        let mut live = world.open_post(headers, &call(1, "ask", &json!({}))).await;
        let mut question = live.message().await.unwrap();
        assert_eq!(
            (&question["method"], &question["params"]),
            (&json!("elicitation/create"), &json!({ "message": "?" }))
        );
        let mut answer = answer;
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = question["id"].take();
        assert_eq!(world.post(headers, &answer).await.status, 202);
        assert_eq!(live.message().await.unwrap()["result"]["content"][0]["text"], expected);
        assert_eq!(live.message().await, None);
        // A second answer is ignored.
        assert_eq!(world.post(headers, &answer).await.status, 202);
    }
    assert_eq!(world.endpoint.counts().unmatched.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn an_unanswered_question_times_out() {
    let options = Options { ask_timeout: Duration::from_millis(20), ..Options::default() };
    let world = world_with(options).await;
    let session = world.initialize("2025-06-18").await;
    let reply = world.legacy(&session, "tools/call", json!({ "name": "ask" })).await;
    let events = reply.events();
    assert_eq!(events[1]["method"], "notifications/cancelled");
    assert_eq!(events[1]["params"]["requestId"], events[0]["id"]);
    assert_eq!(events[2]["result"]["content"][0]["text"], "error the client did not answer in time");
}

#[tokio::test]
async fn a_client_is_asked_only_what_it_can() {
    let world = world().await;
    let mut hello = initialize("2025-11-25");
    hello["params"]["capabilities"] = json!({ "sampling": {} });
    let session = world.post(&[], &hello).await.header("mcp-session-id").to_owned();
    let reply = world.legacy(&session, "tools/call", json!({ "name": "ask" })).await;
    assert!(reply.body.contains("did not declare the capability"), "{}", reply.body);
}

#[tokio::test]
async fn log_messages_are_filtered_once_a_level_is_set() {
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    for (level, expected) in [(None, 3), (Some("warning"), 2), (Some("emergency"), 0)] {
        if let Some(level) = level {
            world.legacy(&session, "logging/setLevel", json!({ "level": level })).await;
        }
        let reply = world.legacy(&session, "tools/call", json!({ "name": "log" })).await;
        assert_eq!(reply.body.matches("notifications/message").count(), expected, "{level:?}");
    }
}

#[tokio::test]
async fn a_subscription_is_open_once_it_is_acknowledged() {
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    let mut outside = world.open_get(&[("mcp-session-id", &session)]).await;
    for (uri, expected) in
        [("known:a", json!({ "result": {} })), ("unknown:a", json!(-32602)), ("refused:a", json!(-32602))]
    {
        let body = world.legacy(&session, "resources/subscribe", json!({ "uri": uri })).await.json();
        let got = if body["error"].is_object() {
            body["error"]["code"].clone()
        } else {
            json!({ "result": body["result"] })
        };
        assert_eq!(got, expected, "{uri}");
    }
    let updated = || world.double.announce(&Method::RESOURCE_UPDATED, Some(&json!({ "uri": "known:a" })));
    updated();
    let expected = json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": "known:a" } });
    assert_eq!(outside.message().await.unwrap(), expected);
    let dropped = world.double.dropped.load(Ordering::SeqCst);
    world.legacy(&session, "resources/unsubscribe", json!({ "uri": "known:a" })).await;
    until("the listen is dropped", || world.double.dropped.load(Ordering::SeqCst) == dropped + 1).await;
    // Only the session's own listener is left, and it receives changes but no updates.
    world.double.listeners.lock().truncate(1);
    updated();
    world.double.announce(&Method::TOOLS_CHANGED, None);
    assert_eq!(outside.message().await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_newer_stream_replaces_the_older_and_loses_nothing() {
    let world = world().await;
    let session = world.initialize("2025-06-18").await;
    let headers = &[("mcp-session-id", session.as_str())];
    world.double.announce(&Method::TOOLS_CHANGED, None);
    let mut older = world.open_get(headers).await;
    assert_eq!(older.message().await.unwrap()["method"], "notifications/tools/list_changed");
    let mut newer = world.open_get(headers).await;
    assert_eq!(older.message().await, None);
    world.double.announce(&Method::PROMPTS_CHANGED, None);
    assert_eq!(newer.message().await.unwrap()["method"], "notifications/prompts/list_changed");
    let reply = world.send("GET", "/mcp", &[headers[0], ("accept", "application/json")], "").await;
    assert_eq!(reply.status, 406);
}

#[tokio::test]
async fn batches_are_for_the_one_revision_that_had_them() {
    let world = world().await;
    let both = json!([call(1, "echo", &json!({})), { "jsonrpc": "2.0", "method": "notifications/x" }, 7, call(2, "big", &json!({ "size": 1 }))]);
    for (revision, status) in
        [("2024-11-05", 400), ("2025-06-18", 400), ("2025-11-25", 400), ("2025-03-26", 200)]
    {
        let session = world.initialize(revision).await;
        let reply = world.post(&[("mcp-session-id", &session)], &both).await;
        assert_eq!(reply.status, status, "{revision}");
        if status == 200 {
            let mut ids: Vec<String> =
                reply.json().as_array().unwrap().iter().map(|answer| answer["id"].to_string()).collect();
            ids.sort();
            assert_eq!(ids, ["1", "2", "null"]);
            assert!(!reply.body.contains("null"));
            let only = json!([{ "jsonrpc": "2.0", "method": "notifications/x" }]);
            assert_eq!(world.post(&[("mcp-session-id", &session)], &only).await.status, 202);
            let noisy = json!([call(1, "echo", &json!({})), call(2, "notify", &json!({ "count": 2 }))]);
            let reply = world.post(&[("mcp-session-id", &session)], &noisy).await;
            assert_eq!((reply.header("content-type"), reply.events().len()), ("text/event-stream", 4));
        }
    }
}

#[tokio::test]
async fn notifications_reach_the_handler_but_for_those_of_the_handshake() {
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    for method in ["notifications/initialized", "notifications/roots/list_changed"] {
        let body = json!({ "jsonrpc": "2.0", "method": method });
        assert_eq!(world.post(&[("mcp-session-id", &session)], &body).await.status, 202);
    }
    assert_eq!(*world.double.notices.lock(), ["notifications/roots/list_changed"]);
}

#[tokio::test]
async fn the_end_of_the_endpoint_ends_sessions_and_streams() {
    let world = world().await;
    let session = world.initialize("2025-11-25").await;
    let mut outside = world.open_get(&[("mcp-session-id", &session)]).await;
    let (message, ()) = tokio::join!(outside.message(), world.endpoint.end(Duration::from_secs(5)));
    assert_eq!(message, None);
    assert_eq!((world.endpoint.sessions(), world.double.ended.lock().len()), (0, 1));
    tokio::time::timeout(Duration::from_secs(5), world.scope.end()).await.unwrap();
}

#[tokio::test]
async fn a_batch_to_a_session_that_is_gone_gets_an_error() {
    let world = world().await;
    let session = world.initialize("2025-03-26").await;
    let headers = &[("mcp-session-id", session.as_str())];
    assert_eq!(world.send("DELETE", "/mcp", headers, "").await.status, 204);
    let reply = world.post(headers, &json!([call(1, "echo", &json!({}))])).await;
    assert_eq!(reply.status, 404, "{reply:?}");
}
