//! Secrets in answers that are not whole JSON, and in what a process writes to stderr: where they are not shown.

use std::io::{BufRead as _, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::gateway::{Gateway, Home, eventually};
use crate::held::{Upstream, ask, gateway_with, send_call, statuses};

const SECRET: &str = "s3cret";
const OPERATOR: &str = "Authorization: Bearer operator\r\n";

/// What an operator reads at this path.
fn read(gateway: &Gateway, path: &str) -> Value {
    let mut answer = String::new();
    ask(gateway, path, OPERATOR).read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// Makes a call that `answer` answers, and requires that its secrets reach the client and no other reader.
fn check(answer: impl FnOnce(&TcpStream, &Value)) -> Value {
    let (home, upstream) = (Home::new(), Upstream::start());
    let config = "payloads = \"redacted\"\n[listen]\noperator_token = \"operator\"\n";
    let gateway = gateway_with(&home, &upstream, config);
    // Payloads are kept while an operator watches.
    read(&gateway, "/api/v1/calls");
    let mut client = send_call(&gateway);
    let (held, id) = upstream.called();
    answer(&held, &id);
    drop(held);
    let mut received = String::new();
    client.read_to_string(&mut received).unwrap();
    assert!(received.contains(SECRET), "the client gets all of the answer: {received}");

    let call = eventually("the call has ended", || {
        let calls = read(&gateway, "/api/v1/calls?upstream=held");
        let ended = calls["calls"][0]["state"] == "ended";
        ended.then(|| read(&gateway, &format!("/api/v1/calls/{}", calls["calls"][0]["call"])))
    });
    eventually("its end is recorded", || (statuses(&home) == ["ok"]).then_some(()));
    let (_, records, _) = home.run(&["audit", "--json", "--state-dir", "state"]);
    for shown in [&call["answer"]["text"].to_string(), &records] {
        assert!(shown.contains("[redacted]") && !shown.contains(SECRET), "{shown}");
    }
    assert_eq!(call["answer"]["redacted"], true, "{call}");
    call
}

#[test]
fn secrets_of_an_event_stream_are_neither_recorded_nor_shown() {
    let call = check(|held, id| {
        let progress = json!({ "progressToken": 1, "progress": 1, "apiKey": "s3cret-1" });
        let text = json!({ "password": "s3cret-2" }).to_string();
        let content = json!([{ "type": "text", "text": text }]);
        let result = json!({ "resultType": "complete", "structuredContent": { "token": "s3cret-3" }, "content": content });
        let messages = [
            json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress }),
            json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        ];
        let events = messages.map(|message| format!("event: message\ndata: {message}\n\n"));
        answer_with(held, "text/event-stream", &events.concat());
    });
    let text = call["answer"]["text"].as_str().unwrap();
    assert!(text.starts_with("event: message") && text.matches("[redacted]").count() == 3, "{text}");
}

#[test]
fn secrets_of_an_answer_that_is_cut_are_neither_recorded_nor_shown() {
    let call = check(|held, id| {
        let (filler, long) = ("x".repeat(60_000), "s3cret-2".repeat(2_000));
        let result = format!(
            r#"{{"resultType":"complete","structuredContent":{{"token":"s3cret-1"}},"content":[{{"type":"text","text":"{filler}"}}],"_meta":{{"password":"{long}"}}}}"#
        );
        answer_with(held, "application/json", &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    });
    let text = call["answer"]["text"].as_str().unwrap();
    assert!(call["answer"]["whole"] == false && text.matches("[redacted]").count() == 2, "{text}");
}

fn answer_with(mut held: &TcpStream, kind: &str, body: &str) {
    let length = body.len();
    write!(held, "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")
        .unwrap();
}

#[test]
fn reasons_have_stderr_output_only_for_an_operator() {
    let home = Home::new();
    let config = format!(
        "[listen]\noperator_token = \"operator\"\n[upstreams.dies]\ncommand = \"sh\"\nargs = [\"-c\", \"echo {SECRET} >&2; exit 3\"]\n"
    );
    home.write(".config/toolyard/config.toml", &config);
    let gateway = home.start(&[]);
    let why = "exited with status 3";
    eventually("the reason is known", || {
        read(&gateway, "/api/v1/upstreams/dies").to_string().contains(why).then_some(())
    });
    // An id of another run: all events from the first on.
    let resumed = "Last-Event-ID: other-1\r\n";
    for (path, lines) in [
        ("/api/v1/upstreams", ""),
        ("/api/v1/upstreams/dies", ""),
        ("/api/v1/report", ""),
        ("/api/v1/live", ""),
        ("/api/v1/events", resumed),
    ] {
        for (credentials, is_shown) in [("", false), (OPERATOR, true)] {
            let mut answer = ask(&gateway, path, &format!("{lines}{credentials}"));
            let line = loop {
                let mut line = String::new();
                assert!(answer.read_line(&mut line).unwrap() > 0, "{path} has no reason");
                if line.contains(why) {
                    break line;
                }
            };
            assert_eq!(line.contains(SECRET), is_shown, "{path}: {line}");
        }
    }
}
