//! The program behind a proxy, with a private authority, and with a client certificate, against servers of this
//! process: a TLS door before the fixture, and a proxy that records what it is asked for.
//!
//! The certificates are valid until 2126; the key of their authority was thrown away.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]
#![expect(clippy::print_stderr, reason = "a started program reports there why it failed")]
#![expect(clippy::disallowed_methods, reason = "all tasks end with the runtime of the test")]

#[expect(dead_code, reason = "of what tests share, only some is needed here")]
#[path = "../support/fixture.rs"]
mod fixture;
#[expect(dead_code, reason = "of what tests share, only some is needed here")]
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/program.rs"]
mod program;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use fixture::serve_fixture;
use gateway::Reach;
use program::Program;

fn certificate(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/network/certificates").join(name)
}

/// A TLS door before the fixture, and a proxy that leads to it, whatever it is asked for.
struct Network {
    runtime: Runtime,
    door: u16,
    proxy: u16,
    /// The first lines of what the proxy was asked for, and the credentials that came with them.
    asked: Arc<Mutex<Vec<String>>>,
    _fixture: Program,
}

impl Network {
    fn new(wants_client: bool) -> Self {
        let (fixture, reach) = serve_fixture("both");
        let Reach::Url(url) = reach else { unreachable!("it is behind HTTP") };
        let behind = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let runtime = Runtime::new().unwrap();
        let (door, proxy) = runtime.block_on(async {
            let listen = || TcpListener::bind("127.0.0.1:0");
            (listen().await.unwrap(), listen().await.unwrap())
        });
        let (door_port, proxy_port) = (door.local_addr().unwrap().port(), proxy.local_addr().unwrap().port());
        let acceptor = TlsAcceptor::from(Arc::new(tls(wants_client)));
        runtime.spawn(async move {
            while let Ok((stream, _)) = door.accept().await {
                let (acceptor, behind) = (acceptor.clone(), behind.clone());
                drop(tokio::task::spawn(async move {
                    let mut client = acceptor.accept(stream).await.ok()?;
                    let mut server = TcpStream::connect(behind).await.ok()?;
                    copy_bidirectional(&mut client, &mut server).await.ok()
                }));
            }
        });
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let record = asked.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = proxy.accept().await {
                drop(tokio::task::spawn(relay(stream, door_port, record.clone())));
            }
        });
        Self { runtime, door: door_port, proxy: proxy_port, asked, _fixture: fixture }
    }

    /// Calls a tool at `host`: what is printed, and the error otherwise.
    fn call(&self, host: &str, more: &[&str], variables: &[(&str, &str)]) -> Result<String, String> {
        let _runtime = self.runtime.enter();
        let home = tempfile::tempdir().unwrap();
        let url = format!("https://{host}/mcp");
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolyard"));
        command.args(["tools", "call", "greet", "name=you"]).env_clear().env("HOME", home.path());
        if more.is_empty() {
            command.args(["--url", &url]);
        }
        let output = command.args(more).envs(variables.iter().copied()).output().unwrap();
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout).unwrap());
        }
        Err(String::from_utf8(output.stderr).unwrap())
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock())
    }

    fn proxy(&self) -> String {
        format!("http://ada:secret@127.0.0.1:{}", self.proxy)
    }
}

