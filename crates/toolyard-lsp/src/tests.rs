//! The client against a scripted server that is faulty in every way that servers are.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};

use super::*;
use crate::frame;

const LIMIT: Duration = Duration::from_secs(5);

/// The far end of a connection.
struct Server {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
}

impl Server {
    async fn next(&mut self) -> Value {
        frame::read(&mut self.reader).await.unwrap().expect("the client is there")
    }

    /// The next message with this method; others are skipped.
    async fn expect(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await;
            if message["method"] == method {
                return message;
            }
        }
    }

    async fn raw(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).await.unwrap();
    }

    async fn send(&mut self, message: Value) {
        self.raw(&frame::write(&message)).await;
    }

    async fn answer(&mut self, request: &Value, result: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    async fn fail(&mut self, request: &Value, code: i64) {
        self.send(json!({ "id": request["id"], "error": { "code": code, "message": "no" } })).await;
    }

    async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Asks the client something; returns its answer.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params })).await;
        loop {
            let message = self.next().await;
            if message["id"] == method {
                return message;
            }
        }
    }

    /// Answers `initialize` with these capabilities.
    async fn greet(&mut self, capabilities: Value) -> Value {
        let request = self.expect("initialize").await;
        self.answer(&request, json!({ "capabilities": capabilities, "serverInfo": { "version": "1.2" } }))
            .await;
        request
    }
}

fn options() -> Options {
    let settings = json!({ "python": { "path": "/usr/bin/python3" } });
    Options { root: "/project".into(), settings, on_diagnostics: Box::new(|_| {}) }
}

/// Runs a test of the client against a script of the server. The connection is over when the script has ended.
async fn against<T>(
    script: impl AsyncFnOnce(Server) -> Option<Server>,
    test: impl AsyncFnOnce(Client) -> T,
) -> T {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(near);
    let (client, work) = Client::connect(read, write, options());
    let (reader, writer) = tokio::io::split(far);
    let serving = async {
        let server = script(Server { reader: BufReader::new(reader), writer }).await;
        if server.is_some() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        out = test(client) => out,
        ((), ()) = async { tokio::join!(serving, async { work.await; std::future::pending::<()>().await }) } => unreachable!(),
    }
}

