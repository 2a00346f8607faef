//! Admits requests in a loop, for counting instructions: `cargo xtask bench --tokens` runs it under valgrind.
//!
//! `cached_token CASE COUNT`, where CASE is `open` (no token is required), `connection` (a JWT that the same connection
//! has presented before) or `table` (a JWT that another connection has presented before).

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use toolyard_oauth::{Http, ResourceServer, ResourceSettings};
use toolyard_serve::admit::{ConnectionCredential, Denial, Gate};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const PATH: &str = "/mcp";
const GATEWAY: &str = "https://yard.example";

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(case), Some(count)) = (arguments.next(), arguments.next()) else {
        return Err("usage: cached_token open|connection|table COUNT".into());
    };
    let count: u64 = count.parse()?;
    let (issuer, token) = issuer()?;
    let header = format!("Bearer {token}");
    let closed = Gate::open().with_issued(Arc::new(ResourceServer::new(Http::default(), settings(issuer))));
    let first = ConnectionCredential::default();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        closed.verify_on(&first, header.as_bytes(), &token).await;
    });
    admit(&closed, &first, Some(&header))?;
    let open = Gate::open();
    match case.as_str() {
        "open" => (0..count).try_for_each(|_| admit(&open, &first, None)),
        "connection" => (0..count).try_for_each(|_| admit(&closed, &first, Some(&header))),
        "table" => {
            (0..count).try_for_each(|_| admit(&closed, &ConnectionCredential::default(), Some(&header)))
        }
        other => Err(format!("unknown case `{other}`").into()),
    }
}

fn admit(gate: &Gate, ticket: &ConnectionCredential, header: Option<&str>) -> Result<()> {
    match gate.admit_on(ticket, PATH, header.map(str::as_bytes)) {
        Ok(admitted) => {
            std::hint::black_box(admitted);
            Ok(())
        }
        Err(Denial::Answer(challenge)) => Err(challenge.text.into()),
        Err(Denial::Unverified(_)) => Err("the token is not in the cache".into()),
    }
}

fn settings(issuer: String) -> ResourceSettings {
    ResourceSettings {
        base: GATEWAY.into(),
        issuers: vec![issuer],
        jwks_uri: None,
        audience: Vec::new(),
        scopes: vec!["mcp".into()],
        role_claims: vec!["groups".into()],
        introspection: None,
    }
}

/// An issuer on this machine that publishes one key, and a token of it.
fn issuer() -> Result<(String, String)> {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| "no key was made")?;
    let key = Ed25519KeyPair::from_pkcs8(document.as_ref()).map_err(|_| "the key is invalid")?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let base = format!("http://{}", listener.local_addr()?);
    let x = BASE64URL_NOPAD.encode(key.public_key().as_ref());
    let metadata = json!({ "issuer": base, "jwks_uri": format!("{base}/jwks") });
    let keys = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x }] });
    std::thread::spawn(move || publish(&listener, &metadata, &keys));
    let expires = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() + 3600;
    let header = json!({ "alg": "EdDSA", "typ": "at+jwt", "kid": "k" });
    let claims = json!({
        "iss": base, "sub": "ann", "aud": format!("{GATEWAY}{PATH}"), "exp": expires, "scope": "mcp",
        "groups": ["engineering", "on-call"],
    });
    let encode = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let signed = format!("{}.{}", encode(&header), encode(&claims));
    let signature = BASE64URL_NOPAD.encode(key.sign(signed.as_bytes()).as_ref());
    Ok((base, format!("{signed}.{signature}")))
}

fn publish(listener: &TcpListener, metadata: &Value, keys: &Value) {
    for mut stream in listener.incoming().flatten() {
        let Ok(reading) = stream.try_clone() else { return };
        let mut lines = BufReader::new(reading).lines().map_while(std::result::Result::ok);
        let request = lines.next().unwrap_or_default();
        lines.take_while(|line| !line.is_empty()).for_each(drop);
        let body = if request.contains("/jwks") { keys } else { metadata }.to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
        // A client that is gone needs no answer.
        let _ = write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len());
    }
}
