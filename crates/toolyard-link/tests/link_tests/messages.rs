//! What a person reads when a connection fails: what failed, why, and what to do, each once.

use std::process::Stdio;

use http::HeaderMap;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use toolyard_link::child::ChildSpec;
use toolyard_link::http::HttpSpec;
use toolyard_link::{ConnectError, EraPin, Target, Timeouts, Trouble, UpstreamTarget, connect};
use toolyard_model::Scope;
use toolyard_proto::Reason;

use crate::support::{offer, soon};

async fn fails(target: Target) -> ConnectError {
    let scope = Scope::new();
    let upstream =
        UpstreamTarget { name: "far".into(), target, era: EraPin::Auto, timeouts: Timeouts::default() };
    let error = soon(connect(&upstream, None, &offer(), &scope)).await.unwrap_err();
    soon(scope.end()).await;
    error
}

async fn fails_at(url: &str, token: Option<&str>) -> ConnectError {
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        headers.insert("authorization", token.parse().unwrap());
    }
    fails(Target::Http(HttpSpec::new(url.parse().unwrap(), headers))).await
}

/// What is shown beside the name of the upstream, and the hint.
fn parts(error: ConnectError) -> (String, String) {
    let reason = Reason::from(error);
    (reason.summary(), reason.hint().unwrap_or_default().to_owned())
}

/// A server that answers each request with these bytes and closes.
async fn always(response: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut vec![0; 64 * 1024]).await;
            let _ = stream.write_all(response.as_bytes()).await;
        }
    });
    address.to_string()
}

fn response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}", body.len())
}

/// A TLS server with a certificate of a private authority. It ends with the test.
async fn tls_server() -> (tokio::process::Child, String) {
    let script = "
import http.server, ssl, sys
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
";
    let certificate = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/private-ca.pem");
    let mut child = tokio::process::Command::new("python3")
        .args(["-c", script, certificate])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut port = String::new();
    soon(BufReader::new(child.stdout.take().unwrap()).read_line(&mut port)).await.unwrap();
    (child, format!("127.0.0.1:{}", port.trim()))
}

#[tokio::test]
async fn an_unknown_certificate_authority_is_named_with_the_remedy() {
    let (_server, address) = tls_server().await;
    let (what, hint) = parts(fails_at(&format!("https://{address}/mcp"), None).await);
    let url = format!("https://{address}/mcp");
    assert_eq!(
        what,
        format!("has a certificate that is not trusted at {url}: it is from an unknown authority")
    );
    assert_eq!(hint, "point SSL_CERT_FILE at the certificate of your CA");
}

#[tokio::test]
async fn https_to_a_plain_port_suggests_http() {
    let address = always(response("200 OK", "", "plain")).await;
    let (what, hint) = parts(fails_at(&format!("https://{address}/mcp"), None).await);
    assert_eq!(what, format!("does not speak TLS at https://{address}/mcp"));
    assert_eq!(hint, format!("use http://{address}/mcp as `url`"));
}

#[tokio::test]
async fn http_to_a_tls_port_suggests_https() {
    let (_server, address) = tls_server().await;
    let error = fails_at(&format!("http://{address}/mcp"), None).await;
    assert_eq!(error.trouble, Trouble::Unreachable);
    let (what, hint) = parts(error);
    assert!(what.starts_with("closed the connection before it answered"), "{what}");
    assert_eq!(hint, "if the server requires TLS, write https:// in `url`");
}

#[tokio::test]
async fn missing_rejected_and_oauth_credentials_are_distinguished() {
    let url = |address: &str| format!("http://{address}/mcp");
    let plain = always(response("401 Unauthorized", "www-authenticate: Bearer\r\n", "")).await;
    let (what, hint) = parts(fails_at(&url(&plain), None).await);
    assert_eq!(what, "requires credentials (HTTP 401)");
    assert!(hint.starts_with("set `headers` of `[upstreams.far]`"), "{hint}");

    let (what, hint) = parts(fails_at(&url(&plain), Some("Bearer wrong")).await);
    assert_eq!(what, "rejected the credentials in `headers.Authorization` (HTTP 401)");
    assert_eq!(hint, "check the token");

    let metadata = "www-authenticate: Bearer resource_metadata=\"http://a.test/.well-known/x\"\r\n";
    let oauth = always(response("401 Unauthorized", metadata, "")).await;
    let (what, hint) = parts(fails_at(&url(&oauth), None).await);
    assert_eq!(what, "needs an OAuth sign-in (HTTP 401)");
    assert!(hint.contains("[upstreams.far]"), "{hint}");

    let forbidden = always(response("403 Forbidden", "", "")).await;
    let error = fails_at(&url(&forbidden), Some("Bearer weak")).await;
    assert_eq!(error.trouble, Trouble::Credentials);
    let (what, hint) = parts(error);
    assert_eq!(what, "refuses access (HTTP 403)");
    assert!(hint.starts_with("check the rights of the token"), "{hint}");
}

#[tokio::test]
async fn a_web_page_is_recognised_and_reported_once() {
    let page = response("200 OK", "content-type: text/html\r\n", "<!DOCTYPE html><p>Welcome");
    let address = always(page).await;
    let (what, hint) = parts(fails_at(&format!("http://{address}/"), None).await);
    assert_eq!(what, "answered with a web page, not MCP");
    assert_eq!(hint, "check the path in `url`; it is often `/mcp` or `/sse`");
}

#[tokio::test]
async fn a_wrong_path_is_reported_once() {
    let address = always(response("404 Not Found", "content-type: text/html\r\n", "<p>no")).await;
    let (what, hint) = parts(fails_at(&format!("http://{address}/x"), None).await);
    assert_eq!(what, format!("answered with HTTP 404 Not Found at http://{address}/x"));
    assert_eq!(hint, "check the path in `url`; it is often `/mcp` or `/sse`");
}

#[tokio::test]
async fn an_unknown_protocol_version_is_reported_once() {
    let result = json!({ "protocolVersion": "2023-01-01", "capabilities": {} });
    let answer = json!({ "jsonrpc": "2.0", "id": "yard-initialize", "result": result }).to_string();
    let address = always(response("200 OK", "content-type: application/json\r\n", &answer)).await;
    let (what, hint) = parts(fails_at(&format!("http://{address}/mcp"), None).await);
    let expected = "speaks MCP \"2023-01-01\"; Toolyard supports 2024-11-05 to 2026-07-28";
    assert!(what.starts_with(expected) && what.matches("2023-01-01").count() == 1, "{what}");
    assert_eq!(hint, "update the server");
}

#[tokio::test]
async fn a_command_line_as_command_is_taken_apart_in_the_hint() {
    let (what, hint) = parts(fails(Target::Child(ChildSpec::new("python3 srv.py"))).await);
    assert_eq!(what, "program `python3 srv.py` was not found");
    assert_eq!(hint, "write `command = \"python3\"`, `args = [\"srv.py\"]`");
}

#[tokio::test]
async fn a_folder_as_command_is_called_a_folder() {
    let (what, hint) = parts(fails(Target::Child(ChildSpec::new("/tmp"))).await);
    assert_eq!(what, "`/tmp` is a folder, not a program");
    assert_eq!(hint, "name the program to run as `command`");
}

#[tokio::test]
async fn the_error_for_a_server_that_is_not_running_states_what_to_check() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (what, hint) = parts(fails_at(&format!("http://{free}/mcp"), None).await);
    assert!(what.starts_with(&format!("cannot be reached at http://{free}/mcp: ")), "{what}");
    assert_eq!(hint, "check that it is running and that `url` is right");
}
