//! What happens to a call on its way.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::Instant;
use toolyard_model::{AnswerBody, Ask};
use toolyard_proto::{CallError, Method, Notification, Raw, Revision};

use crate::support::{Behaviour, Client, Double, gateway, raw};

const NEW: Revision = Revision::NEWEST;
const OLD: Revision = Revision::NEWEST_LEGACY;

#[tokio::test(start_paused = true)]
async fn a_tool_is_called_under_its_own_name_by_either_of_its_shown_ones() {
    let double = Double::new(NEW, &["read"]);
    let client = Client::new(&gateway(&[("files", &double)]), NEW, "");
    assert_eq!(client.tools().await, ["files__read"]);
    for name in ["files__read", "files:read"] {
        client.call(name, json!({ "n": 1 })).await.unwrap();
        let (_, params) = double.seen.lock().pop().unwrap();
        assert_eq!(params.as_str(), r#"{"name":"read","arguments":{"n":1}}"#);
    }
    assert_eq!(client.call("read", json!({})).await.unwrap_err().code(), -32602);
}

#[tokio::test(start_paused = true)]
async fn duplicate_members_that_decide_a_request_are_rejected() {
    let double = Double::new(NEW, &["read", "delete"]);
    let gateway = gateway(&[("files", &double)]);
    let check = async |view: &str, method: &str, params: &str| {
        let client = Client::new(&gateway, NEW, view);
        let refused = client.send_exactly(method, Raw::parse(params.to_owned()).unwrap()).await.unwrap_err();
        assert_eq!(refused.code(), -32602, "{method}: {refused:?}");
        assert!(refused.message().contains("duplicate"), "{refused:?}");
    };
    check("files", "tools/call", r#"{"name":"delete","n\u0061me":"read"}"#).await;
    check("", "tools/call", r#"{"name":"files__delete","name":"files__read"}"#).await;
    check("", "resources/read", r#"{"uri":"a:b","uri":"c:d"}"#).await;
    check("", "completion/complete", r#"{"ref":{},"ref":{"type":"ref/prompt","name":"x"}}"#).await;
    assert!(double.seen.lock().iter().all(|(method, _)| method.as_str() != "tools/call"));
}

#[tokio::test(start_paused = true)]
async fn names_that_could_be_confused_lead_to_their_own_tools() {
    let (one, two) = (Double::new(NEW, &["b__c"]), Double::new(NEW, &["c"]));
    let client = Client::new(&gateway(&[("a", &one), ("a__b", &two)]), NEW, "");
    let names = client.tools().await;
    assert_eq!(names.len(), 2);
    for (name, own, double) in [(&names[0], "b__c", &one), (&names[1], "c", &two)] {
        client.call(name, json!({})).await.unwrap();
        let (_, params) = double.seen.lock().pop().unwrap();
        assert_eq!(params.member("name").unwrap().as_string().unwrap(), own);
    }
}

#[tokio::test(start_paused = true)]
async fn a_view_of_one_upstream_changes_nothing() {
    let double = Double::new(NEW, &["read"]);
    let client = Client::new(&gateway(&[("files", &double)]), NEW, "files");
    assert_eq!(client.tools().await, ["read"]);
    client.call("read", json!({})).await.unwrap();
    client.ask("vendor/method", json!({ "x": [1, 2] })).await.unwrap();
    let (method, params) = double.seen.lock().pop().unwrap();
    assert_eq!((method.as_str(), params.as_str()), ("vendor/method", r#"{"x":[1,2]}"#));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_method_is_refused_where_it_has_no_owner_and_removed_ones_everywhere() {
    let double = Double::new(NEW, &["read"]);
    let gateway = gateway(&[("files", &double)]);
    let everything = Client::new(&gateway, NEW, "");
    assert_eq!(everything.ask("vendor/method", json!({})).await.unwrap_err().code(), -32601);
    for method in ["ping", "initialize", "logging/setLevel", "resources/subscribe"] {
        for view in ["", "files"] {
            let error = Client::new(&gateway, NEW, view).ask(method, json!({})).await.unwrap_err();
            assert_eq!(error.code(), -32601, "{method} in {view:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_calls_answered_out_of_order_reach_their_own_callers() {
    let shuffled: Behaviour = Arc::new(|request, _| {
        Box::pin(async move {
            let n = request.params.at(&["arguments", "n"]).unwrap();
            let turn: u64 = n.read::<u64>().unwrap() * 7919 % 1000;
            tokio::time::sleep(Duration::from_millis(turn)).await;
            Ok(AnswerBody::ours(raw(json!({ "n": n }))))
        })
    });
    let doubles: Vec<Arc<Double>> = (0..3).map(|_| Double::with(NEW, &["t"], shuffled.clone())).collect();
    let gateway = gateway(&[("a", &doubles[0]), ("b", &doubles[1]), ("c", &doubles[2])]);
    let client = Client::new(&gateway, NEW, "");
    client.tools().await;
    let calls = (0..1000).map(|n| {
        let name = ["a__t", "b__t", "c__t"][n % 3];
        let client = &client;
        async move { (n, client.call(name, json!({ "n": n })).await.unwrap()) }
    });
    for (n, answer) in join_all(calls).await {
        assert_eq!(answer["n"], n);
    }
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_call_as_a_failed_tool_with_advice() {
    let silent: Behaviour = Arc::new(|_, _| Box::pin(std::future::pending()));
    let double = Double::with(NEW, &["t"], silent);
    let client = Client::new(&gateway(&[("a", &double)]), NEW, "");
    client.tools().await;
    let started = Instant::now();
    let result = client.call("a__t", json!({})).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(30));
    assert_eq!(result["isError"], true);
    assert_eq!(
        result["_meta"]["dev.toolyard/error"],
        json!({ "origin": "upstream", "upstream": "a", "kind": "timeout", "retry": "if-idempotent" })
    );
    assert!(result["content"][0]["text"].as_str().unwrap().contains("a:t made no progress for 30 s"));
    assert_eq!(double.dropped.load(Ordering::SeqCst), 1, "the call upstream was dropped");
}

#[tokio::test(start_paused = true)]
async fn progress_keeps_a_call_alive_and_reaches_the_client_in_order() {
    let slow: Behaviour = Arc::new(|_, peer| {
        Box::pin(async move {
            for n in 0..5 {
                tokio::time::sleep(Duration::from_secs(20)).await;
                peer.notify(Notification::new(Method::PROGRESS, raw(json!({ "progress": n }))));
            }
            Ok(AnswerBody::ours(raw(json!({ "content": [] }))))
        })
    });
    let double = Double::with(NEW, &["t"], slow);
    let client = Client::new(&gateway(&[("a", &double)]), NEW, "");
    client.tools().await;
    client.call("a__t", json!({})).await.unwrap();
    let received: Vec<String> =
        client.inbox.received.lock().iter().map(|n| n.params.as_ref().unwrap().as_str().to_owned()).collect();
    assert_eq!(received, (0..5).map(|n| format!(r#"{{"progress":{n}}}"#)).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_disconnects_ends_its_call() {
    let silent: Behaviour = Arc::new(|_, _| Box::pin(std::future::pending()));
    let double = Double::with(NEW, &["t"], silent);
    let client = Client::new(&gateway(&[("a", &double)]), NEW, "");
    client.tools().await;
    let call = client.send("tools/call", json!({ "name": "a__t" }));
    tokio::select! {
        _ = call => unreachable!(),
        () = tokio::time::sleep(Duration::from_secs(1)) => {}
    }
    assert_eq!(double.dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn errors_of_an_upstream_are_passed_on_unchanged() {
    let error = r#"{"code":-32602,"message":"no","data":{"x":1.50},"extra":true}"#;
    let reporting: Behaviour = Arc::new(move |_, _| {
        Box::pin(async move { Err(CallError::reported(toolyard_proto::Raw::parse(error).unwrap())) })
    });
    let double = Double::with(NEW, &["t"], reporting);
    let client = Client::new(&gateway(&[("a", &double)]), NEW, "");
    client.tools().await;
    assert_eq!(client.call("a__t", json!({})).await.unwrap_err().to_raw().as_str(), error);
}

#[tokio::test(start_paused = true)]
async fn resource_links_in_answers_lead_back_to_their_upstream() {
    let linking: Behaviour = Arc::new(|request, _| {
        Box::pin(async move {
            let result = match request.method.as_str() {
                "tools/call" => {
                    json!({ "content": [{ "type": "resource_link", "uri": "file:///x", "name": "x" }] })
                }
                _ => json!({ "contents": [{ "uri": request.params.member("uri"), "text": "hi" }] }),
            };
            Ok(AnswerBody::ours(raw(result)))
        })
    });
    let double = Double::with(NEW, &["t"], linking);
    double.resources.lock().push(json!({ "uri": "file:///x", "name": "x" }));
    let gateway = gateway(&[("a", &double)]);
    let client = Client::new(&gateway, NEW, "");
    assert_eq!(client.names("resources/list", "resources", "uri").await, ["yard+file://a//x"]);
    let result = client.call("a__t", json!({})).await.unwrap();
    let link = result["content"][0]["uri"].as_str().unwrap().to_owned();
    assert_eq!(link, "yard+file://a//x");
    let read = client.ask("resources/read", json!({ "uri": link })).await.unwrap();
    assert_eq!(read["contents"][0]["uri"], link.as_str());
    assert_eq!(double.seen.lock().last().unwrap().1.as_str(), r#"{"uri":"file:///x"}"#);
    let alone =
        Client::new(&gateway, NEW, "a").ask("resources/read", json!({ "uri": "file:///x" })).await.unwrap();
    assert_eq!(alone["contents"][0]["uri"], "file:///x");
}

#[tokio::test(start_paused = true)]
async fn a_completion_finds_the_owner_of_its_prompt() {
    let double = Double::new(NEW, &[]);
    double.prompts.lock().push(json!({ "name": "greet" }));
    let client = Client::new(&gateway(&[("a", &double)]), NEW, "");
    assert_eq!(client.names("prompts/list", "prompts", "name").await, ["a__greet"]);
    let params = json!({ "ref": { "type": "ref/prompt", "name": "a__greet" }, "argument": { "name": "x", "value": "" } });
    client.ask("completion/complete", params).await.unwrap();
    let (_, params) = double.seen.lock().pop().unwrap();
    assert_eq!(params.at(&["ref", "name"]).unwrap().as_str(), "\"greet\"");
}

/// Round one asks two things, round two echoes what it got.
fn asking() -> Behaviour {
    Arc::new(|request, _| {
        Box::pin(async move {
            let result = match request.params.member("inputResponses") {
                None => json!({
                    "resultType": "input_required",
                    "requestState": "s1",
                    "inputRequests": {
                        "name": { "method": "elicitation/create", "params": { "message": "who?" } },
                        "roots": { "method": "roots/list" },
                    },
                }),
                Some(responses) => {
                    json!({ "state": request.params.member("requestState"), "got": responses })
                }
            };
            Ok(AnswerBody::ours(raw(result)))
        })
    })
}

#[tokio::test(start_paused = true)]
async fn a_legacy_client_is_asked_the_questions_of_a_modern_upstream() {
    let double = Double::with(NEW, &["t"], asking());
    let client = Client::new(&gateway(&[("a", &double)]), OLD, "");
    client.tools().await;
    *client.inbox.reply.lock() = Some(json!({ "ok": true }));
    let result = client.call("a__t", json!({})).await.unwrap();
    assert_eq!(result, json!({ "state": "s1", "got": { "name": { "ok": true }, "roots": { "ok": true } } }));
    let asked: Vec<Ask> = client.inbox.asked.lock().clone();
    assert_eq!(
        asked.iter().map(|ask| ask.method.as_str()).collect::<Vec<_>>(),
        ["elicitation/create", "roots/list"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_newer_client_gets_the_same_question_untouched() {
    let double = Double::with(NEW, &["t"], asking());
    let mut client = Client::new(&gateway(&[("a", &double)]), NEW, "");
    client.declare(json!({ "elicitation": {}, "roots": {} }));
    client.tools().await;
    let result = client.call("a__t", json!({})).await.unwrap();
    assert_eq!(
        (result["resultType"].as_str(), result["requestState"].as_str()),
        (Some("input_required"), Some("s1"))
    );
}

#[tokio::test(start_paused = true)]
async fn answers_of_a_legacy_upstream_carry_the_modern_stamps() {
    let double = Double::new(OLD, &["t"]);
    let client = Client::new(&gateway(&[("a", &double)]), NEW, "");
    client.tools().await;
    let params = json!({ "name": "a__t", "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": 1, "v/x": 2 } });
    let result = client.ask("tools/call", params).await.unwrap();
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "double");
    let (_, params) = double.seen.lock().pop().unwrap();
    assert_eq!(params.as_str(), r#"{"name":"t","_meta":{"progressToken":1,"v/x":2}}"#);
}

#[tokio::test(start_paused = true)]
async fn task_ids_find_their_way_back() {
    let tasks: Behaviour = Arc::new(|request, _| {
        Box::pin(async move {
            let id = request.params.member("taskId").and_then(|id| id.as_string()).unwrap_or("t.1".into());
            Ok(AnswerBody::ours(raw(json!({ "resultType": "task", "taskId": id }))))
        })
    });
    let double = Double::with(NEW, &["t"], tasks);
    let gateway = gateway(&[("a", &double)]);
    let mut client = Client::new(&gateway, NEW, "");
    client.tools().await;
    assert_eq!(client.ask("tasks/get", json!({ "taskId": "a.x" })).await.unwrap_err().code(), -32021);
    client.declare(json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }));
    let created = client.call("a__t", json!({})).await.unwrap();
    assert_eq!(created["taskId"], "a.t.1");
    let got = client.ask("tasks/get", json!({ "taskId": "a.t.1" })).await.unwrap();
    assert_eq!(got["taskId"], "a.t.1");
    assert_eq!(double.seen.lock().last().unwrap().1.as_str(), r#"{"taskId":"t.1"}"#);
    for unknown in ["x", "missing.t"] {
        assert_eq!(client.ask("tasks/get", json!({ "taskId": unknown })).await.unwrap_err().code(), -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn an_upstreams_error_about_our_own_hop_is_not_passed_on() {
    let picky: Behaviour = Arc::new(|_, _| {
        Box::pin(async {
            let error = CallError::header_mismatch("Mcp-Param-Region is required");
            Err(error.with_origin(toolyard_proto::Fault::Upstream))
        })
    });
    let double = Double::with(NEW, &["t"], picky);
    let client = Client::new(&gateway(&[("a", &double)]), NEW, "");
    client.tools().await;
    let result = client.call("a__t", json!({})).await.unwrap();
    assert_eq!(result["_meta"]["dev.toolyard/error"]["kind"], "turned-away");
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_without_a_message_restarts_the_idle_time() {
    for upstream in [NEW, OLD] {
        let behaviour: Behaviour = Arc::new(move |request, peer| {
            Box::pin(async move {
                for _ in 0..9 {
                    tokio::time::sleep(Duration::from_secs(50)).await;
                    peer.alive();
                }
                if request.params.at(&["arguments", "silent"]).is_some() {
                    tokio::time::sleep(Duration::from_secs(1000)).await;
                }
                Ok(AnswerBody::Whole(raw(json!({ "content": [], "resultType": "complete" })), upstream))
            })
        });
        let double = Double::with(upstream, &["read"], behaviour);
        let client = Client::new(&gateway(&[("files", &double)]), NEW, "");
        client.call("files__read", json!({})).await.unwrap();
        let silent = client.call("files__read", json!({ "silent": true })).await;
        assert!(silent.is_err() || silent.is_ok_and(|result| result["isError"] == true));
    }
}
