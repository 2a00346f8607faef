//! A protected server and its authorization server on one port, whose answers a test can change, and which count what
//! is asked of them.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use toolyard_model::Scope;
use toolyard_oauth::Http;
use toolyard_oauth::client::{Challenge, Keeper, SHARED, Settings, Target, UpstreamAuth, Vault};

pub(crate) struct Server {
    pub(crate) base: String,
    pub(crate) script: Arc<Mutex<Script>>,
    folder: tempfile::TempDir,
    scope: Scope,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.scope.cancel();
    }
}

/// What the server does, and what it was asked.
pub(crate) struct Script {
    /// The resource metadata; nothing for a server without.
    pub(crate) resource: Option<Value>,
    pub(crate) metadata: Value,
    pub(crate) registration: (u16, Value),
    /// The answers of the token endpoint in order; the last one is repeated.
    pub(crate) tokens: Vec<(u16, Value)>,
    pub(crate) device: Value,
    /// All requests: the path, and the form or JSON that came with it.
    pub(crate) asked: Vec<(String, Value)>,
    pub(crate) basic: Option<String>,
    /// The token endpoint waits for a permit before each answer, if set.
    pub(crate) hold: Option<Arc<tokio::sync::Semaphore>>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let script = Arc::new(Mutex::new(Script::new(&base)));
        let (scope, serving) = (Scope::new(), script.clone());
        let connections = scope.child();
        scope.spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let script = serving.clone();
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(script.clone(), request));
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { base, script, folder: tempfile::tempdir().unwrap(), scope }
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock()
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub(crate) fn vault(&self) -> Vault {
        Vault::open(self.folder.path()).unwrap()
    }

    pub(crate) fn target(&self, settings: Settings) -> Target {
        Target { name: "far".into(), url: format!("{}/mcp", self.base).parse().unwrap(), settings }
    }

    pub(crate) fn keeper(&self) -> Arc<Keeper> {
        self.keeper_with(Settings::default())
    }

    pub(crate) fn keeper_with(&self, settings: Settings) -> Arc<Keeper> {
        Arc::new(Keeper::new(Http::default(), self.vault(), self.target(settings), SHARED))
    }

    pub(crate) fn upstream(&self, settings: Settings) -> UpstreamAuth {
        UpstreamAuth::new(Http::default(), self.vault(), self.target(settings), Arc::default())
    }

    /// Signs in as a browser would, whose user agrees to everything.
    pub(crate) async fn sign_in(&self, keeper: &Keeper) {
        let sign_in = keeper.begin(&Challenge::default(), "http://127.0.0.1:1/oauth/callback").await.unwrap();
        let query = format!("code=c&state={}", sign_in.state());
        keeper.finish(&sign_in, &query).await.unwrap();
    }

    /// Waits until so many requests were sent to one path.
    pub(crate) async fn was_asked(&self, path: &str, times: usize) {
        let waiting = async {
            while self.asked(path).len() < times {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await.unwrap();
    }

    /// What was sent to one path.
    pub(crate) fn asked(&self, path: &str) -> Vec<Value> {
        self.script().asked.iter().filter(|(asked, _)| asked == path).map(|(_, body)| body.clone()).collect()
    }
}

impl Script {
    fn new(base: &str) -> Self {
        Self {
            resource: Some(json!({ "resource": format!("{base}/mcp"), "authorization_servers": [base] })),
            metadata: json!({
                "issuer": base,
                "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": format!("{base}/token"),
                "registration_endpoint": format!("{base}/register"),
                "revocation_endpoint": format!("{base}/revoke"),
                "device_authorization_endpoint": format!("{base}/device"),
                "code_challenge_methods_supported": ["S256"],
            }),
            registration: (201, json!({ "client_id": "registered" })),
            tokens: vec![(200, token("first", Some("r1"), 3600))],
            device: json!({ "device_code": "d", "user_code": "ABCD", "verification_uri": "https://x", "interval": 1 }),
            asked: Vec::new(),
            basic: None,
            hold: None,
        }
    }

    fn answer(&mut self, path: &str, body: Value) -> (u16, Value) {
        self.asked.push((path.to_owned(), body));
        match path {
            "/.well-known/oauth-protected-resource/mcp" => match &self.resource {
                Some(resource) => (200, resource.clone()),
                None => (404, json!({})),
            },
            "/.well-known/oauth-authorization-server" => (200, self.metadata.clone()),
            "/register" => self.registration.clone(),
            "/token" if self.tokens.len() > 1 => self.tokens.remove(0),
            "/token" => self.tokens[0].clone(),
            "/device" => (200, self.device.clone()),
            "/revoke" => (200, json!({})),
            _ => (404, json!({})),
        }
    }
}

pub(crate) fn token(access: &str, refresh: Option<&str>, seconds: u64) -> Value {
    let mut token = json!({ "access_token": access, "token_type": "Bearer", "expires_in": seconds });
    if let Some(refresh) = refresh {
        token["refresh_token"] = refresh.into();
    }
    token
}

async fn answer(
    script: Arc<Mutex<Script>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let basic = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or_else(|_| {
        let pairs: HashMap<_, _> = form_urlencoded::parse(&body).into_owned().collect();
        json!(pairs)
    });
    let ((status, body), hold) = {
        let mut script = script.lock();
        script.basic = basic.or(script.basic.take());
        (script.answer(&path, body), script.hold.clone())
    };
    if let Some(hold) = hold.filter(|_| path == "/token") {
        hold.acquire().await.unwrap().forget();
    }
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    Ok(response)
}