async fn session(client: Client) -> Session {
    let setup = Setup {
        root: "/project".into(),
        initialization_options: Value::Null,
        reports_status: false,
        limit: LIMIT,
    };
    Session::initialize(client, setup).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn fault_1_a_crash_fails_the_requests_under_way_and_all_later_ones() {
    let script = async |mut server: Server| {
        server.next().await;
        None
    };
    against(script, async |client| {
        let error = client.request("x", Value::Null, LIMIT).await.unwrap_err();
        assert_eq!(error, LspError::Closed("the server closed its output".into()));
        assert!(matches!(client.request("x", Value::Null, LIMIT).await, Err(LspError::Closed(_))));
        assert_eq!(client.pending(), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn fault_2_a_slow_answer_counts_until_the_deadline() {
    let script = async |mut server: Server| {
        for pause in [4, 6] {
            let request = server.expect("slow").await;
            tokio::time::sleep(Duration::from_secs(pause)).await;
            server.answer(&request, json!(pause)).await;
        }
        Some(server)
    };
    against(script, async |client| {
        assert_eq!(client.request("slow", Value::Null, LIMIT).await, Ok(json!(4)));
        let late = client.request("slow", Value::Null, LIMIT).await;
        assert_eq!(late, Err(LspError::Timeout { method: "slow".into(), limit: LIMIT }));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn fault_3_a_server_that_asks_for_its_configuration_gets_it() {
    let script = async |mut server: Server| {
        let request = server.expect("x").await;
        let items = json!({ "items": [{ "section": "python.path" }, { "section": "other" }, {}] });
        let answer = server.ask("workspace/configuration", items).await;
        let folders = server.ask("workspace/workspaceFolders", Value::Null).await;
        let unknown = server.ask("made/up", Value::Null).await;
        let all = json!([answer["result"], folders["result"], unknown["error"]["code"]]);
        server.answer(&request, all).await;
        Some(server)
    };
    against(script, async |client| {
        let answers = client.request("x", Value::Null, LIMIT).await.unwrap();
        assert_eq!(answers[0][0], "/usr/bin/python3");
        assert_eq!(answers[0][1], Value::Null);
        assert_eq!(answers[0][2]["python"]["path"], "/usr/bin/python3");
        assert_eq!(answers[1], json!([{ "uri": "file:///project", "name": "project" }]));
        assert_eq!(answers[2], -32601);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn fault_4_a_capability_that_is_registered_late_is_found() {
    let script = async |mut server: Server| {
        server.greet(json!({ "hoverProvider": true })).await;
        server.expect("initialized").await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let registration = json!({ "id": "r", "method": "textDocument/references" });
        server.ask("client/registerCapability", json!({ "registrations": [registration] })).await;
        Some(server)
    };
    against(script, async |client| {
        let session = session(client).await;
        assert!(session.supports("textDocument/hover").await && session.age() < Duration::from_secs(1));
        assert!(session.supports("textDocument/references").await);
        assert!(!session.supports("textDocument/rename").await, "never registered");
        assert!(session.age() >= Duration::from_secs(3));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn fault_5_a_server_that_knows_only_utf_16_is_understood() {
    for (chosen, expected) in
        [(json!({}), Encoding::Utf16), (json!({ "positionEncoding": "utf-8" }), Encoding::Utf8)]
    {
        let script = async |mut server: Server| {
            let request = server.greet(chosen).await;
            assert_eq!(request["params"]["capabilities"]["general"]["positionEncodings"][0], "utf-8");
            Some(server)
        };
        against(script, async |client| assert_eq!(session(client).await.encoding(), expected)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn fault_6_a_request_dropped_for_modified_content_is_sent_again() {
    let script = async |mut server: Server| {
        for _ in 0..3 {
            let request = server.expect("x").await;
            server.fail(&request, -32801).await;
        }
        let request = server.expect("x").await;
        server.answer(&request, json!("at last")).await;
        loop {
            let request = server.expect("y").await;
            server.fail(&request, -32802).await;
        }
    };
    against(script, async |client| {
        assert_eq!(client.request("x", Value::Null, LIMIT).await, Ok(json!("at last")));
        let error = client.request("y", Value::Null, LIMIT).await.unwrap_err();
        assert!(
            matches!(error, LspError::Rejected { code: -32802, .. } | LspError::Timeout { .. }),
            "{error}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn fault_7_answers_with_wrong_ids_are_dropped() {
    let script = async |mut server: Server| {
        let request = server.expect("x").await;
        for id in [json!(99), json!("1"), json!(null), json!(-1)] {
            server.send(json!({ "id": id, "result": "wrong" })).await;
        }
        server.answer(&request, json!("right")).await;
        Some(server)
    };
    against(script, async |client| {
        assert_eq!(client.request("x", Value::Null, LIMIT).await, Ok(json!("right")));
        assert_eq!(client.stray(), 4);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn fault_8_a_huge_answer_is_read_and_a_larger_one_ends_the_connection() {
    let script = async |mut server: Server| {
        let request = server.expect("x").await;
        server.answer(&request, json!("x".repeat(8 << 20))).await;
        server.expect("x").await;
        server.raw(b"Content-Length: 999999999\r\n\r\n").await;
        Some(server)
    };
    against(script, async |client| {
        let answer = client.request("x", Value::Null, LIMIT).await.unwrap();
        assert_eq!(answer.as_str().unwrap().len(), 8 << 20);
        let error = client.request("x", Value::Null, LIMIT).await.unwrap_err();
        assert!(matches!(&error, LspError::Closed(why) if why.contains("999999999 bytes")), "{error}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn fault_9_a_server_that_ignores_shutdown_is_not_waited_for() {
    let script = async |mut server: Server| {
        server.greet(json!({})).await;
        server.expect("shutdown").await;
        server.expect("exit").await;
        Some(server)
    };
    against(script, async |client| {
        let session = session(client).await;
        let before = tokio::time::Instant::now();
        session.shutdown(Duration::from_secs(2)).await;
        assert_eq!(before.elapsed().as_secs(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn fault_10_garbage_between_messages_is_skipped() {
    let script = async |mut server: Server| {
        let request = server.expect("x").await;
        server.raw(b"npm WARN something\n\nContent-Length: 4\r\n\r\nnope").await;
        server.raw(b"\xff\xfe\n").await;
        server.answer(&request, json!(1)).await;
        Some(server)
    };
    against(script, async |client| {
        assert_eq!(client.request("x", Value::Null, LIMIT).await, Ok(json!(1)));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn fault_11_a_second_answer_to_one_request_is_dropped() {
    let script = async |mut server: Server| {
        let first = server.expect("x").await;
        server.answer(&first, json!(1)).await;
        server.answer(&first, json!(2)).await;
        let second = server.expect("x").await;
        server.answer(&second, json!(3)).await;
        Some(server)
    };
    against(script, async |client| {
        assert_eq!(client.request("x", Value::Null, LIMIT).await, Ok(json!(1)));
        assert_eq!(client.request("x", Value::Null, LIMIT).await, Ok(json!(3)));
        assert_eq!(client.stray(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn fault_12_silence_ends_with_the_deadline_and_the_request_is_cancelled() {
    let script = async |mut server: Server| {
        let request = server.expect("x").await;
        let cancelled = server.expect("$/cancelRequest").await;
        assert_eq!(cancelled["params"]["id"], request["id"]);
        let request = server.expect("y").await;
        server.answer(&request, json!("alive")).await;
        Some(server)
    };
    against(script, async |client| {
        assert!(matches!(client.request("x", Value::Null, LIMIT).await, Err(LspError::Timeout { .. })));
        assert_eq!(client.pending(), 0);
        assert_eq!(client.request("y", Value::Null, LIMIT).await, Ok(json!("alive")));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_reads_nothing_is_found_out() {
    let script = async |server: Server| Some(server);
    against(script, async |client| {
        let text = json!("x".repeat(1 << 10));
        let error = loop {
            if let Err(error) = client.notify("n", &text) {
                break error;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(error, LspError::Stuck);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn documents_are_opened_once_changed_by_version_and_closed_when_too_many_are_open() {
    let script = async |mut server: Server| {
        server.greet(json!({})).await;
        let opened = server.expect("textDocument/didOpen").await;
        assert_eq!(opened["params"]["textDocument"]["version"], 1);
        let changed = server.expect("textDocument/didChange").await;
        assert_eq!(changed["params"]["textDocument"]["version"], 2);
        assert_eq!(changed["params"]["contentChanges"][0]["text"], "two");
        let closed = server.expect("textDocument/didClose").await;
        assert_eq!(closed["params"]["textDocument"]["uri"], "file:///project/0");
        let request = server.expect("x").await;
        server.answer(&request, json!(null)).await;
        Some(server)
    };
    against(script, async |client| {
        let session = session(client).await;
        for text in ["one", "one", "two", "two"] {
            session.sync(Path::new("/project/0"), "rust", text).unwrap();
        }
        for number in 1..=64 {
            session.sync(&PathBuf::from(format!("/project/{number}")), "rust", "").unwrap();
        }
        assert_eq!(session.open_documents().len(), 64);
        session.request("x", Value::Null, LIMIT).await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn published_diagnostics_belong_to_the_text_that_was_sent_last() {
    let script = async |mut server: Server| {
        server.greet(json!({})).await;
        let publish = |version: i64, message: &str| {
            let range =
                Range { start: Position { line: 0, character: 0 }, end: Position { line: 0, character: 1 } };
            let diagnostic = json!({ "range": range.to_json(), "message": message });
            json!({ "uri": "file:///project/a", "version": version, "diagnostics": [diagnostic] })
        };
        server.expect("textDocument/didOpen").await;
        server.notify("textDocument/publishDiagnostics", publish(1, "old")).await;
        server.expect("textDocument/didChange").await;
        server.notify("textDocument/publishDiagnostics", publish(1, "stale")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.notify("textDocument/publishDiagnostics", publish(2, "first part")).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.notify("textDocument/publishDiagnostics", publish(2, "all")).await;
        Some(server)
    };
    against(script, async |client| {
        let session = session(client).await;
        let path = Path::new("/project/a");
        let message = |list: Option<Value>| diagnostics(&list.unwrap())[0].message.clone();
        session.sync(path, "rust", "one").unwrap();
        assert_eq!(message(session.published(path, LIMIT).await), "old");
        session.sync(path, "rust", "two").unwrap();
        assert_eq!(message(session.published(path, LIMIT).await), "all");
        assert_eq!(session.published(Path::new("/project/b"), LIMIT).await, None, "not open");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn loading_is_reported_and_waited_for() {
    let script = async |mut server: Server| {
        server.greet(json!({})).await;
        server.expect("initialized").await;
        let progress = |value: Value| json!({ "token": "t", "value": value });
        server
            .notify("$/progress", progress(json!({ "kind": "begin", "title": "Indexing", "percentage": 0 })))
            .await;
        let request = server.expect("started").await;
        server.answer(&request, json!(null)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        server
            .notify("$/progress", progress(json!({ "kind": "report", "message": "core", "percentage": 50 })))
            .await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.notify("$/progress", progress(json!({ "kind": "end" }))).await;
        Some(server)
    };
    against(script, async |client| {
        let session = session(client).await;
        session.request("started", Value::Null, LIMIT).await.unwrap();
        let mut seen = Vec::new();
        let soon = tokio::time::Instant::now() + Duration::from_millis(100);
        assert_eq!(session.loaded(soon, |_| {}).await, Err("Indexing (0 %)".to_owned()));
        session.loaded(soon + LIMIT, |words| seen.push(words.to_owned())).await.unwrap();
        assert_eq!(seen, ["Indexing (0 %)", "Indexing: core (50 %)"]);
        assert_eq!(session.loading(), None);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn edits_that_a_command_asks_for_are_returned_and_not_confirmed() {
    let script = async |mut server: Server| {
        server.greet(json!({})).await;
        let request = server.expect("workspace/executeCommand").await;
        let answer = server.ask("workspace/applyEdit", json!({ "edit": { "changes": {} } })).await;
        assert_eq!(answer["result"]["applied"], false);
        server.answer(&request, json!(null)).await;
        Some(server)
    };
    against(script, async |client| {
        let edits = session(client).await.command(&json!({ "command": "fix" }), LIMIT).await.unwrap();
        assert_eq!(edits, [json!({ "changes": {} })]);
    })
    .await;
}
