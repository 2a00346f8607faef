//! The multiplexed stream, against an upstream that sends exactly what the test wants.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use toolyard_link::stream::StreamLink;
use toolyard_model::{ClientKey, Greeting, Link, LinkEvent, Peer, Scope};
use toolyard_proto::modern::LogLevel;
use toolyard_proto::{Id, Kind, Method, Revision};

use crate::support::{
    Received, call, closed, connection, failed, logged, next_event, origin, raw, recorder, request, soon,
    whole,
};

/// The far end of the stream.
struct Upstream {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Upstream {
    async fn next(&mut self) -> Value {
        let line = soon(self.lines.next_line()).await.unwrap().expect("a line");
        serde_json::from_str(&line).unwrap()
    }

    async fn say(&mut self, message: Value) {
        self.say_text(&format!("{message}\n")).await;
    }

    async fn say_text(&mut self, text: &str) {
        soon(self.writer.write_all(text.as_bytes())).await.unwrap();
    }

    async fn answer(&mut self, id: &Value, result: Value) {
        self.say(json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    }
}

struct Setup {
    link: Arc<StreamLink>,
    events: mpsc::Receiver<LinkEvent>,
    upstream: Upstream,
    scope: Scope,
}

fn setup(revision: Revision) -> Setup {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let scope = Scope::new();
    let greeting = Greeting {
        revision,
        capabilities: raw(json!({})),
        server_info: None,
        instructions: None,
        whole: raw(json!({})),
        guessed: false,
    };
    let (link, events) = StreamLink::over(&"up".into(), tokio::io::split(near), greeting, &scope);
    let (reader, writer) = tokio::io::split(far);
    let upstream = Upstream { lines: BufReader::new(reader).lines(), writer };
    Setup { link: Arc::new(link), events, upstream, scope }
}

fn legacy() -> Setup {
    setup(Revision::NEWEST_LEGACY)
}

#[tokio::test]
async fn a_thousand_answers_out_of_order_each_reach_their_own_call() {
    let Setup { link, mut upstream, .. } = legacy();
    let calls: Vec<_> = (0..1000)
        .map(|n| tokio::task::spawn(link.call(call(n % 7, json!({"n": n})), Peer::none())))
        .collect();
    let mut asked = Vec::new();
    for _ in 0..1000 {
        asked.push(upstream.next().await);
    }
    asked.reverse();
    asked.sort_by_key(|message| message["params"]["n"].as_u64().unwrap() % 13);
    for message in asked {
        upstream.answer(&message["id"], message["params"].clone()).await;
    }
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(whole(soon(call).await.unwrap())["n"], n);
    }
}

#[tokio::test]
async fn progress_comes_back_with_the_clients_token_and_before_the_answer() {
    let Setup { link, mut upstream, .. } = legacy();
    let (peer, mut received) = recorder();
    let waiting =
        tokio::task::spawn(link.call(call(1, json!({"_meta": {"progressToken": "mine", "x": 1}})), peer));
    let asked = upstream.next().await;
    let minted = &asked["params"]["_meta"]["progressToken"];
    assert_eq!((minted, &asked["params"]["_meta"]["x"]), (&asked["id"], &json!(1)));
    let progress = |token: &Value| {
        json!({"jsonrpc": "2.0", "method": "notifications/progress",
               "params": {"progressToken": token, "progress": 1}})
    };
    upstream.say(progress(minted)).await;
    upstream.say(progress(&json!(999))).await;
    upstream.answer(&asked["id"], json!({})).await;
    upstream.say(progress(minted)).await;
    whole(soon(waiting).await.unwrap());
    let reported = json!({"progressToken": "mine", "progress": 1});
    assert_eq!(received.try_recv().unwrap(), Received::Note("notifications/progress".into(), reported));
    // The late one is known to have been read once a later answer has come.
    let again = tokio::task::spawn(link.call(call(1, json!({})), Peer::none()));
    let asked = upstream.next().await;
    assert_eq!(asked["params"], json!({}), "no token is added where the client sent none");
    upstream.answer(&asked["id"], json!({})).await;
    whole(soon(again).await.unwrap());
    assert!(received.try_recv().is_err());
}

/// One call of a client of the newest revision, during which the server logs this and reports progress without a token.
async fn call_with_log(setup: &mut Setup, wanted: Option<&str>, level: &str) {
    let client = origin(ClientKey::Connection(1), Revision::NEWEST);
    if let Some(wanted) = wanted {
        client.log_level.set(LogLevel::parse(wanted).unwrap());
    }
    let calling = request(&client, Id::string("c"), Method::TOOLS_CALL, json!({}));
    let waiting = tokio::task::spawn(setup.link.call(calling, Peer::none()));
    let asked = setup.upstream.next().await;
    for (method, params) in [
        ("notifications/message", json!({"level": level, "data": ""})),
        ("notifications/progress", json!({"progressToken": asked["id"], "progress": 1})),
    ] {
        setup.upstream.say(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }
    setup.upstream.answer(&asked["id"], json!({})).await;
    whole(soon(waiting).await.unwrap());
}

#[tokio::test]
async fn messages_that_clients_did_not_ask_for_are_logged_once_for_a_server() {
    const PROGRESS: &str = "progress, which the client did not ask for";
    const UNASKED: &str = "a log message, which the client did not ask for";
    const BELOW: &str = "a log message below the level that the client asked for";
    let calls = [(None, "error"), (Some("warning"), "warning"), (Some("warning"), "info"), (None, "info")];
    for (revision, expected) in
        [(Revision::NEWEST, &[UNASKED, PROGRESS, BELOW][..]), (Revision::NEWEST_LEGACY, &[PROGRESS])]
    {
        let (log, _logging) = logged();
        let mut setup = setup(revision);
        for (wanted, level) in calls {
            call_with_log(&mut setup, wanted, level).await;
        }
        let line = |what: &&str| {
            format!(" INFO held back a message that this server must not send upstream=up what={what:?}\n")
        };
        let expected: Vec<String> = expected.iter().map(line).collect();
        assert_eq!(std::fs::read_to_string(log.path()).unwrap(), expected.concat(), "{revision:?}");
    }
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_upstream_and_its_late_answer_is_dropped() {
    let Setup { link, mut upstream, .. } = legacy();
    let waiting = tokio::task::spawn(link.call(call(1, json!({})), Peer::none()));
    let asked = upstream.next().await;
    waiting.abort();
    let cancelled = upstream.next().await;
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
    assert!(cancelled["params"]["reason"].is_string());
    upstream.answer(&asked["id"], json!({"late": true})).await;
    let next = tokio::task::spawn(link.call(call(1, json!({})), Peer::none()));
    let asked = upstream.next().await;
    upstream.answer(&asked["id"], json!({"first": true})).await;
    upstream.answer(&asked["id"], json!({"second": true})).await;
    assert_eq!(whole(soon(next).await.unwrap()), json!({"first": true}));
    let last = tokio::task::spawn(link.call(call(1, json!({})), Peer::none()));
    let asked = upstream.next().await;
    upstream.answer(&asked["id"], json!({})).await;
    whole(soon(last).await.unwrap());
    assert_eq!(link.stray_answers(), 2, "one late, one repeated");
}

#[tokio::test]
async fn a_dropped_handshake_is_not_cancelled() {
    let Setup { link, mut upstream, .. } = legacy();
    let hello = request(&connection(1), Id::number(1), Method::INITIALIZE, json!({}));
    let waiting = tokio::task::spawn(link.call(hello, Peer::none()));
    upstream.next().await;
    waiting.abort();
    assert!(soon(waiting).await.unwrap_err().is_cancelled());
    let next = tokio::task::spawn(link.call(call(1, json!({})), Peer::none()));
    assert_eq!(upstream.next().await["method"], "tools/call");
    next.abort();
}

fn elicitation(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {"message": "?"}})
}

#[tokio::test]
async fn a_question_goes_to_the_oldest_call_while_only_one_client_is_calling() {
    let Setup { link, mut upstream, .. } = legacy();
    let (oldest, mut received) = recorder();
    let (newer, mut not_asked) = recorder();
    let first = tokio::task::spawn(link.call(call(1, json!({})), oldest));
    upstream.next().await;
    let second = tokio::task::spawn(link.call(call(1, json!({})), newer));
    upstream.next().await;
    // The upstream's ids are its own: 1 is also the id of our first call.
    upstream.say(elicitation(1)).await;
    let answer = upstream.next().await;
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}}));
    assert_eq!(received.try_recv().unwrap(), Received::Ask("elicitation/create".into()));
    assert!(not_asked.try_recv().is_err());
    first.abort();
    second.abort();
}

