//! Every door: the fixture behind each transport, and clients that come in by each.

use std::path::Path;

use serde_json::Value;

use super::agenda::FIXTURE;
use super::gateway::{Gateway, Reach};
use super::view::{self, View};
use super::wire::Era;
use super::{Over, check, check_both};

/// How a client reaches a view of the gateway. Its socket is in the folder.
pub(crate) fn to(gateway: &Gateway, door: Over, view: View, folder: &Path) -> Reach {
    let is_alone = view == View::Alone;
    let behind = |sign: &str| if is_alone { format!("{sign}{}", view::ID) } else { String::new() };
    let (path, fragment) = (behind("/"), behind("#"));
    Reach::Url(match door {
        Over::Http if is_alone => gateway.alone(view::ID),
        Over::Http => gateway.everything(),
        Over::Sse => format!("{}/sse{path}", gateway.origin),
        Over::Unix => format!("unix://{}{fragment}", folder.join("mcp.sock").display()),
        Over::Tcp => {
            let note = std::fs::read(gateway.home().join("state/gateway.json")).unwrap();
            let note: Value = serde_json::from_slice(&note).unwrap();
            format!("{}{fragment}", note["tcp"].as_str().unwrap())
        }
        Over::Stdio => return shim(gateway, view),
    })
}

/// What the config of a client runs.
fn shim(gateway: &Gateway, view: View) -> Reach {
    let place = |name: &str| gateway.home().join(name).to_str().unwrap().to_owned();
    let mut words = vec![env!("CARGO_BIN_EXE_toolyard").to_owned(), "stdio".into()];
    words.extend(["--config".into(), place("config.toml"), "--state-dir".into(), place("state")]);
    if view == View::Alone {
        words.extend(["--upstream".to_owned(), view::ID.into()]);
    }
    Reach::Child(words)
}

macro_rules! behind {
    ($($name:ident: $over:ident, $era:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            check(&FIXTURE, Over::$over, Era::$era).await;
        }
    )*};
}

behind! {
    a_legacy_fixture_over_tcp_is_relayed_to_the_byte: Tcp, Legacy;
    a_modern_fixture_over_tcp_is_relayed_to_the_byte: Tcp, Modern;
    a_legacy_fixture_on_a_unix_socket_is_relayed_to_the_byte: Unix, Legacy;
    a_modern_fixture_on_a_unix_socket_is_relayed_to_the_byte: Unix, Modern;
    a_legacy_fixture_over_http_and_sse_is_relayed_to_the_byte: Sse, Legacy;
}

macro_rules! before {
    ($($name:ident: $client:ident, $era:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            check_both(&FIXTURE, Over::Http, Over::$client, Era::$era).await;
        }
    )*};
}

before! {
    a_legacy_client_on_stdio_receives_every_byte: Stdio, Legacy;
    a_modern_client_on_stdio_receives_every_byte: Stdio, Modern;
    a_legacy_client_over_tcp_receives_every_byte: Tcp, Legacy;
    a_modern_client_over_tcp_receives_every_byte: Tcp, Modern;
    a_legacy_client_on_the_unix_socket_receives_every_byte: Unix, Legacy;
    a_modern_client_on_the_unix_socket_receives_every_byte: Unix, Modern;
    a_legacy_client_over_http_and_sse_receives_every_byte: Sse, Legacy;
}
