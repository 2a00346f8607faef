//! An issuer: publishes its metadata and keys, answers questions about tokens, and counts what it is asked.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use toolyard_model::Scope;
use toolyard_oauth::{Http, IntrospectionSettings, ResourceServer, ResourceSettings};
use toolyard_serve::admit::{Refusal, Verdict, VerifyToken as _};

pub(crate) const GATEWAY: &str = "https://yard.example";

/// A key that nothing else is signed with.
const RSA: &[u8] = include_bytes!("rsa.der");

pub(crate) struct Issuer {
    pub(crate) base: String,
    pub(crate) state: Arc<Mutex<State>>,
    keys: Keys,
    scope: Scope,
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.scope.cancel();
    }
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) jwks: Value,
    /// The answers about opaque tokens; others are not active.
    pub(crate) opaque: HashMap<String, Value>,
    /// How often each path was asked for.
    pub(crate) asked: HashMap<String, usize>,
    pub(crate) authorization: Option<String>,
    pub(crate) is_broken: bool,
}

struct Keys {
    rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
    random: SystemRandom,
}

impl Issuer {
    pub(crate) async fn start() -> Self {
        let keys = Keys::new();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State { jwks: keys.jwks(), ..State::default() }));
        let (scope, serving, own) = (Scope::new(), state.clone(), base.clone());
        let connections = scope.child();
        scope.spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (state, base) = (serving.clone(), own.clone());
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(state.clone(), base.clone(), request));
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { base, state, keys, scope }
    }

    pub(crate) fn asked(&self, path: &str) -> usize {
        self.state.lock().asked.get(path).copied().unwrap_or_default()
    }

    pub(crate) fn settings(&self) -> ResourceSettings {
        ResourceSettings {
            base: GATEWAY.into(),
            issuers: vec![self.base.clone()],
            jwks_uri: None,
            audience: Vec::new(),
            scopes: Vec::new(),
            role_claims: vec!["groups".into()],
            introspection: None,
        }
    }

    pub(crate) fn server(&self) -> ResourceServer {
        ResourceServer::new(Http::default(), self.settings())
    }

    pub(crate) fn server_with_introspection(&self) -> ResourceServer {
        let introspection =
            IntrospectionSettings { url: None, client_id: "yard".into(), client_secret: Some("hush".into()) };
        let settings = ResourceSettings { introspection: Some(introspection), ..self.settings() };
        ResourceServer::new(Http::default(), settings)
    }

    /// Claims that are accepted.
    pub(crate) fn claims(&self) -> Value {
        json!({
            "iss": self.base, "sub": "ann", "aud": format!("{GATEWAY}/mcp"), "exp": now() + 300,
            "groups": ["ops"],
        })
    }

    /// Claims that are accepted, but for these.
    pub(crate) fn claims_with(&self, changes: &Value) -> Value {
        let mut claims = self.claims();
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }

    pub(crate) fn token(&self, algorithm: &str, claims: &Value) -> String {
        let header = json!({ "alg": algorithm, "typ": "at+jwt", "kid": algorithm });
        self.sign(&header, claims)
    }

    /// Signs with the key that the header's `kid` names; with `RS256` if there is none of that name.
    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        let encode = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = self.keys.sign(header["kid"].as_str().unwrap_or_default(), signed.as_bytes());
        format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature))
    }

    pub(crate) fn rsa_public(&self) -> Vec<u8> {
        self.keys.rsa.public().as_ref().to_vec()
    }
}

impl Keys {
    fn new() -> Self {
        let random = SystemRandom::new();
        let p256 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Self {
            rsa: RsaKeyPair::from_pkcs8(RSA).unwrap(),
            p256: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, p256.as_ref(), &random).unwrap(),
            ed25519: Ed25519KeyPair::from_pkcs8(ed25519.as_ref()).unwrap(),
            random,
        }
    }

    fn jwks(&self) -> Value {
        let encode = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
        let rsa: RsaPublicKeyComponents<Vec<u8>> = self.rsa.public().into();
        let point = self.p256.public_key().as_ref();
        json!({ "keys": [
            {
                "kty": "RSA", "use": "sig", "kid": "RS256",
                "n": encode(&rsa.n),
                "e": encode(&rsa.e),
            },
            { "kty": "EC", "crv": "P-256", "kid": "ES256", "x": encode(&point[1..33]), "y": encode(&point[33..]) },
            { "kty": "OKP", "crv": "Ed25519", "kid": "EdDSA", "x": encode(self.ed25519.public_key().as_ref()) },
            { "kty": "AKP", "alg": "ML-DSA-44", "kid": "later" },
        ] })
    }

    fn sign(&self, key: &str, message: &[u8]) -> Vec<u8> {
        match key {
            "ES256" => self.p256.sign(&self.random, message).unwrap().as_ref().to_vec(),
            "EdDSA" => self.ed25519.sign(message).as_ref().to_vec(),
            _ => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                self.rsa.sign(&RSA_PKCS1_SHA256, &self.random, message, &mut signature).unwrap();
                signature
            }
        }
    }
}

async fn answer(
    state: Arc<Mutex<State>>,
    base: String,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let authorization = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    let authorization = authorization.map(str::to_owned);
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let mut state = state.lock();
    *state.asked.entry(path.clone()).or_default() += 1;
    let found = match path.as_str() {
        _ if state.is_broken => None,
        "/.well-known/oauth-authorization-server" => Some(json!({
            "issuer": base,
            "jwks_uri": format!("{base}/jwks"),
            "introspection_endpoint": format!("{base}/introspect"),
        })),
        "/jwks" => Some(state.jwks.clone()),
        "/introspect" => {
            state.authorization = authorization;
            let token = form_urlencoded::parse(&body).find(|(name, _)| name == "token").unwrap().1;
            Some(state.opaque.get(&*token).cloned().unwrap_or(json!({ "active": false })))
        }
        _ => None,
    };
    let status = if found.is_some() { 200 } else { 503 };
    let body = Full::new(Bytes::from(found.unwrap_or_default().to_string()));
    Ok(Response::builder().status(status).body(body).unwrap())
}

/// What a request with this token leads to: checked without a wait if that is possible.
pub(crate) async fn verdict(server: &ResourceServer, token: &str) -> Verdict {
    match server.check(token) {
        Some(verdict) => verdict,
        None => server.verify(token).await,
    }
}

/// Why a token is refused.
pub(crate) async fn refusal(server: &ResourceServer, token: &str) -> Refusal {
    match verdict(server, token).await {
        Verdict::Refused(refusal) => refusal,
        Verdict::Valid(bearer) => panic!("accepted as {:?}", bearer.principal),
    }
}

pub(crate) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}
