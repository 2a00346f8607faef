//! The HTTP client for metadata, registration and tokens: small JSON answers, bounded in size and time, no redirects.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use toolyard_dial::Dialer;
use toolyard_proto::Reason;

use crate::error::Error;
use crate::url;

/// How long one whole exchange may take.
const PATIENCE: Duration = Duration::from_secs(20);
const LARGEST: usize = 1024 * 1024;

type Plain = Client<HttpConnector, Full<Bytes>>;
type Tls = Client<HttpsConnector<Dialer>, Full<Bytes>>;

/// Sends the requests of OAuth. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Http {
    plain: Plain,
    /// The system's certificates are read when they are first needed.
    tls: std::sync::Arc<OnceLock<Tls>>,
}

impl Default for Http {
    fn default() -> Self {
        let plain = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
        Self { plain, tls: std::sync::Arc::default() }
    }
}

/// An answer with its status. `body` is null where the body is not JSON.
#[derive(Debug)]
pub(crate) struct JsonAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Http {
    pub(crate) async fn get(&self, url: &str) -> Result<JsonAnswer, Error> {
        self.send(url, Method::GET, None, None, Bytes::new()).await
    }

    /// `authorization` is the value of that header.
    pub(crate) async fn post_form(
        &self,
        url: &str,
        pairs: &[(&str, &str)],
        authorization: Option<HeaderValue>,
    ) -> Result<JsonAnswer, Error> {
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        self.send(url, Method::POST, Some(kind), authorization, url::form(pairs).into()).await
    }

    pub(crate) async fn post_json(&self, url: &str, body: &Value) -> Result<JsonAnswer, Error> {
        let kind = HeaderValue::from_static("application/json");
        self.send(url, Method::POST, Some(kind), None, body.to_string().into()).await
    }

    async fn send(
        &self,
        url: &str,
        method: Method,
        kind: Option<HeaderValue>,
        authorization: Option<HeaderValue>,
        body: Bytes,
    ) -> Result<JsonAnswer, Error> {
        let uri: Uri = url.parse().map_err(|_| Error::violation(format!("`{url}` is not a URL")))?;
        if !url::is_secure(&uri) {
            let reason = Reason::new(format!("`{}` is not an https:// address", shown(&uri)));
            return Err(Error::violation(
                reason.because("sign-ins over plain HTTP work on this machine only"),
            ));
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        for (name, value) in [(CONTENT_TYPE, kind), (AUTHORIZATION, authorization)] {
            if let Some(value) = value {
                request.headers_mut().insert(name, value);
            }
        }
        let exchange = tokio::time::timeout(PATIENCE, self.exchange(&uri, request)).await;
        let failed = |cause: String| {
            Error::unreachable(Reason::new(format!("{} cannot be reached", shown(&uri))).because(cause))
        };
        match exchange {
            Ok(answer) => answer.map_err(failed),
            Err(_) => Err(failed(format!("no answer within {} s", PATIENCE.as_secs()))),
        }
    }

    async fn exchange(&self, uri: &Uri, request: Request<Full<Bytes>>) -> Result<JsonAnswer, String> {
        let response = if uri.scheme_str() == Some("http") {
            self.plain.request(request).await
        } else {
            self.tls().map_err(|error| error.to_string())?.request(request).await
        };
        let (parts, body) = response.map_err(|error| root_cause(&error))?.into_parts();
        let body = Limited::new(body, LARGEST).collect().await.map_err(|error| error.to_string())?;
        let body = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        Ok(JsonAnswer { status: parts.status, headers: parts.headers, body })
    }

    fn tls(&self) -> io::Result<&Tls> {
        if let Some(ready) = self.tls.get() {
            return Ok(ready);
        }
        let connector = toolyard_dial::https(None)?;
        Ok(self.tls.get_or_init(|| Client::builder(TokioExecutor::new()).build(connector)))
    }
}

/// Without user info and query, which may hold secrets.
pub(crate) fn shown(url: &Uri) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let (scheme, host) = (url.scheme_str().unwrap_or_default(), url.host().unwrap_or_default());
    format!("{scheme}://{host}{port}{}", url.path())
}

fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