fn tls(wants_client: bool) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = if wants_client {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificate("ca.pem")).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let chain = vec![CertificateDer::from_pem_file(certificate("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(certificate("server.key")).unwrap();
    builder.with_single_cert(chain, key).unwrap()
}

/// Answers one `CONNECT` and passes all bytes on to the door.
async fn relay(stream: TcpStream, door: u16, record: Arc<Mutex<Vec<String>>>) -> Option<()> {
    let mut client = BufReader::new(stream);
    let (mut first, mut line, mut credentials) = (String::new(), String::new(), "none".to_owned());
    client.read_line(&mut first).await.ok()?;
    while line.trim() != "" || line.is_empty() {
        line.clear();
        client.read_line(&mut line).await.ok()?;
        if let Some(value) = line.to_lowercase().strip_prefix("proxy-authorization:") {
            value.split_whitespace().next()?.clone_into(&mut credentials);
        }
    }
    record.lock().push(format!("{} {credentials}", first.trim()));
    client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.ok()?;
    let mut server = TcpStream::connect(("127.0.0.1", door)).await.ok()?;
    copy_bidirectional(&mut client, &mut server).await.ok()?;
    Some(())
}

const HELLO: &str = "Hello, you!\n";

#[test]
fn https_goes_through_the_proxy_unless_the_host_is_excluded() {
    let network = Network::new(false);
    let (authority, proxy) = (certificate("ca.pem"), network.proxy());
    let trusted = ("SSL_CERT_FILE", authority.to_str().unwrap());
    // Nothing listens at this port, so only the proxy can lead to the server.
    let got = network.call("localhost:9", &[], &[trusted, ("HTTPS_PROXY", &proxy)]);
    assert_eq!(got.as_deref(), Ok(HELLO));
    let asked = network.asked();
    assert!(asked.iter().all(|line| line == "CONNECT localhost:9 HTTP/1.1 basic"), "{asked:?}");
    assert!(!asked.is_empty());
    let here = format!("localhost:{}", network.door);
    let excluded = [trusted, ("https_proxy", proxy.as_str()), ("NO_PROXY", "example.com,localhost")];
    assert_eq!(network.call(&here, &[], &excluded).as_deref(), Ok(HELLO));
    assert_eq!(network.asked(), Vec::<String>::new());
}

#[test]
fn a_proxy_that_cannot_be_used_is_named() {
    let network = Network::new(false);
    let refused = network.call("mcp.test", &[], &[("HTTPS_PROXY", "http://127.0.0.1:9")]).unwrap_err();
    assert!(refused.contains("through the proxy 127.0.0.1:9"), "{refused}");
    let socks = network.call("mcp.test", &[], &[("HTTPS_PROXY", "socks5://ada:pw@127.0.0.1:9")]).unwrap_err();
    assert!(socks.contains("the proxy at 127.0.0.1 is not reached by http://"), "{socks}");
    assert!(!socks.contains("pw"), "{socks}");
}

#[test]
fn a_private_authority_is_trusted_only_if_the_user_names_it() {
    let network = Network::new(false);
    let host = format!("localhost:{}", network.door);
    let authority = certificate("ca.pem");
    assert_eq!(
        network.call(&host, &[], &[("SSL_CERT_FILE", authority.to_str().unwrap())]).as_deref(),
        Ok(HELLO)
    );
    let untrusted = network.call(&host, &[], &[]).unwrap_err();
    assert!(untrusted.contains("certificate"), "{untrusted}");
}

#[test]
fn a_client_certificate_of_the_config_is_shown_to_the_server() {
    let network = Network::new(true);
    let host = format!("localhost:{}", network.door);
    let authority = certificate("ca.pem");
    let trusted = [("SSL_CERT_FILE", authority.to_str().unwrap())];
    assert!(network.call(&host, &[], &trusted).is_err(), "the server wants a certificate");
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("config.toml");
    let keys = |key: &str| {
        let (certificate, key) = (certificate("client.pem"), certificate(key));
        format!("client_cert = {certificate:?}\nclient_key = {key:?}\n")
    };
    let arguments = ["--config", config.to_str().unwrap()];
    std::fs::write(&config, format!("[upstreams.x]\nurl = \"https://{host}/mcp\"\n{}", keys("client.key")))
        .unwrap();
    assert_eq!(network.call(&host, &arguments, &trusted).as_deref(), Ok(HELLO));
    std::fs::write(&config, format!("[upstreams.x]\nurl = \"https://{host}/mcp\"\n{}", keys("ca.pem")))
        .unwrap();
    let wrong = network.call(&host, &arguments, &trusted).unwrap_err();
    assert!(wrong.contains("cannot read the client certificate in"), "{wrong}");
}
