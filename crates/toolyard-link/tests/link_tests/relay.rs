//! Answers of modern servers to modern clients, which are checked although they pass as they come. A rogue server
//! never gets more than one right answer to the client.

use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use toolyard_model::{Answer, AnswerBody, Relay};
use toolyard_proto::{CallError, Kind};

use crate::modern::{answered, answered_at, setup};
use crate::server::Exchange;
use crate::support::{failed, logged, soon, whole};

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

async fn answer_with(text: String) -> Answer {
    let mut setup = setup().await;
    answered(&mut setup, true, async move |exchange: Exchange| exchange.send(200, JSON, &text)).await
}

fn response(id: &str, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}

#[tokio::test]
async fn a_small_json_answer_is_checked_before_the_first_byte() {
    let good = answer_with(response("seven", &json!({ "n": 1 }))).await;
    assert_eq!(whole(good), json!({ "n": 1 }));
    for text in [
        response("eight", &json!({})),
        "<p>no".to_owned(),
        "{\"jsonrpc\":\"2.0\",\"id\":\"seven\",\"res".to_owned(),
        json!({ "jsonrpc": "2.0", "id": "seven", "method": "ping" }).to_string(),
        format!("{}{}", response("seven", &json!({})), response("seven", &json!({}))),
        format!(r#"{{"jsonrpc":"2.0","id":"seven","result":{}{}}}"#, "[".repeat(200), "]".repeat(200)),
    ] {
        let error = failed(answer_with(text.clone()).await);
        assert_eq!(error.kind, Kind::BadAnswer, "{text}");
        assert!(error.message().starts_with("upstream `far` violated the protocol"), "{error}");
    }
}

/// An answer that passes in pieces, to its end: the link must live so long.
async fn relayed(text: String) -> (Bytes, Option<CallError>) {
    let mut setup = setup().await;
    let play = async move |exchange: Exchange| exchange.send(200, JSON, &text);
    let answer = answered(&mut setup, true, play).await;
    drained(answer).await
}

/// Everything that reached the client, and how it ended.
async fn drained(answer: Answer) -> (Bytes, Option<CallError>) {
    let Ok(AnswerBody::Stream(mut relay)) = answer else { panic!("not a stream: {answer:?}") };
    soon(drain(&mut relay)).await
}

async fn drain(relay: &mut Relay) -> (Bytes, Option<CallError>) {
    let mut all = Vec::new();
    while let Some(frame) = relay.frame().await {
        match frame {
            Ok(frame) => all.extend_from_slice(frame.data_ref().unwrap()),
            Err(error) => return (all.into(), Some(*error.0)),
        }
    }
    (all.into(), None)
}

#[tokio::test]
async fn a_large_json_answer_passes_unchanged() {
    let text = response("seven", &json!({ "text": "é\"{".repeat(100_000) }));
    let (all, error) = relayed(text.clone()).await;
    assert!(error.is_none(), "{error:?}");
    assert!(all == text.as_bytes(), "{} of {} bytes", all.len(), text.len());
}

#[tokio::test]
async fn a_large_json_answer_is_checked_as_it_passes() {
    let long = "x".repeat(200_000);
    let error = failed(answer_with(format!(r#"{{"jsonrpc":"2.0","id":8,"result":"{long}"}}"#)).await);
    assert_eq!(error.kind, Kind::BadAnswer);
    for (text, kind) in [
        (format!(r#"{{"jsonrpc":"2.0","id":"seven","result":"{long}"#), Kind::Lost),
        (
            format!(r#"{{"jsonrpc":"2.0","id":"seven","a":"{long}","result":{}"#, "[".repeat(200)),
            Kind::BadAnswer,
        ),
        (format!(r#"{{"jsonrpc":"2.0","id":"seven","result":"{long}"}}{{}}"#), Kind::BadAnswer),
        (format!("x{long}"), Kind::BadAnswer),
    ] {
        let (_, error) = relayed(text.clone()).await;
        let error = error.expect("the answer breaks off");
        assert_eq!((error.kind, error.upstream.as_deref()), (kind, Some("far")), "{}", &text[..60]);
    }
}

async fn streamed(events: &'static [&'static str]) -> (String, Option<CallError>) {
    streamed_at(None, events).await
}

/// The same for a client that asks for log messages of this level.
async fn streamed_at(level: Option<&str>, events: &'static [&'static str]) -> (String, Option<CallError>) {
    let mut setup = setup().await;
    let answer = answered_at(&mut setup, level, true, async move |exchange: Exchange| {
        let stream = exchange.events();
        tokio::spawn(async move {
            for event in events {
                stream.text(event).await;
            }
        });
    })
    .await;
    let (all, error) = drained(answer).await;
    (String::from_utf8(all.to_vec()).unwrap(), error)
}

const PROGRESS: &str = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n";
const LOG: &str =
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\"}}\n\n";
const WARNING: &str =
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"warning\"}}\n\n";
const TOOLS: &str = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
const PROMPTS: &str = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/prompts/list_changed\"}\n\n";
const RESOURCES: &str = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/list_changed\"}\n\n";
const UPDATED: &str = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"a:b\"}}\n\n";
const NOTICE: &str = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/other\",\"params\":{}}\n\n";
const RIGHT: &str = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"seven\",\"result\":{\"n\":1}}\n\n";
const FOREIGN: &str = "data: {\"jsonrpc\":\"2.0\",\"id\":\"eight\",\"result\":{\"n\":2}}\n\n";
const REQUEST: &str = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}\n\n";
const GARBAGE: &str = "data: <p>\n\n";
const ALIVE: &str = ": still here\n\n";

#[tokio::test]
async fn only_notifications_and_the_one_answer_pass_in_an_event_stream() {
    let (all, error) = streamed(&[ALIVE, NOTICE, FOREIGN, REQUEST, GARBAGE, RIGHT, RIGHT, NOTICE]).await;
    assert_eq!((all, error), (format!("{ALIVE}{NOTICE}{RIGHT}"), None));
    let in_one_piece = const_str_pieces();
    let (all, error) = streamed(in_one_piece).await;
    assert_eq!((all, error), (format!("{NOTICE}{RIGHT}"), None));
}

#[tokio::test]
async fn progress_and_log_messages_that_the_client_did_not_ask_for_are_held_back() {
    let (all, error) = streamed(&[PROGRESS, LOG, RIGHT]).await;
    assert_eq!(
        (all, error),
        (format!(":\n\n:\n\n{RIGHT}"), None),
        "comments show that the call is under way"
    );
}

#[tokio::test]
async fn log_messages_below_the_level_that_the_client_asked_for_are_held_back() {
    for (level, expected) in [
        ("info", format!("{LOG}{WARNING}{RIGHT}")),
        ("warning", format!(":\n\n{WARNING}{RIGHT}")),
        ("error", format!(":\n\n:\n\n{RIGHT}")),
    ] {
        assert_eq!(streamed_at(Some(level), &[LOG, WARNING, RIGHT]).await, (expected, None), "{level}");
    }
}

#[tokio::test]
async fn notifications_of_changes_are_held_back_from_the_stream_of_a_call() {
    for change in [&[TOOLS, RIGHT], &[PROMPTS, RIGHT], &[RESOURCES, RIGHT], &[UPDATED, RIGHT]] {
        assert_eq!(streamed(change).await, (format!(":\n\n{RIGHT}"), None), "{change:?}");
    }
}

#[tokio::test]
async fn each_kind_of_message_that_is_held_back_is_logged_once_for_a_server() {
    let expected = [
        "progress, which the client did not ask for",
        "a log message, which the client did not ask for",
        "a notification of a change, which belongs to a subscription",
        "an answer to another request",
        "a request, which modern servers must not send",
        "an event that is not a message",
    ];
    let expected = expected.map(|what| {
        format!(" INFO held back a message that this server must not send upstream=far what={what:?}\n")
    });
    for relays in [[true, true, false], [false, false, true]] {
        let (log, _logging) = logged();
        let mut setup = setup().await;
        for relay in relays {
            let answer = answered(&mut setup, relay, async move |exchange: Exchange| {
                let stream = exchange.events();
                tokio::spawn(async move {
                    for event in [PROGRESS, LOG, TOOLS, FOREIGN, REQUEST, GARBAGE, ALIVE, PROGRESS, RIGHT] {
                        stream.text(event).await;
                    }
                });
            });
            match answer.await {
                Ok(AnswerBody::Stream(mut relay)) => assert!(soon(drain(&mut relay)).await.1.is_none()),
                read => assert_eq!(whole(read), json!({ "n": 1 })),
            }
        }
        assert_eq!(std::fs::read_to_string(log.path()).unwrap(), expected.concat(), "{relays:?}");
    }
}

#[tokio::test]
async fn a_question_that_the_client_cannot_answer_is_an_error_of_the_upstream() {
    let asks = "data: {\"jsonrpc\":\"2.0\",\"id\":\"seven\",\"result\":{\"resultType\":\"input_required\",\"inputRequests\":{\"q\":{\"method\":\"roots/list\",\"params\":{}}}}}\n\n";
    let (all, error) = streamed(Box::leak(Box::new([asks]))).await;
    let error = error.unwrap();
    assert_eq!((all.as_str(), &error.kind), ("", &Kind::BadAnswer));
    assert!(error.message().contains("did not declare the capability `roots`"), "{error}");
}

/// An event is held in memory until its end has come, so an event that never ends must not be held without a limit.
#[tokio::test]
async fn an_event_of_more_than_64_mib_is_an_error_of_the_upstream() {
    let mut setup = setup().await;
    let answer = answered(&mut setup, true, async move |exchange: Exchange| {
        let stream = exchange.events();
        tokio::spawn(async move {
            stream.text("data: {\"jsonrpc\":\"2.0\",\"id\":\"seven\",\"result\":\"").await;
            let part = "x".repeat(1024 * 1024);
            for _ in 0..64 {
                stream.text(&part).await;
            }
        });
    })
    .await;
    let (all, error) = drained(answer).await;
    let error = error.expect("an error");
    assert_eq!(
        (all.len(), &error.kind, error.upstream.as_deref()),
        (0, &Kind::Limit, Some("far")),
        "{error}"
    );
    assert!(error.message().contains("64 MiB"), "{error}");
}

/// The same in pieces that cut events anywhere.
fn const_str_pieces() -> &'static [&'static str] {
    let whole: &'static str = Box::leak(format!("{NOTICE}{FOREIGN}{RIGHT}{FOREIGN}").into_boxed_str());
    let (first, rest) = whole.split_at(17);
    let (second, third) = rest.split_at(100);
    Box::leak(Box::new([first, second, third]))
}

#[tokio::test]
async fn an_event_stream_without_an_answer_ends_with_an_error_that_names_the_upstream() {
    for events in [&[PROGRESS, FOREIGN][..], &[], &["data: {\"jsonrpc\":\"2.0\",\"id\""]] {
        let (_, error) = streamed(events).await;
        let error = error.expect("an error");
        assert_eq!(error.kind, Kind::Lost, "{events:?}");
        assert!(error.message().starts_with("upstream `far` closed the connection"), "{error}");
    }
    let broken = "data: {\"jsonrpc\":\"2.0\",\"id\":\"seven\",\"result\":1,\"error\":2}\n\n";
    let (all, error) = streamed(Box::leak(Box::new([NOTICE, broken]))).await;
    assert_eq!((all.as_str(), error.unwrap().kind), (NOTICE, Kind::BadAnswer));
}
