//! Many clients at one door, and clients that have no business there.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Barrier;
use std::thread;

use serde_json::json;

use crate::program::{Client, listening, toolyard};

const CLIENTS: usize = 20;

#[test]
fn twenty_clients_share_a_tcp_listener_and_one_that_disconnects_harms_no_other() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("a.txt"), "").unwrap();
    let (program, address) =
        listening(home.path(), &["pack", "music", "--root", ".", "--tcp", "127.0.0.1:0"]);
    let address = address.trim_start_matches("tcp://");
    let broken = Barrier::new(CLIENTS);
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let broken = &broken;
            scope.spawn(move || {
                let mut client = Client::tcp(address, None);
                let mut list = || client.call("fs_list_dir", &json!({ "path": "." }));
                assert_eq!(list()["structuredContent"]["entries"][0]["name"], "a.txt", "{number}");
                if number == 0 {
                    let mut half = TcpStream::connect(address).unwrap();
                    half.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"meth").unwrap();
                    drop((half, client));
                    broken.wait();
                    return;
                }
                broken.wait();
                assert_eq!(list()["structuredContent"]["entries"][0]["name"], "a.txt", "{number}");
            });
        }
    });
    drop(program);
}

#[test]
fn a_door_that_others_could_reach_is_not_opened() {
    let home = tempfile::tempdir().unwrap();
    for door in ["--http", "--tcp"] {
        let ended =
            toolyard(home.path(), &["pack", "music", "--root", ".", door, "0.0.0.0:0"]).output().unwrap();
        let printed = String::from_utf8(ended.stderr).unwrap();
        assert!(!ended.status.success(), "{door}: {printed}");
        assert!(printed.contains("is reachable from elsewhere: listen on 127.0.0.1"), "{door}: {printed}");
    }
}

#[test]
fn a_request_from_another_origin_is_rejected() {
    let home = tempfile::tempdir().unwrap();
    let (_program, address) =
        listening(home.path(), &["pack", "music", "--root", ".", "--http", "127.0.0.1:0"]);
    let host = address.trim_start_matches("http://").trim_end_matches("/mcp");
    let ask = |origin: &str| {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(ask("http://evil.example"), "403");
    assert_ne!(ask(&format!("http://{host}")), "403");
}