#[tokio::test]
async fn a_question_waits_until_it_is_clear_which_of_several_clients_it_is_for() {
    let Setup { link, mut upstream, .. } = legacy();
    let (first_peer, mut unheard) = recorder();
    let (second_peer, mut received) = recorder();
    let first = tokio::task::spawn(link.call(call(1, json!({})), first_peer));
    let id = upstream.next().await["id"].clone();
    let second = tokio::task::spawn(link.call(call(2, json!({})), second_peer));
    upstream.next().await;
    upstream.say(elicitation(7)).await;
    assert!(received.try_recv().is_err() && unheard.try_recv().is_err());
    // What has its answer did not ask.
    upstream.say(json!({"jsonrpc": "2.0", "id": id, "result": {}})).await;
    soon(first).await.unwrap().unwrap();
    let answer = upstream.next().await;
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 7, "result": {"action": "accept"}}));
    assert_eq!(received.try_recv().unwrap(), Received::Ask("elicitation/create".into()));
    assert!(unheard.try_recv().is_err());
    second.abort();
}

#[tokio::test(start_paused = true)]
async fn a_question_is_refused_while_several_clients_are_calling() {
    let Setup { link, mut upstream, .. } = legacy();
    let (peer, mut received) = recorder();
    let first = tokio::task::spawn(link.call(call(1, json!({})), peer.clone()));
    upstream.next().await;
    let second = tokio::task::spawn(link.call(call(2, json!({})), peer));
    upstream.next().await;
    upstream.say(elicitation(7)).await;
    let answer = upstream.next().await;
    assert_eq!(answer["id"], 7);
    assert!(answer["error"]["message"].as_str().unwrap().contains("several clients"), "{answer}");
    upstream.say(json!({"jsonrpc": "2.0", "id": "p", "method": "ping"})).await;
    assert_eq!(upstream.next().await, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    assert!(received.try_recv().is_err());
    first.abort();
    second.abort();
}

#[tokio::test]
async fn a_call_that_polls_a_task_is_not_asked_its_questions() {
    let Setup { link, mut upstream, .. } = legacy();
    let (peer, mut received) = recorder();
    let (looking, mut not_asked) = recorder();
    let waiting = tokio::task::spawn(link.call(call(1, json!({})), peer));
    upstream.next().await;
    let looks = request(&connection(2), Id::string("g"), Method::TASKS_GET, json!({"taskId": "t"}));
    let look = tokio::task::spawn(link.call(looks, looking));
    upstream.next().await;
    upstream.say(elicitation(1)).await;
    assert_eq!(upstream.next().await["result"], json!({"action": "accept"}));
    assert_eq!(received.try_recv().unwrap(), Received::Ask("elicitation/create".into()));
    assert!(not_asked.try_recv().is_err());
    waiting.abort();
    look.abort();
}

#[tokio::test]
async fn a_question_outside_any_call_is_an_event() {
    let Setup { link, mut upstream, mut events, .. } = legacy();
    upstream.say(json!({"jsonrpc": "2.0", "id": 0, "method": "roots/list"})).await;
    let LinkEvent::Ask(None, ask, reply) = next_event(&mut events).await else { panic!("a question") };
    assert_eq!(ask.method, Method::ROOTS_LIST);
    reply.send(Ok(raw(json!({"roots": []})))).unwrap();
    assert_eq!(upstream.next().await, json!({"jsonrpc": "2.0", "id": 0, "result": {"roots": []}}));
    drop(link);
}

#[tokio::test]
async fn log_messages_go_to_the_only_caller_and_changes_to_all() {
    let Setup { link, mut upstream, mut events, .. } = legacy();
    let (peer, mut received) = recorder();
    let waiting = tokio::task::spawn(link.call(call(1, json!({})), peer));
    upstream.next().await;
    let note = |method: &str| json!({"jsonrpc": "2.0", "method": method, "params": {}});
    upstream.say(note("notifications/message")).await;
    upstream.say(note("notifications/tools/list_changed")).await;
    let LinkEvent::Notification(None, change) = next_event(&mut events).await else { panic!("a change") };
    assert_eq!(change.method, Method::TOOLS_CHANGED);
    assert_eq!(received.try_recv().unwrap(), Received::Note("notifications/message".into(), json!({})));
    waiting.abort();
    assert_eq!(upstream.next().await["method"], "notifications/cancelled");
    upstream.say(note("notifications/message")).await;
    let LinkEvent::Notification(None, message) = next_event(&mut events).await else { panic!("a message") };
    assert_eq!(message.method, Method::LOG);
}

#[tokio::test]
async fn a_listen_receives_its_own_subscription_without_the_minted_id() {
    let Setup { link, mut upstream, .. } = setup(Revision::NEWEST);
    let (peer, mut received) = recorder();
    let listen = request(&connection(1), Id::string("listen:0"), Method::LISTEN, json!({}));
    let listening = tokio::task::spawn(link.call(listen, peer));
    let asked = upstream.next().await;
    let note = |id: &Value| {
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed",
               "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}})
    };
    upstream.say(note(&json!(12345))).await;
    upstream.say(note(&asked["id"])).await;
    let end = json!({"resultType": "complete",
                     "_meta": {"io.modelcontextprotocol/subscriptionId": asked["id"]}});
    upstream.answer(&asked["id"], end).await;
    assert_eq!(whole(soon(listening).await.unwrap()), json!({"resultType": "complete"}));
    assert_eq!(
        received.try_recv().unwrap(),
        Received::Note("notifications/tools/list_changed".into(), json!({}))
    );
    assert!(received.try_recv().is_err());
}

#[tokio::test]
async fn the_end_of_the_stream_fails_every_call_at_once_and_names_the_upstream() {
    let Setup { link, mut upstream, mut events, scope } = legacy();
    let calls: Vec<_> =
        (0..3).map(|n| tokio::task::spawn(link.call(call(n, json!({})), Peer::none()))).collect();
    for _ in 0..3 {
        upstream.next().await;
    }
    drop(upstream);
    for call in calls {
        let error = failed(soon(call).await.unwrap());
        assert_eq!(error.kind, Kind::Lost);
        assert!(error.message().contains("`up`") && error.upstream.as_deref() == Some("up"), "{error}");
    }
    assert_eq!(closed(&mut events).await, "upstream `up` closed the connection");
    let error = failed(soon(link.call(call(1, json!({})), Peer::none())).await);
    assert_eq!(error.kind, Kind::Unavailable);
    drop(link);
    soon(scope.end()).await;
    assert_eq!(scope.tasks(), 0);
}

#[tokio::test]
async fn calls_do_not_hang_when_their_scope_ends() {
    let Setup { link, mut upstream, scope, .. } = legacy();
    let waiting = tokio::task::spawn(link.call(call(1, json!({})), Peer::none()));
    upstream.next().await;
    scope.cancel();
    assert_eq!(failed(soon(waiting).await.unwrap()).kind, Kind::Lost);
}

#[tokio::test]
async fn closing_fails_calls_and_is_the_last_event() {
    let Setup { link, mut upstream, mut events, .. } = legacy();
    let waiting = tokio::task::spawn(link.call(call(1, json!({})), Peer::none()));
    upstream.next().await;
    soon(link.close()).await;
    assert_eq!(failed(soon(waiting).await.unwrap()).kind, Kind::Lost);
    assert!(closed(&mut events).await.contains("closed by the gateway"));
}

#[tokio::test]
async fn garbage_is_counted_and_ignored() {
    let Setup { link, mut upstream, .. } = legacy();
    let waiting = tokio::task::spawn(link.call(call(1, json!({})), Peer::none()));
    let asked = upstream.next().await;
    upstream.say_text("npm WARN something\n{\"jsonrpc\":\"2.0\"}\n\n[]\n").await;
    upstream.say_text(&format!("[{}]\n", json!({"jsonrpc": "2.0", "id": asked["id"], "result": {}}))).await;
    assert_eq!(whole(soon(waiting).await.unwrap()), json!({}));
    assert_eq!(link.garbage_lines(), 3);
}

#[tokio::test]
async fn a_message_is_written_on_one_line() {
    let Setup { link, mut upstream, .. } = legacy();
    let mut request = call(1, json!({}));
    request.params = toolyard_proto::Raw::parse("{\r\n\"a\":\n\"x\\ny\"\r\n}").unwrap().into();
    let waiting = tokio::task::spawn(link.call(request, Peer::none()));
    assert_eq!(upstream.next().await["params"], json!({"a": "x\ny"}));
    waiting.abort();
}

#[tokio::test]
async fn an_error_is_passed_on_unchanged() {
    let Setup { link, mut upstream, .. } = legacy();
    let waiting = tokio::task::spawn(link.call(call(1, json!({})), Peer::none()));
    let asked = upstream.next().await;
    let error = json!({"code": -7, "message": "no", "extra": [1]});
    upstream.say(json!({"jsonrpc": "2.0", "id": asked["id"], "error": error})).await;
    let got = failed(soon(waiting).await.unwrap());
    assert_eq!(got.kind, Kind::Reported(raw(error)));
}

#[tokio::test]
async fn a_flood_of_notifications_delays_no_answer_and_loses_no_change() {
    let Setup { link, mut upstream, mut events, .. } = legacy();
    let waiting = tokio::task::spawn(link.call(call(1, json!({})), Peer::none()));
    let asked = upstream.next().await;
    for n in 0..2000 {
        let updated =
            json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"n": n}});
        upstream.say(updated).await;
    }
    upstream.say(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
    upstream.answer(&asked["id"], json!({})).await;
    whole(soon(waiting).await.unwrap());
    loop {
        if let LinkEvent::Notification(_, note) = next_event(&mut events).await
            && note.method == Method::TOOLS_CHANGED
        {
            break;
        }
    }
}

#[tokio::test]
async fn an_upstream_that_asks_and_does_not_read_cannot_fill_the_memory() {
    let Setup { link: _link, mut upstream, scope, .. } = legacy();
    let before = scope.tasks();
    let mut most = 0;
    for n in 0..20_000 {
        upstream.say(json!({"jsonrpc": "2.0", "id": n, "method": "ping"})).await;
        most = most.max(scope.tasks());
    }
    assert!(most < 1_500, "{most} tasks");
    // Once it reads, it is answered as before.
    while scope.tasks() > before {
        upstream.next().await;
    }
    upstream.say(json!({"jsonrpc": "2.0", "id": "last", "method": "ping"})).await;
    while upstream.next().await["id"] != "last" {}
}
