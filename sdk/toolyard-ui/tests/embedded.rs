//! How an app with an interface is reached: each transport, the shared secret, and dialling instead of listening.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use toolyard_model::{BoxFuture, local};
use toolyard_ui::{
    Action, Door, ElementId, Embedded, Picture, Started, Transport, Tree, TreeNode, Ui, UiError,
};

const SECRET: &str = "c2hhcmVkIHdpdGggdG9vbHlhcmQ=";
const PATIENCE: Duration = Duration::from_secs(30);

/// An interface with one window and nothing in it.
struct Empty(watch::Sender<u64>);

fn empty() -> Arc<dyn Ui> {
    Arc::new(Empty(watch::channel(0).0))
}

impl Ui for Empty {
    fn tree(&self) -> BoxFuture<Result<Tree, UiError>> {
        let window = TreeNode::new("Window").id(1).at(0.0, 0.0, 10.0, 10.0);
        Box::pin(async { Ok(Tree::from_windows(vec![window])) })
    }

    fn perform(&self, _: Action) -> BoxFuture<Result<(), UiError>> {
        Box::pin(async { Ok(()) })
    }

    fn screenshot(&self, _: ElementId) -> BoxFuture<Result<Picture, UiError>> {
        Box::pin(async { Err(UiError::new("there is nothing to see")) })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// Starts the app so that it listens; the endpoint that its file names.
async fn listen(embedded: Embedded, folder: &Path) -> (Started, String) {
    let started = embedded.instances_in(folder).start(empty()).await.unwrap();
    let Started::Listening(listening) = &started else { panic!("it does not listen") };
    let named = std::fs::read_to_string(listening.file()).unwrap();
    let endpoint = listening.endpoint().to_owned();
    assert!(named.contains(&endpoint), "{endpoint} is not in {named}");
    (started, endpoint)
}

/// The next line that the app sends; `None` if it closes the connection.
async fn next_line(reader: &mut (impl AsyncRead + Unpin)) -> Option<Value> {
    let mut line = String::new();
    let mut reader = BufReader::new(reader);
    let read = tokio::time::timeout(PATIENCE, reader.read_line(&mut line)).await.expect("the app is silent");
    (read.unwrap() > 0).then(|| serde_json::from_str(&line).unwrap())
}

fn is_registration(message: &Value) -> bool {
    let text = message.to_string();
    message["appName"] == "Notes" && text.contains("ClickElement") && text.contains("CaptureScreenshot")
}

#[tokio::test]
async fn over_tcp_the_app_registers_its_tools_with_the_gateway_that_connects() {
    let folder = tempfile::tempdir().unwrap();
    let (started, endpoint) = listen(Embedded::new("Notes"), folder.path()).await;
    let mut stream = TcpStream::connect(endpoint.strip_prefix("tcp://").unwrap()).await.unwrap();
    let first = next_line(&mut stream).await.unwrap();
    assert!(is_registration(&first), "{first}");
    drop(started);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file goes with the app");
}

#[tokio::test]
async fn a_chosen_port_is_the_one_that_is_listened_on() {
    let folder = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let (_started, endpoint) = listen(Embedded::new("Notes").port(free), folder.path()).await;
    assert_eq!(endpoint, format!("tcp://127.0.0.1:{free}"));
}

#[tokio::test]
async fn with_a_secret_a_gateway_without_proof_learns_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (_started, endpoint) = listen(Embedded::new("Notes").secret(SECRET), folder.path()).await;
    let mut stream = TcpStream::connect(endpoint.strip_prefix("tcp://").unwrap()).await.unwrap();
    let first = next_line(&mut stream).await.unwrap();
    assert!(first["type"] == "challenge" && !first.to_string().contains("ClickElement"), "{first}");
    let wrong = json!({ "type": "proof", "proofs": ["bm90IHRoZSBwcm9vZg=="] });
    stream.write_all(format!("{wrong}\n").as_bytes()).await.unwrap();
    assert_eq!(next_line(&mut stream).await, None);
}

#[tokio::test]
async fn a_secret_that_is_none_and_a_secret_over_http_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let start = async |embedded: Embedded| {
        embedded.instances_in(folder.path()).start(empty()).await.unwrap_err().to_string()
    };
    let short = start(Embedded::new("Notes").secret("short")).await;
    assert!(short.contains("at least 16 bytes"), "{short}");
    let http = start(Embedded::new("Notes").secret(SECRET).transport(Transport::Http)).await;
    assert!(http.contains("cannot prove over HTTP"), "{http}");
}

#[tokio::test]
async fn over_a_local_socket_the_app_registers_its_tools() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::new("Notes").transport(Transport::LocalSocket);
    let (_started, endpoint) = listen(embedded, folder.path()).await;
    let path = endpoint.strip_prefix("unix://").unwrap();
    let mut stream = local::connect(Path::new(path)).await.unwrap();
    let first = next_line(&mut stream).await.unwrap();
    assert!(is_registration(&first), "{first}");
}

#[tokio::test]
async fn over_http_the_app_is_an_mcp_server() {
    let folder = tempfile::tempdir().unwrap();
    let (_started, endpoint) = listen(Embedded::new("Notes").transport(Transport::Http), folder.path()).await;
    let address = endpoint.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).unwrap();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } });
    let body = body.to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: tools/list\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"ClickElement\""), "{answer}");
}

#[tokio::test]
async fn an_app_that_is_not_advertised_dials_the_gateway_with_a_token_and_writes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let embedded = Embedded::new("Notes").secret(SECRET).advertise(false);
    let embedded = embedded.at(Door::Tcp(gateway.local_addr().unwrap())).instances_in(folder.path());
    let started = embedded.start(empty()).await.unwrap();
    assert!(matches!(started, Started::Dialling(_)));
    let (mut stream, _) = tokio::time::timeout(PATIENCE, gateway.accept()).await.unwrap().unwrap();
    let first = next_line(&mut stream).await.unwrap();
    assert!(is_registration(&first), "{first}");
    assert!(first["authToken"].as_str().is_some_and(|token| !token.is_empty()), "{first}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
